package bound_test

import (
	"container/heap"

	"godwit/mem"
)

// The least bytes that a tiny run can move, found by trying everything. Buffers
// have parts of one size each; memory 0 has no limit. A run may at any time make a
// block where there is room, copy a part between blocks, and free a block whose
// written parts are held elsewhere too.

type tinyBuffer struct {
	parts       int
	partSize    uint64
	initialised bool
}

type tinyAccess struct {
	buffer, from, to int // parts
	mode             mem.Mode
	memory           int
}

// tinyCommand is accesses, or where there are none the release of a buffer.
type tinyCommand struct {
	accesses []tinyAccess
	release  int
}

type tinyRun struct {
	buffers  []tinyBuffer
	capacity []uint64 // by memory; 0 is no limit
	commands []tinyCommand
}

const (
	maxTinyBuffers, maxTinyParts = 4, 2
	neverWritten                 = 0x80
)

// tinyState is where a run is. Comparable.
type tinyState struct {
	next    int8
	blocks  [maxTinyBuffers]uint8               // by buffer: memories with a block, as bits
	holders [maxTinyBuffers][maxTinyParts]uint8 // memories that hold the latest, as bits
}

type tinyItem struct {
	s    tinyState
	cost uint64
}

type tinyQueue []tinyItem

func (q tinyQueue) Len() int           { return len(q) }
func (q tinyQueue) Less(i, j int) bool { return q[i].cost < q[j].cost }
func (q tinyQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *tinyQueue) Push(x any)        { *q = append(*q, x.(tinyItem)) }
func (q *tinyQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// least is the least bytes that the run can move; false where it cannot run.
func (r *tinyRun) least() (uint64, bool) {
	var first tinyState
	for i, b := range r.buffers {
		first.blocks[i] = 1
		for p := range b.parts {
			if first.holders[i][p] = neverWritten; b.initialised {
				first.holders[i][p] = 1
			}
		}
	}
	best := map[tinyState]uint64{first: 0}
	q := &tinyQueue{{first, 0}}
	for q.Len() > 0 {
		at := heap.Pop(q).(tinyItem)
		if best[at.s] < at.cost {
			continue
		}
		if int(at.s.next) == len(r.commands) {
			return at.cost, true
		}
		r.moves(at.s, func(s tinyState, cost uint64) {
			if c, ok := best[s]; !ok || at.cost+cost < c {
				best[s] = at.cost + cost
				heap.Push(q, tinyItem{s, at.cost + cost})
			}
		})
	}
	return 0, false
}

func (r *tinyRun) moves(s tinyState, to func(tinyState, uint64)) {
	if next, ok := r.run(s); ok {
		to(next, 0)
	}
	for i, b := range r.buffers {
		for m := range r.capacity {
			bit := uint8(1) << m
			if s.blocks[i]&bit == 0 {
				if r.used(s, m)+r.size(i) <= r.capacity[m] || r.capacity[m] == 0 {
					n := s
					n.blocks[i] |= bit
					to(n, 0)
				}
				continue
			}
			free := m != 0
			for p := range b.parts {
				switch h := s.holders[i][p]; {
				case h == neverWritten:
				case h&bit == 0:
					n := s
					n.holders[i][p] |= bit
					to(n, b.partSize)
				case h == bit:
					free = false
				}
			}
			if free {
				n := s
				n.blocks[i] &^= bit
				for p := range b.parts {
					n.holders[i][p] &^= bit
				}
				to(n, 0)
			}
		}
	}
}

// run runs the next command, if all is there that it needs.
func (r *tinyRun) run(s tinyState) (tinyState, bool) {
	c := &r.commands[s.next]
	s.next++
	if len(c.accesses) == 0 {
		s.blocks[c.release] = 0
		for p := range s.holders[c.release] {
			s.holders[c.release][p] = neverWritten
		}
		return s, true
	}
	for _, a := range c.accesses {
		bit := uint8(1) << a.memory
		if s.blocks[a.buffer]&bit == 0 {
			return s, false
		}
		for p := a.from; p < a.to; p++ {
			if h := s.holders[a.buffer][p]; a.mode.Reads() && h != neverWritten && h&bit == 0 {
				return s, false
			}
		}
	}
	for _, a := range c.accesses {
		for p := a.from; a.mode.Writes() && p < a.to; p++ {
			s.holders[a.buffer][p] = 1 << a.memory
		}
	}
	return s, true
}

func (r *tinyRun) size(buffer int) uint64 {
	return uint64(r.buffers[buffer].parts) * r.buffers[buffer].partSize
}

func (r *tinyRun) used(s tinyState, m int) (n uint64) {
	for i := range r.buffers {
		if s.blocks[i]>>m&1 == 1 {
			n += r.size(i)
		}
	}
	return n
}
