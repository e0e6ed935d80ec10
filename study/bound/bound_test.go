package bound_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
	"godwit/study/bound"
)

// bound is what an account finds of a tiny run.
func (r *tinyRun) bound(t require.TestingT, window int) bound.Bound {
	names := []string{"a", "b", "c"}[:len(r.capacity)-1]
	a := bound.New(mem.NewTopology(names...), r.capacity, window)
	for i, b := range r.buffers {
		require.NoError(t, a.Create(mem.BufferID(i+1), r.size(i), b.initialised))
	}
	for _, c := range r.commands {
		if len(c.accesses) == 0 {
			a.Release(mem.BufferID(c.release + 1))
			continue
		}
		var accs []mem.Access
		for _, x := range c.accesses {
			size := r.buffers[x.buffer].partSize
			accs = append(accs, mem.Access{
				Buffer: mem.BufferID(x.buffer + 1), Mode: x.mode, Memory: mem.MemoryID(x.memory),
				Range: mem.Range{Start: uint64(x.from) * size, End: uint64(x.to) * size},
			})
		}
		require.NoError(t, a.Command(accs))
	}
	return a.Bound()
}

// without is the run with memories that have no limit.
func (r *tinyRun) without() *tinyRun {
	return &tinyRun{r.buffers, make([]uint64, len(r.capacity)), r.commands}
}

func drawRun(t *rapid.T, devices int) *tinyRun {
	r := &tinyRun{capacity: []uint64{0}}
	parts := rapid.IntRange(1, maxTinyParts).Draw(t, "parts")
	buffers := rapid.IntRange(2, maxTinyBuffers-devices+1).Draw(t, "buffers")
	for range buffers {
		r.buffers = append(r.buffers, tinyBuffer{
			parts:       rapid.IntRange(1, parts).Draw(t, "parts of it"),
			partSize:    uint64(rapid.IntRange(1, 3).Draw(t, "size")),
			initialised: rapid.Bool().Draw(t, "initialised"),
		})
	}
	for range devices {
		r.capacity = append(r.capacity, uint64(rapid.IntRange(2, 7).Draw(t, "capacity")))
	}
	gone := make(map[int]bool)
	for range rapid.IntRange(4, 14).Draw(t, "commands") {
		if i := rapid.IntRange(0, 8*buffers).Draw(t, "release"); i < buffers && !gone[i] {
			gone[i] = true
			r.commands = append(r.commands, tinyCommand{release: i})
			continue
		}
		var c tinyCommand
		seen := make(map[int]bool)
		for range rapid.IntRange(1, 2).Draw(t, "accesses") {
			b := rapid.IntRange(0, buffers-1).Draw(t, "buffer")
			if seen[b] || gone[b] {
				continue
			}
			seen[b] = true
			from := rapid.IntRange(0, r.buffers[b].parts-1).Draw(t, "from")
			c.accesses = append(c.accesses, tinyAccess{
				buffer: b, from: from, to: rapid.IntRange(from+1, r.buffers[b].parts).Draw(t, "to"),
				mode:   rapid.SampledFrom([]mem.Mode{mem.Read, mem.ReadWrite, mem.Write}).Draw(t, "mode"),
				memory: rapid.IntRange(0, devices).Draw(t, "memory"),
			})
		}
		if len(c.accesses) > 0 {
			r.commands = append(r.commands, c)
		}
	}
	return r
}

func TestNoRunMovesLessThanTheBound(t *testing.T) {
	var bounds, leasts uint64
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t, rapid.IntRange(1, 2).Draw(t, "devices"))
		least, ok := r.least()
		if !ok {
			t.Skip("a command needs more than there is")
		}
		compulsory, ok := r.without().least()
		require.True(t, ok)
		got := r.bound(t, 0)
		require.Equal(t, compulsory, got.Compulsory)
		require.LessOrEqual(t, got.Compulsory+got.Capacity, least)
		cut := r.bound(t, 3)
		require.Equal(t, compulsory, cut.Compulsory)
		require.LessOrEqual(t, cut.Compulsory+cut.Capacity, least, "in windows")
		bounds += got.Capacity
		leasts += least - compulsory
	})
	t.Logf("of %d capacity bytes the bounds prove %d", leasts, bounds)
	require.Greater(t, 2*bounds, leasts, "a bound that proves less than half is of no use")
}

// TestCleanBlocksOfOneSizeAreBoundedExactly: there Belady's rule is the best, and
// the relaxation loses nothing.
func TestCleanBlocksOfOneSizeAreBoundedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &tinyRun{capacity: []uint64{0, uint64(rapid.IntRange(2, 7).Draw(t, "capacity"))}}
		for range maxTinyBuffers {
			r.buffers = append(r.buffers, tinyBuffer{1, 2, true})
		}
		for range rapid.IntRange(1, 12).Draw(t, "commands") {
			r.commands = append(r.commands, tinyCommand{accesses: []tinyAccess{
				{buffer: rapid.IntRange(0, maxTinyBuffers-1).Draw(t, "buffer"), to: 1, memory: 1},
			}})
		}
		least, ok := r.least()
		require.True(t, ok)
		got := r.bound(t, 0)
		require.Equal(t, least, got.Compulsory+got.Capacity)
	})
}

