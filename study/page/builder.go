package page

import (
	"cmp"
	"slices"

	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/mem/trace"
)

// Builder is told of a run, and makes the picture. Commands are told in the order in which they were
// enqueued; ends whenever they are known.
type Builder struct {
	run     Run
	store   func(mem.MemoryID) mem.MemoryID
	buffers map[mem.BufferID]int32
	blocks  map[block][]mem.Range
	held    []uint64 // by memory
	memory  []int    // their lanes
	lanes   map[[2]string]int32
	points  map[mem.Point]int32
	of      []mem.Point // by event
	ends    map[mem.Point]End
	waits   [][]mem.Wait // by event
	changes []change
	told    int                     // changes, with those that are forgotten
	latest  []rangemap.Map[content] // what forgotten changes have left, by buffer; nil where none are
	most    int                     // events to keep; 0 is all
	now     int64
}

type block struct {
	buffer int32
	memory mem.MemoryID
}

// End is how a command or a copy ended. Started is 0 where its queue keeps no times.
type End struct {
	Started, Ended int64
	Failed         string
}

// Words is how something is called, and what --json says of it, where in the list of its kind.
type Words struct {
	Name  string
	Row   any
	Index int
}

// Told is what is said of a command besides its record.
type Told struct {
	Words
	Number    int
	Copies    []Words   // by step; without a name it is left out
	Evictions []Words   // by eviction
	Backs     [][]Words // by eviction
}

// NewBuilder begins with a run over memories, the host's first, of so many bytes (0 is unknown). store gives the
// one memory that stands for all that share its bytes; nil is that none do.
func NewBuilder(name, clock string, memories []string, capacity []uint64, store func(mem.MemoryID) mem.MemoryID) *Builder {
	if store == nil {
		store = func(m mem.MemoryID) mem.MemoryID { return m }
	}
	b := &Builder{
		run: Run{Name: name, Clock: clock, Memories: memories}, store: store,
		buffers: make(map[mem.BufferID]int32), blocks: make(map[block][]mem.Range), held: make([]uint64, len(memories)),
		lanes: make(map[[2]string]int32), points: make(map[mem.Point]int32), ends: make(map[mem.Point]End),
	}
	for m, name := range memories {
		b.memory = append(b.memory, int(b.Lane(memoryLanes, name, m, capacity[m])))
	}
	return b
}

// Figure adds a total, and Note what is missing.
func (b *Builder) Figure(name, value string) {
	b.run.Figures = append(b.run.Figures, figure{name, value})
}

// Note adds what is missing from the picture.
func (b *Builder) Note(text string) { b.run.Notes = append(b.run.Notes, text) }

// Lane is the lane of that name in a group; it is made where there is none.
func (b *Builder) Lane(group, name string, memory int, capacity uint64) int32 {
	key := [2]string{group, name}
	at, ok := b.lanes[key]
	if !ok {
		at = int32(len(b.run.Lanes))
		b.run.Lanes = append(b.run.Lanes, lane{Group: group, Name: name, Memory: memory, Capacity: capacity})
		b.lanes[key] = at
	}
	return at
}

// Buffer tells of a root buffer; content says that it began with some, on the host.
func (b *Builder) Buffer(id mem.BufferID, name string, size uint64, content bool) {
	at := int32(len(b.run.Buffers))
	b.run.Buffers = append(b.run.Buffers, buffer{Name: name, Size: size})
	b.buffers[id] = at
	b.change(change{event: -1, at: b.now, kind: created, buffer: at, r: mem.Range{End: size}, content: content})
}

// Released tells that a root buffer is gone, with its blocks.
func (b *Builder) Released(id mem.BufferID) {
	at, ok := b.buffers[id]
	if !ok {
		return
	}
	all := mem.Range{End: b.run.Buffers[at].Size}
	for m := range b.run.Memories {
		b.take(block{at, mem.MemoryID(m)}, all)
	}
	b.change(change{event: -1, at: b.now, kind: gone, buffer: at, r: all})
	delete(b.buffers, id)
}

