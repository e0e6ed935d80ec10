package runtime

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/mem"
)

// Windows: how much of a request's commands a queue is given at once (docs/design/requests.md). A command that finds no room is
// held: it waits for a gate, a point of the context's, and its driver knows nothing else of that. It is let go by ending the gate, and
// called off by ending that with a failure.
//
// Of a queue in order it is enough to hear of one end in a window's half; nothing is asked for where nobody is held.
// Lock order: windows.mu is a leaf. Gates are ended, and points asked to tell of their ends, without it.
const (
	leastRoom = 4         // commands that a queue is given at once, at least
	mostRoom  = 256       // and at most
	roomTime  = 2_000_000 // nanoseconds of commands that it is given, if that is more than leastRoom
)

// held is a command that waits for its gate, or one or a copy that waits for such, and stands for it to those who need it. Pooled.
// All fields are protected by windows.mu.
type held struct {
	w           *window  // nil of what only stands
	of          *Request // nil of what only stands
	gate, point mem.Point
	kept        bool   // one outside its request needs it
	counts      bool   // against the window's room
	left        int    // out of order: its waits that have not ended
	at          int    // out of order: where in its window's line
	dead        bool   // it is held no more, but told of waits yet
	seen        uint64 // windows.visit when it was looked at last
	gen         uint32 // lives
	needs       []need
}

// need is what a command waits for, as Data, in one of its lives.
type need struct {
	h   *held
	gen uint32
}

// windows are a context's.
type windows struct {
	line *mem.Timeline // immutable: of gates
	by   devices.Executor
	some atomic.Bool // something is held

	mu    sync.Mutex
	open  []*window           // protected by mu: with held commands
	nodes map[mem.Point]*held // protected by mu: by the point of the command or copy
	held  int                 // protected by mu: commands
	visit uint64              // protected by mu
	due   int                 // protected by mu: how many nodes there are before those that have ended are dropped
	spare []*held             // protected by mu
}

// window is a queue's. All fields but the first are protected by windows.mu.
type window struct {
	ws      *windows // immutable; nil until the queue is open
	inOrder bool     // immutable
	line    []*held  // in order of acceptance; out of order in any
	ready   []*held  // out of order: of these, those whose waits have ended, in that order
	flying  []mem.Point
	watched bool   // of a queue in order: somebody will tell of an end
	each    uint64 // mean nanoseconds between ends while something was held
	since   uint64 // when the last end was seen; 0 while nothing is held
}

// windowed are the operations that are held for room.
var windowed = [...]bool{
	opWrite: true, opRead: true, opCopy: true, opFill: true, opLaunch: true, opHostCall: true,
	opReadRect: true, opWriteRect: true, opCopyRect: true, opAhead: false,
}

func (ws *windows) init(c *Context) {
	ws.by, ws.nodes = c.by, make(map[mem.Point]*held)
	ws.line = mem.NewTimeline(c.name+".requests", false, c.pointFailed)
	ws.line.SleepBy(c.by.Sleeper())
}

// hold returns what a request's command is held by, or nil where there is room for it.
func (ws *windows) hold(req *request, waits []mem.Wait) *held {
	w := &req.q.window
	ready := w.inOrder || allEnded(waits)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.sweep()
	counts := w.inOrder || req.op != opHostCall // which may wait for what is behind it
	if ready && len(w.line) == 0 && (len(w.flying) < w.room() || !counts) {
		return nil
	}
	h := ws.take()
	h.w, h.of, h.gate, h.counts = w, req.of, ws.line.Next(), counts
	return h
}

func allEnded(waits []mem.Wait) bool {
	return !slices.ContainsFunc(waits, func(w mem.Wait) bool { return !w.Point.Reached() })
}

// drop gives up what a refused command was held by.
func (ws *windows) drop(h *held) {
	ws.line.End(h.gate, nil)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.recycle(h)
}

