package bound_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/bound"
)

// TestTheCriticalPathOfARound, worked out by hand: a copy takes 10 and a byte, which holds the engine, 1.
func TestTheCriticalPathOfARound(t *testing.T) {
	use := func(b mem.BufferID, m mem.MemoryID, from, to uint64, mode mem.Mode) mem.Access {
		return mem.Access{Buffer: b, Memory: m, Range: mem.Range{Start: from, End: to}, Mode: mode}
	}
	for _, x := range []struct {
		name     string
		commands []bound.Timed
		want     float64
	}{
		{"one queue", []bound.Timed{{Takes: 3}, {Takes: 4}}, 7},
		{"two queues", []bound.Timed{{Takes: 3}, {Queue: 1, Takes: 4}}, 4},
		{"two queues, one behind the other", []bound.Timed{{Takes: 3}, {Queue: 1, Takes: 4, After: []int{0}}}, 4},
		{"ping-pong", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 5, mem.ReadWrite)}},
			{Queue: 1, Takes: 4, Accesses: []mem.Access{use(1, 2, 0, 5, mem.ReadWrite)}},
		}, 3 + 15 + 4 + 15},
		{"by an event, out of order", []bound.Timed{{Queue: -1, Takes: 9, Accesses: []mem.Access{use(1, 1, 0, 5, mem.Write)}}, {Queue: -1, Takes: 9, After: []int{0}}}, 9},
		{"what nobody writes is there", []bound.Timed{{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 500, mem.Read)}}}, 3},
		{"a pipeline, whose writer waits for the copy of what it has written, and whose copy for its reader", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 5, mem.Write)}},
			{Queue: 1, Takes: 4, Accesses: []mem.Access{use(1, 2, 0, 5, mem.Read)}},
		}, 15 + 4},
		{"two buffers by turns: half of that a buffer", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 5, mem.Write)}},
			{Queue: 1, Takes: 4, Accesses: []mem.Access{use(1, 2, 0, 5, mem.Read)}},
			{Takes: 3, Accesses: []mem.Access{use(2, 1, 0, 5, mem.Write)}},
			{Queue: 1, Takes: 4, Accesses: []mem.Access{use(2, 2, 0, 5, mem.Read)}},
		}, 15 + 4},
		{"two parts of two writers, at once", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 5, mem.ReadWrite)}},
			{Queue: 1, Takes: 3, Accesses: []mem.Access{use(1, 2, 5, 30, mem.ReadWrite)}},
			{Queue: 2, Takes: 1, Accesses: []mem.Access{use(1, 3, 0, 30, mem.ReadWrite)}},
		}, 3 + 35 + 1 + 35},
		{"two copies for one command, one after the other", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 20, mem.ReadWrite)}},
			{Queue: 1, Takes: 3, Accesses: []mem.Access{use(2, 2, 0, 30, mem.ReadWrite)}},
			{Queue: 2, Takes: 1, Accesses: []mem.Access{use(1, 3, 0, 20, mem.ReadWrite), use(2, 3, 0, 30, mem.ReadWrite)}},
		}, 3 + (10 + 30 + 10) + 1 + (30 + 10)}, // by way of the second, which waits 10 for what is left of the first
		{"neighbours of one version go at once", []bound.Timed{
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 30, mem.ReadWrite)}},
			{Queue: 1, Takes: 1, Accesses: []mem.Access{use(1, 2, 0, 30, mem.Read)}},
			{Queue: 2, Takes: 1, Accesses: []mem.Access{use(1, 3, 0, 5, mem.Read)}},
			{Takes: 3, Accesses: []mem.Access{use(1, 1, 0, 30, mem.ReadWrite)}},
		}, 3 + 40 + 3},
	} {
		got := bound.CriticalPath(func(m mem.MemoryID) mem.MemoryID { return m }, x.commands, func(_, _ mem.MemoryID, bytes uint64) bound.Copied { return bound.Copied{Holds: int64(bytes), Rest: 10} })
		require.InDelta(t, x.want, got, 1e-9, x.name)
	}
}