// one is an account of one device of 2 bytes, with buffers 1 to 3 of a byte each
// on the host.
func one(t *testing.T) (a *bound.Account, do func(mem.Mode, mem.BufferID, mem.MemoryID)) {
	a = bound.New(mem.NewTopology("a"), []uint64{0, 2}, 0)
	for id := range mem.BufferID(3) {
		require.NoError(t, a.Create(id+1, 1, true))
	}
	return a, func(mode mem.Mode, id mem.BufferID, m mem.MemoryID) {
		require.NoError(t, a.Command([]mem.Access{{Buffer: id, Range: mem.Range{End: 1}, Mode: mode, Memory: m}}))
	}
}

func TestWhatLeavesAMemoryIsCharged(t *testing.T) {
	a, do := one(t)
	for _, id := range []mem.BufferID{1, 2, 3, 1} {
		do(mem.Read, id, 1)
	}
	b := a.Bound()
	require.EqualValues(t, 3, b.Compulsory)
	require.EqualValues(t, 0, b.Capacity, "2 went")
	a, do = one(t)
	for _, id := range []mem.BufferID{1, 2, 3} {
		do(mem.Write, id, 1)
	}
	b = a.Bound()
	require.Zero(t, b.Compulsory)
	require.EqualValues(t, 1, b.Capacity, "one was written back")
	require.Equal(t, []uint64{0, 1}, b.ByMemory)
	a, do = one(t)
	for _, id := range []mem.BufferID{1, 2, 3} {
		do(mem.Write, id, 1)
	}
	do(mem.Read, 1, mem.Host)
	b = a.Bound()
	require.EqualValues(t, 1, b.Compulsory, "the host wants it")
	require.Zero(t, b.Capacity, "so that it could be the one that went")
	a, do = one(t)
	for _, id := range []mem.BufferID{1, 2, 3} {
		do(mem.Write, id, 1)
		a.Release(id)
	}
	require.Zero(t, a.Bound().Capacity, "nobody wants what was released")
}

func TestWhatRidesAlongIsNotCharged(t *testing.T) {
	a, do := one(t)
	do(mem.Write, 1, 1)
	a.Along(1, mem.Range{End: 1}, mem.Host)
	do(mem.Write, 2, 1)
	do(mem.Write, 3, 1)
	a.Release(2)
	a.Release(3)
	require.Zero(t, a.Bound().Capacity, "1 was on the host already, at no cost")
}

func TestBytesThatMayNotMatterAreNotCharged(t *testing.T) {
	a, do := one(t)
	for id := range mem.BufferID(3) {
		a.Free(id + 1)
	}
	for _, id := range []mem.BufferID{1, 2, 3, 1, 2, 3} {
		do(mem.ReadWrite, id, 1)
	}
	b := a.Bound()
	require.Zero(t, b.Compulsory)
	require.Zero(t, b.Capacity)
}

func TestBadRunsAreRefused(t *testing.T) {
	a, _ := one(t)
	require.ErrorIs(t, a.Create(1, 1, true), mem.ErrInvalidBuffer)
	require.ErrorIs(t, a.Create(9, 0, true), mem.ErrInvalidSize)
	for _, u := range []mem.Access{
		{Buffer: 9, Range: mem.Range{End: 1}},
		{Buffer: 1, Range: mem.Range{End: 2}},
		{Buffer: 1},
		{Buffer: 1, Range: mem.Range{End: 1}, Memory: 2},
	} {
		require.Error(t, a.Command([]mem.Access{u}))
	}
}

// TestAMemorySmallerThanACommandProvesNothing: the capacity is then not what was
// said, and nothing is known.
func TestAMemorySmallerThanACommandProvesNothing(t *testing.T) {
	a := bound.New(mem.NewTopology("a"), []uint64{0, 1}, 0)
	require.NoError(t, a.Create(1, 2, true))
	require.NoError(t, a.Create(2, 2, true))
	for range 3 {
		for id := range mem.BufferID(2) {
			require.NoError(t, a.Command([]mem.Access{{Buffer: id + 1, Range: mem.Range{End: 2}, Mode: mem.ReadWrite, Memory: 1}}))
		}
	}
	require.Zero(t, a.Bound().Capacity)
}

// TestAMemoryIsShortFromTheBufferOnThatDoesNotFit: what came before is charged nothing, so a run whose last buffer
// comes late is bounded by no more than one that has it from the start.
func TestAMemoryIsShortFromTheBufferOnThatDoesNotFit(t *testing.T) {
	run := func(late bool) uint64 {
		a := bound.New(mem.NewTopology("a"), []uint64{0, 2}, 0)
		read := func(id mem.BufferID) {
			require.NoError(t, a.Command([]mem.Access{{Buffer: id, Range: mem.Range{End: 1}, Memory: 1}}))
		}
		require.NoError(t, a.Create(1, 1, true))
		require.NoError(t, a.Create(2, 1, true))
		if !late {
			require.NoError(t, a.Create(3, 1, true))
		}
		read(1)
		read(2)
		if late {
			require.NoError(t, a.Create(3, 1, true))
		}
		for range 5 {
			read(3)
			read(1)
			read(2)
		}
		a.Release(3)
		read(1)
		read(2)
		got := a.Bound()
		require.EqualValues(t, 3, got.Compulsory)
		return got.Capacity
	}
	require.EqualValues(t, 7, run(false))
	require.EqualValues(t, 6, run(true))
}