// took notes a request's command that was accepted: held by h, or with room where that is nil.
func (ws *windows) took(req *request, h *held, p mem.Point, waits []mem.Wait) {
	w := &req.q.window
	ws.mu.Lock()
	if h == nil {
		if !p.Reached() && (w.inOrder || req.op != opHostCall) {
			w.flying = append(w.flying, p)
		}
		ws.mu.Unlock()
		if !w.inOrder {
			notify(p, w)
		}
		return
	}
	if h.point, ws.nodes[p] = p, h; len(w.line) == 0 {
		ws.open = append(ws.open, w)
	}
	h.at = len(w.line)
	w.line = append(w.line, h)
	ws.held++
	ws.some.Store(true)
	asks := !w.watched // else somebody tells of an end
	if !w.inOrder {
		h.left = len(waits) + 1
	}
	ws.mu.Unlock()
	if w.inOrder {
		if asks {
			w.advance()
		}
		return
	}
	for i := range waits {
		if waits[i].Point == h.gate {
			(*ready)(h).PointReached(mem.Point{}, nil)
			continue
		}
		notify(waits[i].Point, (*ready)(h))
	}
	(*ready)(h).PointReached(mem.Point{}, nil)
}

// ready is a held command of a queue out of order, as its waits tell it.
type ready held

// PointReached implements mem.Waiter.
func (r *ready) PointReached(mem.Point, error) {
	h := (*held)(r)
	ws, w := h.w.ws, h.w
	ws.mu.Lock()
	h.left--
	goes := h.left == 0
	if goes && h.dead {
		ws.recycle(h)
	} else if goes {
		if w.ready = append(w.ready, h); !h.counts { // it goes at once
			copy(w.ready[1:], w.ready)
			w.ready[0] = h
		}
	}
	ws.mu.Unlock()
	if goes {
		w.advance()
	}
}

// PointReached implements mem.Waiter: a command has ended that was let go.
func (w *window) PointReached(mem.Point, error) {
	w.ws.mu.Lock()
	if w.inOrder {
		w.watched = false
	}
	idle := len(w.line) == 0
	w.ws.mu.Unlock()
	if !idle {
		w.advance()
	}
}

// advance lets go what there is room for, and sees that an end is heard of while more is held.
func (w *window) advance() {
	var gates, watch [mostRoom]mem.Point
	for again := true; again; {
		w.ws.mu.Lock()
		goes, ask := w.letGo(&gates, &watch)
		w.ws.mu.Unlock()
		for _, g := range gates[:goes] {
			w.ws.line.End(g, nil)
		}
		again = false
		for _, p := range watch[:ask] {
			done, _ := p.Notify(w)
			if done && w.inOrder {
				w.ws.mu.Lock()
				w.watched = false
				w.ws.mu.Unlock()
			}
			again = again || done
		}
	}
}

// letGo takes commands out of the line that there is room for. It returns how many gates are to be ended, and points to be asked
// for their ends. mu is held.
func (w *window) letGo(gates, watch *[mostRoom]mem.Point) (goes, ask int) {
	w.sweep()
	room, from := w.room(), &w.ready
	if w.inOrder {
		from = &w.line
	}
	n := 0
	for ; n < len(*from) && goes < mostRoom; n++ {
		h := (*from)[n]
		if h.counts && len(w.flying) >= room {
			break // what does not count is in front
		}
		if h.counts {
			w.flying = append(w.flying, h.point)
			if !w.inOrder {
				watch[ask] = h.point
				ask++
			}
		}
		gates[goes] = h.gate
		goes++
		w.leave(h)
		w.ws.unhold(h)
	}
	clear((*from)[:n])
	*from = (*from)[n:]
	w.keep(w.line)
	if n := len(w.flying); w.inOrder && len(w.line) > 0 && n > 0 && !w.watched {
		w.watched = true
		watch[0], ask = w.flying[(n-1)/2], 1
	}
	return goes, ask
}

// leave takes a command of a queue out of order out of the line. mu is held.
func (w *window) leave(h *held) {
	if w.inOrder {
		return
	}
	n := len(w.line) - 1
	last := w.line[n]
	w.line[h.at], last.at = last, h.at
	w.line[n] = nil
	w.line = w.line[:n]
}

// keep makes the line what is left of it. mu is held.
func (w *window) keep(line []*held) {
	clear(w.line[len(line):])
	if w.line = line; len(line) > 0 {
		return
	}
	w.since = 0
	w.ws.open = slices.DeleteFunc(w.ws.open, func(x *window) bool { return x == w })
	if w.ws.held == 0 {
		w.ws.some.Store(false)
		for p, h := range w.ws.nodes { // they stand for nobody any more
			delete(w.ws.nodes, p)
			w.ws.recycle(h)
		}
	}
}