// take takes the blocks out that overlap a range.
func (b *Builder) take(k block, r mem.Range) {
	b.blocks[k] = slices.DeleteFunc(b.blocks[k], func(x mem.Range) bool {
		if !x.Overlaps(r) {
			return false
		}
		b.level(k.memory, -int64(x.Size()))
		return true
	})
}

// stored notes new storage, which takes the place of what overlaps it.
func (b *Builder) stored(all []trace.BlockRecord) {
	for _, x := range all {
		at, ok := b.buffers[x.Buffer]
		if !ok {
			continue
		}
		if x.Range.Empty() {
			x.Range.End = b.run.Buffers[at].Size
		}
		k := block{at, x.Memory}
		b.take(k, x.Range)
		b.blocks[k] = append(b.blocks[k], x.Range)
		b.level(x.Memory, int64(x.Range.Size()))
	}
}

// level notes that a memory holds more, or less.
func (b *Builder) level(m mem.MemoryID, delta int64) {
	b.held[m] += uint64(delta)
	levels := &b.run.Lanes[b.memory[m]].Levels
	if n := len(*levels); n > 0 && (*levels)[n-1].At == b.now {
		(*levels)[n-1].Bytes = b.held[m]
		return
	}
	*levels = append(*levels, level{b.now, b.held[m]})
}

// event adds one, which is drawn in a lane, and returns its index.
func (b *Builder) event(e Event, lane int32, p mem.Point, waits []mem.Wait) int32 {
	at := int32(len(b.run.Events))
	e.home = lane
	b.run.Events, b.of, b.waits = append(b.run.Events, e), append(b.of, p), append(b.waits, slices.Clone(waits))
	if !p.IsZero() {
		b.points[p] = at
	}
	return at
}

// Command tells of a command that was accepted: what left for it, what was copied, and it.
func (b *Builder) Command(c *trace.CommandRecord, t Told) {
	b.now = max(b.now, c.Enqueued)
	for i := range c.Evictions {
		b.eviction(c, i, &t)
	}
	b.stored(c.Blocks)
	for i := range c.Regrows {
		b.step(&c.Regrows[i], c, exchangeKind, t.Number, Words{Name: "exchange of a block", Index: -1})
	}
	for i := range c.Steps {
		if i < len(t.Copies) && t.Copies[i].Name != "" {
			b.step(&c.Steps[i], c, copyKind, t.Number, t.Copies[i])
		}
	}
	e := Event{Kind: commandKind, Number: t.Number, Queued: c.Enqueued, Buffer: -1, From: -1, To: int32(c.Memory), Name: t.Name, Row: t.Row, Index: t.Index}
	if len(c.Accesses) > 0 {
		e.Buffer, e.Range = b.index(c.Accesses[0].Buffer), c.Accesses[0].Range
	}
	lane := b.Lane(queueLanes, cmp.Or(c.Queue, lineName(c.Point), b.run.Memories[c.Memory]), int(c.Memory), 0)
	at := b.event(e, lane, c.Point, c.Waits)
	if c.Done > c.Enqueued {
		host := b.Lane(Host, "enqueues", 0, 0)
		b.item(host, Item{Event: at, From: c.Enqueued, To: c.Done, Busy: c.Done - c.Enqueued})
	}
	for _, a := range c.Accesses {
		b.run.Uses = append(b.run.Uses, use{at, b.index(a.Buffer), a.Range, int32(a.Memory), a.Mode})
		if a.Mode.Writes() && b.index(a.Buffer) >= 0 {
			b.change(change{event: at, kind: wrote, buffer: b.index(a.Buffer), r: a.Range, memory: b.store(a.Memory)})
		}
	}
	if n := len(b.run.Events); b.most > 0 && n > 2*b.most {
		b.forget(int32(n - b.most))
	}
}

func lineName(p mem.Point) string {
	if p.IsZero() {
		return ""
	}
	return p.Line.Name()
}

func (b *Builder) index(id mem.BufferID) int32 {
	if at, ok := b.buffers[id]; ok {
		return at
	}
	return -1
}

