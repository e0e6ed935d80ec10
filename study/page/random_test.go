package page_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/page"
)

// random tells a Builder of commands, copies and evictions drawn by a seed, whose times need not be such as a runtime would
// make them, and returns what was told.
type random struct {
	*rand.Rand
	b       *page.Builder
	lines   []*mem.Timeline
	sizes   []uint64
	now     int64
	told    []told
	content []bool
	blocks  []blockTold
}

// blockTold is a block that came or left.
type blockTold struct {
	at     int64
	buffer mem.BufferID
	memory mem.MemoryID
	r      mem.Range
	left   bool
}

// held is what a memory holds at a time, by a list of its blocks.
func (x *random) held(m mem.MemoryID, at int64) (bytes uint64) {
	var there []blockTold
	for _, b := range x.blocks {
		if b.memory != m || b.at > at {
			continue
		}
		there = slices.DeleteFunc(there, func(o blockTold) bool { return o.buffer == b.buffer && o.r.Overlaps(b.r) })
		if !b.left {
			there = append(there, b)
		}
	}
	for _, b := range there {
		bytes += b.r.Size()
	}
	return bytes
}

// told is a change of who holds bytes, in order of the plan.
type told struct {
	at     int64
	buffer int
	r      mem.Range
	memory mem.MemoryID
	kind   string // write, arrive, leave
	failed bool
	writer int // of a write: how many commands came before
}

func draw(seed uint64, commands int) *random {
	x := &random{Rand: rand.New(rand.NewPCG(seed, 1))}
	names := []string{"host", "gpu0", "gpu1"}
	x.b = page.NewBuilder(fmt.Sprint("random ", seed), "machine none", names, []uint64{0, 64, 96}, nil)
	for i := range 1 + x.IntN(4) {
		x.sizes, x.content = append(x.sizes, 4+x.Uint64N(28)), append(x.content, x.IntN(2) == 0)
		x.b.Buffer(mem.BufferID(i+1), fmt.Sprintf("b%d", i), x.sizes[i], x.content[i])
	}
	for i := range 4 {
		x.lines = append(x.lines, mem.NewTimeline(fmt.Sprintf("queue %d", i), i < 2, nil))
	}
	for i := range commands {
		x.command(i)
	}
	for i := range 10 {
		x.b.Part(page.Part{From: int64(i) * x.now / 10, To: int64(i+1) * x.now / 10, Event: -1, Reason: "host", What: "the host"})
	}
	return x
}

func (x *random) span(buffer int) mem.Range {
	a, b := x.Uint64N(x.sizes[buffer]), x.Uint64N(x.sizes[buffer])+1
	return mem.Range{Start: min(a, b-1), End: max(a+1, b)}
}

// point is a new one, with an end.
func (x *random) point(line int) (mem.Point, page.End) {
	p := x.lines[line].Next()
	start := x.now + x.Int64N(40)
	e := page.End{Started: start, Ended: start + x.Int64N(1+int64(1)<<x.IntN(12))}
	if x.IntN(30) == 0 {
		e.Failed = "it failed"
	}
	x.b.End(p, e)
	return p, e
}

func (x *random) command(i int) {
	x.now += x.Int64N(60)
	c := &trace.CommandRecord{ID: uint64(i + 1), Queue: fmt.Sprint("q", x.IntN(2)), Memory: mem.MemoryID(1 + x.IntN(2)), Op: "launch", Enqueued: x.now, Done: x.now + 3}
	t := page.Told{Number: i + 1, Words: page.Words{Name: fmt.Sprintf("#%d k%d(x)", i+1, i%3), Row: map[string]any{"number": i + 1}, Index: i}}
	if x.IntN(6) == 0 {
		b := x.IntN(len(x.sizes))
		v := trace.EvictionRecord{Buffer: mem.BufferID(b + 1), Memory: mem.MemoryID(1 + x.IntN(2)), Range: x.span(b)}
		c.Evictions, t.Backs = append(c.Evictions, v), append(t.Backs, nil)
		t.Evictions = append(t.Evictions, page.Words{Name: "evict", Row: map[string]any{"bytes": v.Range.Size()}, Index: i})
		x.told = append(x.told, told{at: x.now, buffer: b, r: v.Range, memory: v.Memory, kind: "leave"})
		x.blocks = append(x.blocks, blockTold{x.now, v.Buffer, v.Memory, v.Range, true})
	}
	for range x.IntN(3) {
		b := x.IntN(len(x.sizes))
		p, e := x.point(2 + x.IntN(2))
		s := trace.StepRecord{Buffer: mem.BufferID(b + 1), Range: x.span(b), From: 0, To: mem.MemoryID(1 + x.IntN(2)), Point: p}
		c.Blocks = append(c.Blocks, trace.BlockRecord{Buffer: s.Buffer, Memory: s.To, Bytes: s.Range.Size(), Range: s.Range})
		x.blocks = append(x.blocks, blockTold{x.now, s.Buffer, s.To, s.Range, false})
		c.Steps, t.Copies = append(c.Steps, s), append(t.Copies, page.Words{Name: "copy", Row: map[string]any{"bytes": s.Range.Size()}, Index: len(x.told)})
		c.Waits = append(c.Waits, mem.Wait{Point: p})
		x.told = append(x.told, told{at: max(e.Ended, x.now), buffer: b, r: s.Range, memory: s.To, kind: "arrive", failed: e.Failed != ""})
	}
	var e page.End
	c.Point, e = x.point(x.IntN(2))
	for range x.IntN(3) {
		b := x.IntN(len(x.sizes))
		a := mem.Access{Buffer: mem.BufferID(b + 1), Memory: c.Memory, Range: x.span(b), Mode: mem.Mode(x.IntN(3))}
		c.Accesses = append(c.Accesses, a)
		if a.Mode.Writes() {
			x.told = append(x.told, told{at: max(e.Ended, x.now), buffer: b, r: a.Range, memory: a.Memory, kind: "write", failed: e.Failed != "", writer: i + 1})
		}
	}
	x.b.Command(c, t)
}

// holders is who has the latest of a byte at a time, by a look at all that was told; ok is false where nobody wrote it.
func (x *random) holders(buffer int, byte uint64, at int64) (set mem.MemorySet, writer int, ok bool) {
	latest, since := -1, int64(0) // the write that comes last in the plan, of those that have ended
	for i, c := range x.told {
		if c.buffer == buffer && c.r.Contains(mem.Range{Start: byte, End: byte + 1}) && c.kind == "write" && c.at <= at {
			latest, since = i, c.at
		}
	}
	switch {
	case latest >= 0 && !x.told[latest].failed:
		set = mem.SetOf(x.told[latest].memory)
	case latest < 0 && !x.content[buffer]:
		return set, 0, false
	case latest < 0:
		set = mem.SetOf(mem.Host)
	}
	if latest >= 0 {
		writer = x.told[latest].writer
	}
	for _, k := range x.inTime() {
		c := &x.told[k]
		if k <= latest || c.at > at || c.at < since || c.buffer != buffer || !c.r.Contains(mem.Range{Start: byte, End: byte + 1}) || c.kind == "write" {
			continue
		}
		if c.kind == "leave" {
			set = set.Without(c.memory)
		} else if !c.failed {
			set = set.With(c.memory)
		}
	}
	return set, writer, true
}
