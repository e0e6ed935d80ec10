package mover

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"godwit/devices/gate"
	"godwit/mem"
)

// Transfers that give way: those for queues below the highest priority in use (Transfer.For). One goes in pieces of half a chunk, each a transfer
// of its own, of which two are under way at a time out of a memory, and two into one. What does not give way is never held: so it has at most
// a chunk of pieces before it, however many transfers give way. A piece that ends lets the next one go, behind what its queues
// were given meanwhile: so nothing starves. Where one is waited for by somebody who does not give way it is raised, with what it waits for: what is left goes at once.
//
// Life of one: gated (its waits are not reached) -> in line, in that order, until nothing of it is left -> over, when its pieces
// have ended -> its points end -> free. Only the pump submits pieces and ends points.
const (
	yieldChunk = chainChunk // bytes, where Options.Chunk is 0
	mostPieces = 2          // of half a chunk
)

// yielding is one of them. Pooled. Unless said, fields are protected by Mover.mu once it is accepted.
type yielding struct {
	gate.Gate
	m        *Mover     // immutable
	Transfer            // what is left of it, with its points
	ends     []pieceEnd // of its destinations
	needs    []mem.Point
	flying   int // ends of pieces that are to come
	raised   bool

	queued, started uint64 // times, where the mover profiles
}

// pieceEnd is told of ends of pieces at a destination. err is protected by Mover.mu.
type pieceEnd struct {
	y   *yielding
	to  mem.MemoryID
	err error // the first
}

// yielders are a mover's. Protected by Mover.mu.
type yielders struct {
	all, line, over, spare []*yielding
	out, in                []int // ends of pieces that are to come, by memory
	piece                  Transfer
	lost                   atomic.Bool // safe without mu: a piece found a device lost
}

// yield accepts a transfer that gives way. Its pieces are submitted later: what they would be refused for is looked at here.
func (m *Mover) yield(t *Transfer) error {
	if err := m.refuses(t); err != nil {
		return err
	}
	y, err := m.takeYielding(t)
	if err != nil {
		return err
	}
	y.Watch(t.Waits, (*dataYield)(y), (*orderYield)(y))
	y.release()
	return nil
}

// refuses is why a transfer cannot go by its way, as far as that is known before it begins: the link is lost, or a device, which is
// asked for once a piece has found one lost.
func (m *Mover) refuses(t *Transfer) error {
	if t.Way == mem.Linked || t.Way == mem.Windows {
		if err := m.refusesLinked(t); err != nil {
			return err
		}
	}
	if !m.yields.lost.Load() {
		return nil
	}
	lost := func(e End) bool { return m.Lost(e.Memory) }
	if i := slices.IndexFunc(t.To, lost); i >= 0 {
		return fmt.Errorf("destination %s: %w", m.mems[t.To[i].Memory].Name, mem.ErrDeviceLost)
	}
	if lost(t.From) {
		return fmt.Errorf("source %s: %w", m.mems[t.From.Memory].Name, mem.ErrDeviceLost)
	}
	return nil
}

func (m *Mover) takeYielding(t *Transfer) (*yielding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, m.errClosed()
	}
	ys, y := &m.yields, &yielding{m: m}
	if n := len(ys.spare); n > 0 {
		y, ys.spare = ys.spare[n-1], ys.spare[:n-1]
	}
	to, points := append(y.To[:0], t.To...), y.Points[:0]
	for i := range to {
		t.Points[i] = m.line.Next()
		points = append(points, t.Points[i])
		y.ends = append(y.ends, pieceEnd{y: y, to: to[i].Memory})
	}
	y.Transfer = Transfer{Way: t.Way, From: t.From, To: to, Size: t.Size, For: t.For, Points: points}
	for _, w := range t.Waits {
		if w.Point.Line == m.line {
			y.needs = append(y.needs, w.Point)
		}
	}
	if m.opts.Profiling {
		y.queued = m.by.Now()
	}
	ys.all = append(ys.all, y)
	m.held.Store(true)
	m.stats.Flying++
	m.stats.Yielded++
	return y, nil
}

// dataYield and orderYield are transfers that give way as seen by the points they wait for.
type (
	dataYield  yielding
	orderYield yielding
)

// PointReached implements mem.Waiter.
func (w *dataYield) PointReached(p mem.Point, err error) {
	y := (*yielding)(w)
	if err != nil {
		y.Failed(p, err)
	}
	y.release()
}

// PointReached implements mem.Waiter.
func (w *orderYield) PointReached(mem.Point, error) { (*yielding)(w).release() }

// release drops a hold; with the last it is in line.
func (y *yielding) release() {
	if y.Drop() {
		y.m.mu.Lock()
		defer y.m.mu.Unlock()
		y.m.yields.line = append(y.m.yields.line, y)
		y.m.postLocked(task{})
	}
}

// Raise says that somebody who does not give way waits for p: a point of a transfer that does, or one of a timeline for which there are such.
func (m *Mover) Raise(p mem.Point) {
	if !m.held.Load() || p.Reached() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.raise(p) {
		m.postLocked(task{})
	}
}

// raise reports whether it has raised anything. mu is held.
func (m *Mover) raise(p mem.Point) (some bool) {
	for _, y := range m.yields.all {
		if !y.raised && (y.For == p.Line || slices.Contains(y.Points, p)) {
			y.raised, some = true, true
			for _, n := range y.needs {
				m.raise(n)
			}
		}
	}
	return some
}

