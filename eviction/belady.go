package eviction

import "godwit/mem"

// future is what is known of the commands to come.
type future interface {
	// Ahead looks what becomes of a buffer's block on a memory when command number
	// now is planned: that command counts.
	Ahead(b mem.BufferID, m mem.MemoryID, now uint64) Ahead
}

// belady is cost with the future known: of blocks that are alike, the one goes that
// is used last (L. A. Belady: A Study of Replacement Algorithms for a
// Virtual-Storage Computer, 1966).
type belady struct{ future future }

// NewBelady returns the policy that knows this future.
func NewBelady(f future) Policy { return belady{f} }

// Name is "belady".
func (belady) Name() string { return Belady }

// Score is seconds, or bytes where times are not known, for a byte's room.
func (p belady) Score(now uint64, c *Candidate) float64 { return p.ScoreAt(now, now, c) }

// ScoreAt implements Ranker.
func (p belady) ScoreAt(base, now uint64, c *Candidate) float64 {
	return p.future.Ahead(c.Buffer, c.Memory, now).price(c, now-base)
}

// Epoch implements Ranker.
func (belady) Epoch() uint64 { return 0 }