// eviction tells of a block that left for a command, and of the copies that wrote it back.
func (b *Builder) eviction(c *trace.CommandRecord, i int, t *Told) {
	v := &c.Evictions[i]
	if i >= len(t.Evictions) {
		return
	}
	b.stored(v.Blocks)
	for k := range v.Backs {
		b.step(&v.Backs[k], c, backKind, t.Number, t.Backs[i][k])
	}
	at := b.event(Event{
		Kind: evictionKind, Number: t.Number, Queued: c.Enqueued, Start: c.Enqueued, End: c.Enqueued,
		Buffer: b.index(v.Buffer), Range: v.Range, From: int32(v.Memory), To: -1, Bytes: v.Range.Size(), Name: t.Evictions[i].Name, Row: t.Evictions[i].Row, Index: t.Evictions[i].Index,
	}, int32(b.memory[v.Memory]), mem.Point{}, nil)
	if v.Stayed() || b.index(v.Buffer) < 0 {
		return
	}
	// Bytes leave when what wrote them back has.
	leaves := change{event: at, kind: left, buffer: b.index(v.Buffer), r: v.Range, memory: b.store(v.Memory)}
	for k := range v.Backs {
		if n, ok := b.points[v.Backs[k].Point]; ok {
			leaves.event = n
		}
	}
	b.change(leaves)
	if v.Policy != trace.ByRegrow {
		b.take(block{b.index(v.Buffer), v.Memory}, v.Range)
	}
}

// step tells of a copy.
func (b *Builder) step(s *trace.StepRecord, c *trace.CommandRecord, kind kind, number int, w Words) {
	if s.Point.IsZero() {
		return
	}
	buffer := b.index(s.Buffer)
	at := b.event(Event{
		Kind: kind, Number: number, Queued: c.Enqueued, Buffer: buffer, Range: s.Range, From: int32(s.From), To: int32(s.To),
		Bytes: s.Range.Size(), Name: w.Name, Row: w.Row, Index: w.Index,
	}, b.Lane(Copies, cmp.Or(lineName(s.Point), "into "+b.run.Memories[s.To]), int(s.To), 0), s.Point, s.Waits)
	if buffer >= 0 && kind != exchangeKind {
		b.change(change{event: at, kind: arrived, buffer: buffer, r: s.Range, memory: b.store(s.To)})
	}
}

// End tells how a command or a copy ended.
func (b *Builder) End(p mem.Point, e End) { b.ends[p] = e }

// Event is the event of a point, or -1.
func (b *Builder) Event(p mem.Point) int32 {
	if at, ok := b.points[p]; ok && !p.IsZero() {
		return at
	}
	return -1
}

// Add adds an event that is in no record, over its own times.
func (b *Builder) Add(group, lane string, e Event) int32 {
	e.Index = -1
	home := b.Lane(group, lane, max(int(e.To), 0), 0)
	return b.event(e, home, mem.Point{}, nil)
}

// Item adds an event to a lane besides its own.
func (b *Builder) Item(group, lane string, memory int, capacity uint64, i Item) {
	b.item(b.Lane(group, lane, memory, capacity), i)
}

func (b *Builder) item(lane int32, i Item) {
	b.run.Lanes[lane].Items = append(b.run.Lanes[lane].Items, i)
}

// Part adds a stretch of the critical path.
func (b *Builder) Part(p Part) { b.run.Path = append(b.run.Path, p) }

// Run is the picture of what was told.
func (b *Builder) Run() *Run {
	r := &b.run
	for i := range r.Events {
		b.resolve(int32(i))
	}
	b.places()
	links := slices.ContainsFunc(r.Lanes, func(l lane) bool { return l.Group == Links })
	for i := range r.Events {
		e := &r.Events[i]
		b.item(e.home, Item{Event: int32(i), From: e.Start, To: e.End, Busy: e.End - e.Start, Bytes: e.Bytes})
		if !links && (e.Kind == copyKind || e.Kind == backKind) && e.From != e.To {
			b.Item(Links, r.Memories[e.From]+" → "+r.Memories[e.To], int(e.To), 0, Item{Event: int32(i), From: e.Start, To: e.End, Busy: e.End - e.Start, Bytes: e.Bytes})
		}
		for _, w := range b.waits[i] {
			if f := b.Event(w.Point); f >= 0 {
				r.Waits = append(r.Waits, after{int32(i), f})
			}
		}
	}
	b.pathLane()
	b.span()
	r.Held, r.Sets = b.holders()
	order(r)
	fold(r, mostEvents)
	layOut(r.Lanes)
	return r
}