// letPieces submits the pieces that there is room for, and ends what is over. Called by the pump.
func (m *Mover) letPieces() {
	if !m.held.Load() {
		return
	}
	sent := false
	for y := m.nextPiece(); y != nil; y = m.nextPiece() {
		y.send(&m.yields.piece)
		sent = true
	}
	for i := range m.lazy {
		if sent {
			_ = m.lazy[i].Flush() // whoever waits flushed before; a lost device tells them
		}
	}
	m.endOver()
}

// nextPiece makes yielders.piece the first in line that there is room for, and returns of whom it is; nil is none.
func (m *Mover) nextPiece() *yielding {
	m.mu.Lock()
	defer m.mu.Unlock()
	ys := &m.yields
	for i := 0; i < len(ys.line); i++ {
		y, cut := ys.line[i], false
		switch {
		case y.lost():
			y.Size = 0
		case y.raised || ys.room(y):
			y.cut()
			cut = true
		default:
			continue
		}
		if y.Size == 0 {
			ys.line = slices.Delete(ys.line, i, i+1)
			i--
			y.mayBeOver()
		}
		if cut {
			return y
		}
	}
	return nil
}

// lost reports whether it cannot succeed any more, or may not begin. mu is held.
func (y *yielding) lost() bool {
	err := y.m.abort
	if d := y.Cause(); d != nil {
		err = d
	}
	lost := true
	for i := range y.ends {
		if e := &y.ends[i]; e.err == nil {
			e.err, lost = err, lost && err != nil
		}
	}
	return lost
}

// room reports whether there is room for a piece of y.
func (ys *yielders) room(y *yielding) bool {
	full := func(e pieceEnd) bool { return ys.in[e.to] >= mostPieces }
	return ys.out[y.From.Memory] < mostPieces && !slices.ContainsFunc(y.ends, full)
}

// cut makes yielders.piece a piece of y, or where y was raised all that is left. mu is held.
func (y *yielding) cut() {
	m, ys := y.m, &y.m.yields
	p, size := &ys.piece, y.Size
	if !y.raised {
		half := max(cmp.Or(m.opts.Chunk, yieldChunk)/2, 1)
		if half > pageSize {
			half &^= pageSize - 1
		}
		size = min(size, half)
	}
	if m.opts.Profiling && y.started == 0 {
		y.started = m.by.Now()
	}
	p.Way, p.From, p.Size = y.Way, y.From, size
	p.To, p.Points = append(p.To[:0], y.To...), append(p.Points[:0], y.Points...)
	y.From.skip(size)
	for i := range y.To {
		y.To[i].skip(size)
		ys.in[y.To[i].Memory]++
	}
	y.Size -= size
	ys.out[y.From.Memory] += len(y.To)
	y.flying += len(y.To)
}

// skip leaves out the first bytes of an end.
func (e *End) skip(size uint64) {
	if e.Off += size; e.Bytes != nil {
		e.Bytes, e.Off = e.Bytes[size:], 0
	}
}

// send submits a piece, without locks.
func (y *yielding) send(p *Transfer) {
	refused := y.m.Move(p)
	for i, at := range p.Points {
		if at.IsZero() {
			y.ends[i].PointReached(at, refused)
		} else if done, err := at.Notify(&y.ends[i]); done {
			y.ends[i].PointReached(at, err)
		}
	}
}

// PointReached implements mem.Waiter: a piece has ended.
func (e *pieceEnd) PointReached(_ mem.Point, err error) {
	y, m := e.y, e.y.m
	if errors.Is(err, mem.ErrDeviceLost) {
		m.yields.lost.Store(true)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
	m.yields.in[e.to]--
	m.yields.out[y.From.Memory]--
	y.flying--
	y.mayBeOver()
	m.postLocked(task{})
}

// mayBeOver notes that nothing is left and nothing flies, where that is so. mu is held.
func (y *yielding) mayBeOver() {
	if y.Size == 0 && y.flying == 0 {
		y.m.yields.over = append(y.m.yields.over, y)
	}
}

// endOver ends the points of those that are over, in the order in which they came to be. Called by the pump.
func (m *Mover) endOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ys := &m.yields; len(ys.over) > 0; {
		y := ys.over[0]
		ys.over = slices.Delete(ys.over, 0, 1)
		m.mu.Unlock()
		for i, p := range y.Points {
			m.keepTimes(p, y.queued, y.started)
			m.line.End(p, y.ends[i].err)
		}
		m.mu.Lock()
		m.recycleYielding(y)
	}
}

// recycleYielding takes one that nothing knows any more back. mu is held.
func (m *Mover) recycleYielding(y *yielding) {
	ys := &m.yields
	ys.all = slices.DeleteFunc(ys.all, func(x *yielding) bool { return x == y })
	m.held.Store(len(ys.all) > 0)
	clear(y.To)
	clear(y.ends)
	y.Reset()
	*y = yielding{m: m, Transfer: Transfer{To: y.To[:0], Points: y.Points[:0]}, ends: y.ends[:0], needs: y.needs[:0]}
	ys.spare = append(ys.spare, y)
	m.flown()
}