// sweep drops what has ended, and learns how long commands take while others wait for them. mu is held.
func (w *window) sweep() {
	had := len(w.flying)
	if w.inOrder {
		n := 0
		for n < had && w.flying[n].Reached() {
			n++
		}
		w.flying = slices.Delete(w.flying, 0, n)
	} else {
		w.flying = slices.DeleteFunc(w.flying, mem.Point.Reached)
	}
	if len(w.line) == 0 {
		return
	}
	ended := uint64(had - len(w.flying))
	if now := w.ws.by.Now(); w.since == 0 {
		w.since = now
	} else if ended > 0 {
		took := min(max((now-w.since)/ended, 1), roomTime/leastRoom) // longer is the least room, too, and may be the program's
		if w.each == 0 {
			w.each = took
		}
		w.each = max((7*w.each+took)/8, 1)
		w.since = now
	}
}

// room is how many commands the queue may have been given that have not ended. mu is held.
func (w *window) room() int {
	if w.each == 0 {
		return leastRoom
	}
	return int(min(max(roomTime/w.each, leastRoom), mostRoom))
}

// abort ends what is held and matches, and nobody else needs, with a failure.
func (ws *windows) abort(matches func(*held) bool, cause error) {
	var gates []mem.Point
	ws.mu.Lock()
	for _, w := range slices.Clone(ws.open) {
		w.ready = slices.DeleteFunc(w.ready, func(h *held) bool { return !h.kept && matches(h) })
		kept := w.line[:0]
		for _, h := range w.line {
			if h.kept || !matches(h) {
				h.at = len(kept)
				kept = append(kept, h)
				continue
			}
			gates = append(gates, h.gate)
			ws.unhold(h)
		}
		w.keep(kept)
	}
	ws.mu.Unlock()
	slices.SortFunc(gates, func(a, b mem.Point) int { return cmp.Compare(a.Seq, b.Seq) }) // a window out of order has them in any
	for _, g := range gates {
		ws.line.End(g, cause)
	}
}

// needed notes that what is accepted as p waits for held commands, as Data. They are kept where it is a command that belongs to
// another request, or to none; h is what it is held by itself.
func (ws *windows) needed(p mem.Point, waits []mem.Wait, command bool, of *Request, h *held) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.visit++
	for i := range waits {
		n := ws.nodes[waits[i].Point]
		if n == nil || n == h || waits[i].Kind != mem.Data {
			continue
		}
		if command {
			ws.keepFor(n, of)
		}
		if h == nil {
			h = ws.stand(p)
		}
		h.needs = append(h.needs, need{n, n.gen})
	}
}

// stand returns what stands for held commands that p waits for. mu is held.
func (ws *windows) stand(p mem.Point) *held {
	if len(ws.nodes) > max(ws.due, minRuns) {
		for at, h := range ws.nodes {
			if h.w == nil && at.Reached() {
				delete(ws.nodes, at)
				ws.recycle(h)
			}
		}
		ws.due = 2 * len(ws.nodes)
	}
	h := ws.take()
	h.point, ws.nodes[p] = p, h
	return h
}

// keepFor keeps what a command of a request, or of none, needs of others. mu is held.
func (ws *windows) keepFor(h *held, of *Request) {
	if h.seen == ws.visit {
		return
	}
	h.seen = ws.visit
	if h.w == nil {
		for _, n := range h.needs {
			if n.h.gen == n.gen {
				ws.keepFor(n.h, of)
			}
		}
	} else if h.of != of {
		keep(h)
	}
}

// keep keeps a command, and what it needs. mu is held.
func keep(h *held) {
	if h.kept {
		return
	}
	h.kept = true
	for _, n := range h.needs {
		if n.h.gen == n.gen {
			keep(n.h)
		}
	}
}

// take returns a free one. mu is held.
func (ws *windows) take() *held {
	n := len(ws.spare)
	if n == 0 {
		return new(held)
	}
	h := ws.spare[n-1]
	ws.spare = ws.spare[:n-1]
	return h
}

// unhold takes a command that was let go or called off out of what is known of it. mu is held.
func (ws *windows) unhold(h *held) {
	delete(ws.nodes, h.point)
	ws.held--
	if h.left > 0 {
		h.dead = true
		h.gen++
		return
	}
	ws.recycle(h)
}

// recycle makes h free. mu is held.
func (ws *windows) recycle(h *held) {
	*h = held{gen: h.gen + 1, needs: h.needs[:0]}
	ws.spare = append(ws.spare, h)
}
