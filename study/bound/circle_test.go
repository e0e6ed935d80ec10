package bound

import (
	"container/heap"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// loop is a tiny round: what the host and one or two short memories hold is tried in all ways.
type loop struct {
	sizes     []uint64
	transient []bool
	capacity  []uint64 // by memory; 0 is no limit
	commands  [][]mem.Access
}

// held is by buffer the memories that hold the latest content, as bits; none of a transient is no content.
type held [3]uint8

type heldItem struct {
	s    held
	cost uint64
}

type heldQueue []heldItem

func (q heldQueue) Len() int           { return len(q) }
func (q heldQueue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q heldQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *heldQueue) Push(x any)        { *q = append(*q, x.(heldItem)) }
func (q *heldQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// used is how much of a memory is taken, with blocks for what some command accesses.
func (l *loop) used(s held, m int, accs []mem.Access) (n uint64) {
	for b, size := range l.sizes {
		needs := false
		for _, a := range accs {
			needs = needs || int(a.Buffer) == b && int(a.Memory) == m
		}
		if needs || s[b]>>m&1 == 1 {
			n += size
		}
	}
	return n
}

// moves are the copies and drops that may be made next.
func (l *loop) moves(s held, to func(held, uint64)) {
	for b := range l.sizes {
		for m := range l.capacity {
			n, bit := s, uint8(1)<<m
			n[b] ^= bit
			switch {
			case s[b] == 0: // there is nothing to copy
			case s[b]&bit == 0 && (l.capacity[m] == 0 || l.used(n, m, nil) <= l.capacity[m]):
				to(n, l.sizes[b])
			case s[b]&bit != 0 && (n[b] != 0 || l.transient[b]):
				to(n, 0)
			}
		}
	}
}

// run is what a command leaves, if all is there that it needs.
func (l *loop) run(s held, accs []mem.Access) (held, bool) {
	for m := range l.capacity {
		if l.capacity[m] > 0 && l.used(s, m, accs) > l.capacity[m] {
			return s, false
		}
	}
	for _, a := range accs {
		if a.Mode.Reads() && s[a.Buffer]>>a.Memory&1 == 0 {
			return s, false
		}
	}
	for _, a := range accs {
		if a.Mode.Writes() {
			s[a.Buffer] = 1 << a.Memory
		}
	}
	return s, true
}

// round takes the least costs of states at the round's begin to those at its end.
func (l *loop) round(costs map[held]uint64) map[held]uint64 {
	for _, accs := range l.commands {
		q, next := new(heldQueue), make(map[held]uint64)
		for s, c := range costs {
			heap.Push(q, heldItem{s, c})
		}
		for q.Len() > 0 {
			at := heap.Pop(q).(heldItem)
			if costs[at.s] < at.cost {
				continue
			}
			if s, ok := l.run(at.s, accs); ok {
				if c, known := next[s]; !known || at.cost < c {
					next[s] = at.cost
				}
			}
			l.moves(at.s, func(s held, cost uint64) {
				if c, known := costs[s]; !known || at.cost+cost < c {
					costs[s] = at.cost + cost
					heap.Push(q, heldItem{s, at.cost + cost})
				}
			})
		}
		costs = next
	}
	out := make(map[held]uint64)
	for s, c := range costs { // the content of transients ends
		for b, t := range l.transient {
			if t {
				s[b] = 0
			}
		}
		if old, known := out[s]; !known || c < old {
			out[s] = c
		}
	}
	return out
}

// least is the limit of bytes a round of the best schedule there is: over so many rounds that its period divides
// them (1 to 6, 8 and more), behind as many; false where the round cannot run.
func (l *loop) least() (bytes float64, ok bool) {
	const some = 48
	costs := map[held]uint64{}
	first := held{}
	for b := range l.sizes {
		if !l.transient[b] {
			first[b] = 1
		}
	}
	costs[first] = 0
	before := uint64(0)
	for r := range 2 * some {
		if costs = l.round(costs); len(costs) == 0 {
			return 0, false
		}
		if r == some-1 {
			before = smallest(costs)
		}
	}
	return float64(smallest(costs)-before) / some, true
}

func smallest(costs map[held]uint64) uint64 {
	n := uint64(math.MaxUint64)
	for _, c := range costs {
		n = min(n, c)
	}
	return n
}

// TestNoLoopMovesLessThanTheBound tries all schedules of tiny rounds, of whatever period. Nearly always one moves as little as the bound says.
func TestNoLoopMovesLessThanTheBound(t *testing.T) {
	all, exact := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := &loop{capacity: []uint64{0}}
		for range rapid.IntRange(1, 2).Draw(t, "memories") {
			l.capacity = append(l.capacity, 1000*rapid.Uint64Range(2, 4).Draw(t, "capacity"))
		}
		for range rapid.IntRange(2, 3).Draw(t, "buffers") {
			l.sizes, l.transient = append(l.sizes, 1000*rapid.Uint64Range(1, 2).Draw(t, "size")), append(l.transient, rapid.IntRange(0, 3).Draw(t, "transient") == 0)
		}
		written := make([]bool, len(l.sizes))
		for range rapid.IntRange(1, 6).Draw(t, "commands") {
			var accs []mem.Access
			at := mem.MemoryID(rapid.IntRange(1, len(l.capacity)-1).Draw(t, "memory"))
			for b := range l.sizes {
				if rapid.IntRange(0, 2).Draw(t, "used") == 0 {
					continue
				}
				mode := mem.Mode(rapid.IntRange(0, 2).Draw(t, "mode"))
				if l.transient[b] && !written[b] {
					mode = mem.Write
				}
				written[b] = written[b] || mode.Writes()
				accs = append(accs, mem.Access{Buffer: mem.BufferID(b), Memory: at, Range: mem.Range{End: l.sizes[b]}, Mode: mode})
			}
			l.commands = append(l.commands, accs)
		}
		got := WithinRound(func(m mem.MemoryID) mem.MemoryID { return m }, l.capacity, func(b mem.BufferID) bool { return l.transient[b] }, l.commands)
		want, ok := l.least()
		if !ok {
			t.Skip("it cannot run")
		}
		sum := float64(got.Compulsory + got.Capacity)
		require.LessOrEqual(t, sum, want+1e-6, "%+v", l)
		if all++; sum >= 0.99*want {
			exact++
		}
	})
	t.Logf("of %d rounds %d have the bound", all, exact)
	require.GreaterOrEqual(t, float64(exact), 0.93*float64(all))
}

// TestASweepOverTooMuchMovesWhatTheBoundSays: n blocks by turns with room for k: Belady's rule keeps k-1 of n-1, on average.
func TestASweepOverTooMuchMovesWhatTheBoundSays(t *testing.T) {
	var commands [][]mem.Access
	for b := range 10 {
		commands = append(commands, []mem.Access{{Buffer: mem.BufferID(b), Memory: 1, Range: mem.Range{End: 9000}, Mode: mem.Read}})
	}
	got := WithinRound(func(m mem.MemoryID) mem.MemoryID { return m }, []uint64{0, 6 * 9000}, func(mem.BufferID) bool { return false }, commands)
	require.InDelta(t, 10*9000*(10.0-6)/(10-1), float64(got.Capacity), 1)
	require.Equal(t, []uint64{0, got.Capacity}, got.ByMemory)
}