// ended reports whether it is known how an event ended.
func (b *Builder) ended(i int32) bool {
	_, ok := b.ends[b.of[i]]
	return ok || b.of[i].IsZero()
}

// resolve gives an event its times. A queue that keeps none says only when it ended: then it is taken to have started
// when all that it waited for had ended.
func (b *Builder) resolve(i int32) {
	e, p := &b.run.Events[i], b.of[i]
	if p.IsZero() {
		return
	}
	end, ok := b.ends[p]
	if !ok {
		e.Start, e.End, e.Failed = e.Queued, e.Queued, "it had not ended"
		return
	}
	e.Start, e.End, e.Failed = end.Started, end.Ended, end.Failed
	if e.Start == 0 {
		e.Start = e.Queued
		for _, w := range b.waits[i] {
			if f := b.Event(w.Point); f >= 0 && f < i {
				e.Start = max(e.Start, b.run.Events[f].End)
			}
		}
	}
	e.End = max(e.End, e.Queued)
	e.Start = min(e.Start, e.End)
}

// places puts the buffers one above the other.
func (b *Builder) places() {
	at := uint64(0)
	for i := range b.run.Buffers {
		b.run.Buffers[i].At = at
		at += b.run.Buffers[i].Size
	}
}

// pathLane draws the critical path.
func (b *Builder) pathLane() {
	if len(b.run.Path) == 0 {
		return
	}
	lane := b.Lane(pathLanes, "critical path", -1, 0)
	for i := range b.run.Path {
		p := &b.run.Path[i]
		b.item(lane, Item{Event: int32(i), From: p.From, To: p.To, Busy: p.To - p.From})
	}
}

// span finds when the run began and ended.
func (b *Builder) span() {
	r := &b.run
	if len(r.Events) == 0 {
		r.End = 1
		return
	}
	r.Begin, r.End = r.Events[0].Queued, r.Events[0].End
	for i := range r.Events {
		r.Begin, r.End = min(r.Begin, r.Events[i].Queued), max(r.End, r.Events[i].End)
	}
	if n := len(r.Path); n > 0 {
		r.Begin, r.End = min(r.Begin, r.Path[0].From), max(r.End, r.Path[n-1].To)
	}
	r.End = max(r.End, r.Begin+1)
}

// groups are the groups in order.
var groups = []string{pathLanes, Host, queueLanes, Copies, Engines, Links, memoryLanes}

// order sorts lanes by group and memory, and their items by time. Lanes of which there is nothing to show are left out.
func order(r *Run) {
	slices.SortStableFunc(r.Lanes, func(x, y lane) int {
		return cmp.Or(cmp.Compare(slices.Index(groups, x.Group), slices.Index(groups, y.Group)), cmp.Compare(x.Memory, y.Memory))
	})
	r.Lanes = slices.DeleteFunc(r.Lanes, func(l lane) bool { return len(l.Items) == 0 && len(l.Levels) == 0 })
	for i := range r.Lanes {
		slices.SortStableFunc(r.Lanes[i].Items, func(x, y Item) int { return cmp.Compare(x.From, y.From) })
	}
}

// layOut gives each item a row of its lane, so that none covers another.
func layOut(lanes []lane) {
	for i := range lanes {
		var free []int64 // by row: from when on
		for k := range lanes[i].Items {
			x := &lanes[i].Items[k]
			row := slices.IndexFunc(free, func(t int64) bool { return t <= x.From })
			if row < 0 {
				row, free = len(free), append(free, 0)
			}
			if row >= mostRows {
				row = mostRows - 1
			}
			x.Row, free[row] = int32(row), max(free[row], x.To)
		}
	}
}

// mostRows is how many rows a lane has; what is below lies over each other.
const mostRows = 6

// Total is how many bytes all buffers have.
func (r *Run) Total() (n uint64) {
	for i := range r.Buffers {
		n += r.Buffers[i].Size
	}
	return n
}
