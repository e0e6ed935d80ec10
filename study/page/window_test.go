package page_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/page"
)

// goesOn tells recorders of commands, copies, evictions and buffers that come and go, each of which ends before the next begins.
type goesOn struct {
	*rand.Rand
	to    []*page.Recorder
	line  *mem.Timeline
	sizes map[mem.BufferID]uint64
	ids   []mem.BufferID
	made  mem.BufferID
	now   int64
}

func (x *goesOn) buffer(released bool) {
	r := &trace.BufferRecord{Released: released}
	if released {
		at := x.IntN(len(x.ids))
		r.Buffer = x.ids[at]
		x.ids = slices.Delete(x.ids, at, at+1)
	} else {
		x.made++
		r.Buffer, r.Size, r.Version = x.made, 4+x.Uint64N(28), mem.Version(x.IntN(2))
		x.sizes[r.Buffer], x.ids = r.Size, append(x.ids, r.Buffer)
	}
	for _, to := range x.to {
		to.Buffer(r)
	}
}

func (x *goesOn) span() (mem.BufferID, mem.Range) {
	b := x.ids[x.IntN(len(x.ids))]
	lo := x.Uint64N(x.sizes[b])
	return b, mem.Range{Start: lo, End: lo + 1 + x.Uint64N(x.sizes[b]-lo)}
}

func (x *goesOn) command(id uint64) {
	x.now += 10
	c := &trace.CommandRecord{ID: id, Queue: fmt.Sprint("q", id/40), Memory: mem.MemoryID(1 + x.IntN(2)), Op: "launch", Enqueued: x.now, Done: x.now + 1}
	var ends []mem.Point
	if x.IntN(4) == 0 {
		b, r := x.span()
		c.Evictions = append(c.Evictions, trace.EvictionRecord{Buffer: b, Memory: c.Memory, Range: r, Policy: "lru"})
	}
	for range x.IntN(3) {
		b, r := x.span()
		s := trace.StepRecord{Buffer: b, Range: r, To: c.Memory, Point: x.line.Next(), Why: "it is wanted"}
		c.Blocks = append(c.Blocks, trace.BlockRecord{Buffer: b, Memory: c.Memory, Bytes: r.Size(), Range: r})
		c.Steps, ends = append(c.Steps, s), append(ends, s.Point)
	}
	for range x.IntN(3) {
		b, r := x.span()
		c.Accesses = append(c.Accesses, mem.Access{Buffer: b, Memory: c.Memory, Range: r, Mode: mem.Mode(x.IntN(3))})
	}
	c.Point = x.line.Next()
	ends = append(ends, c.Point)
	if id%50 == 7 { // its end is never told: a window takes it to have ended when it is forgotten
		c.Accesses, c.Steps, ends = nil, nil, nil
	}
	for _, to := range x.to {
		to.Command(c)
		for i, p := range ends {
			to.Completed(&trace.CompletionRecord{Command: id, Point: p, Started: x.now + int64(i), Ended: x.now + int64(i) + 1})
		}
	}
}

// A recorder that keeps the last says of these what one says that keeps all: which events, who holds which bytes, how full memories are.
func TestAWindowIsTheEndOfTheWhole(t *testing.T) {
	for seed := range uint64(20) {
		const most = 60
		names, capacity := []string{"host", "gpu0", "gpu1"}, []uint64{0, 64, 96}
		all, last := page.NewRecorder("x", "machine none", names, capacity), page.NewWindow("x", "machine none", names, capacity)
		last.Keep(most)
		x := &goesOn{Rand: rand.New(rand.NewPCG(seed, 3)), to: []*page.Recorder{all, last}, line: mem.NewTimeline("q", true, nil), sizes: make(map[mem.BufferID]uint64)}
		x.buffer(false)
		for id := range uint64(400) {
			if n := x.IntN(12); n == 0 && len(x.ids) > 1 || n == 1 {
				x.buffer(n == 0)
			}
			x.command(id + 1)
			if id%37 != 0 {
				continue
			}
			whole, part := all.Run(), last.Run()
			require.LessOrEqual(t, len(part.Events), 2*most)
			require.LessOrEqual(t, len(part.Buffers), len(x.ids)+len(part.Events))
			gone := len(whole.Events) - len(part.Events)
			for i, e := range part.Events {
				w := whole.Events[gone+i]
				require.Equal(t, []any{w.Kind, w.Number, w.Name, w.Start, w.End, w.Bytes, w.Row}, []any{e.Kind, e.Number, e.Name, e.Start, e.End, e.Bytes, e.Row})
			}
			sameHolders(t, x, whole, part, gone)
			sameLevels(t, whole, part)
		}
	}
}

// sameHolders compares who holds which bytes of buffers that there are, once what is forgotten has ended.
func sameHolders(t *testing.T, x *goesOn, whole, part *page.Run, gone int) {
	t.Helper()
	at := func(run *page.Run, name string) int {
		return slices.IndexFunc(run.Buffers, func(b page.Buffer) bool { return b.Name == name })
	}
	for range 100 {
		id := x.ids[x.IntN(len(x.ids))]
		name, off, when := fmt.Sprintf("buffer %d", id), x.Uint64N(x.sizes[id]), part.Begin+10+x.Int64N(max(part.End-part.Begin-10, 1))
		w, p := heldAt(whole, at(whole, name), off, when), heldAt(part, at(part, name), off, when)
		require.Equal(t, w == nil, p == nil, "byte %d of %s at %d", off, name, when)
		if w == nil {
			continue
		}
		require.Equal(t, whole.Sets[w.Set], part.Sets[p.Set], "byte %d of %s at %d", off, name, when)
		switch {
		case w.Writer < 0:
			require.Equal(t, w.Writer, p.Writer)
		case int(w.Writer) < gone:
			require.EqualValues(t, page.Forgotten, p.Writer)
		default:
			require.Equal(t, w.Writer, p.Writer+int32(gone))
		}
	}
}

func sameLevels(t *testing.T, whole, part *page.Run) {
	t.Helper()
	for i := range part.Lanes {
		l := &part.Lanes[i]
		if l.Group != page.Memories || len(l.Levels) == 0 {
			continue
		}
		w := &whole.Lanes[slices.IndexFunc(whole.Lanes, func(o page.Lane) bool { return o.Group == l.Group && o.Name == l.Name })]
		have := w.Levels[len(w.Levels)-len(l.Levels):]
		require.Equal(t, have, l.Levels)
	}
}
