package eviction

import "godwit/mem"

// Future is what is known of the commands to come.
type Future interface {
	// Ahead looks what becomes of a buffer's block on a memory when command number
	// now is planned: that command counts.
	Ahead(b mem.BufferID, m mem.MemoryID, now uint64) Ahead
}

// Belady is Cost with the future known: of blocks that are alike, the one goes that
// is used last (L. A. Belady: A Study of Replacement Algorithms for a
// Virtual-Storage Computer, 1966).
type Belady struct{ future Future }

// NewBelady returns the policy that knows this future.
func NewBelady(f Future) Belady { return Belady{f} }

// Name is "belady".
func (Belady) Name() string { return "belady" }

// Score is seconds, or bytes where times are not known, for a byte's room.
func (p Belady) Score(now uint64, c *Candidate) float64 { return p.ScoreAt(now, now, c) }

// ScoreAt implements Ranker.
func (p Belady) ScoreAt(base, now uint64, c *Candidate) float64 {
	return p.future.Ahead(c.Buffer, c.Memory, now).price(c, now-base)
}

// Epoch implements Ranker.
func (Belady) Epoch() uint64 { return 0 }
