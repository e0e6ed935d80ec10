package replay

import (
	"context"

	"godwit/bufalloc"
)

// Step is what one operation of a replay did.
type Step struct {
	Op            Op
	OK            bool // false where an allocation did not fit
	Before, After bufalloc.Stats
}

// Watch replays st through a region of size bytes and shows every operation with
// the figures before and after it. It fails with a *Fault where the subject
// breaks its contract. For short streams: figures cost a walk over what is live.
func Watch(ctx context.Context, st *Stream, subject Subject, size uint64, see func(Step)) error {
	before := bufalloc.Stats{Capacity: size, Free: size, LargestFree: size, Holes: 1}
	return through(ctx, st, subject, size, all, func(m machine, i int, ok bool) error {
		after := m.stats()
		see(Step{st.Ops[i], ok, before, after})
		before = after
		return nil
	})
}

// Game is a play against an allocator by somebody who looks at the addresses it
// gives before deciding what comes next. It belongs to one goroutine.
type Game struct {
	m     machine
	st    *Stream // what was played so far
	size  uint64
	spare []uint32
}

// NewGame begins a play in an empty region of size bytes, with at most so many
// chunks live at a time, all aligned to align. Close ends it.
func NewGame(ctx context.Context, s Subject, align uint64, slots int, size uint64) (*Game, error) {
	g := &Game{st: &Stream{Name: "game", Align: align, Slots: slots}, size: size}
	for slot := slots - 1; slot >= 0; slot-- {
		g.spare = append(g.spare, uint32(slot))
	}
	var err error
	g.m, err = s.open(ctx, g.st, size, unknown)
	return g, err
}

// Alloc asks for size bytes. ok is false where the allocator refused, or the
// slots are used up; that is not part of what was played.
func (g *Game) Alloc(size uint64) (slot uint32, addr uint64, ok bool, err error) {
	n := len(g.spare)
	if n == 0 {
		return 0, 0, false, nil
	}
	slot = g.spare[n-1]
	op := Op{Size: size, Slot: slot}
	if ok, err = g.m.do(op); err != nil {
		g.st.Ops = append(g.st.Ops, op) // it belongs to what shows the fault
		return 0, 0, false, blame(err, g.st, len(g.st.Ops)-1, g.size)
	}
	if !ok {
		return 0, 0, false, nil
	}
	g.spare = g.spare[:n-1]
	g.st.Ops = append(g.st.Ops, op)
	addr, err = g.m.addr(slot)
	return slot, addr, true, err
}

// Free gives the live chunk in the slot back.
func (g *Game) Free(slot uint32) error {
	op := Op{Slot: slot}
	g.st.Ops = append(g.st.Ops, op)
	if _, err := g.m.do(op); err != nil {
		return blame(err, g.st, len(g.st.Ops)-1, g.size)
	}
	g.spare = append(g.spare, slot)
	return nil
}

// Ops is what was played so far. It is the game's until Close.
func (g *Game) Ops() []Op { return g.st.Ops }

// Close ends the play.
func (g *Game) Close() error { return g.m.close() }
