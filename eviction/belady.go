package eviction

import (
	"math"

	"godwit/mem"
)

// Future is what is known of the commands to come.
type Future interface {
	// Ahead looks what becomes of a block and of the content that it has when
	// command number now is planned.
	Ahead(b mem.BufferID, m mem.MemoryID, now uint64) Ahead
}

// Ahead is what becomes of a block, if it stays.
type Ahead struct {
	Next  uint64 // the next command that uses the block there, now or later; 0 is never
	Fetch bool   // that command reads what the block holds now
	// Wanted: another memory reads the content before it is written anew, so that
	// it has to leave the block anyway.
	Wanted bool
}

// Belady has the block go whose room costs the least, as Cost, with the future
// known: for equal blocks, the one that is used last. (L. A. Belady: A Study of
// Replacement Algorithms for a Virtual-Storage Computer, 1966.)
type Belady struct{ future Future }

// NewBelady returns the policy that knows this future.
func NewBelady(f Future) Belady { return Belady{f} }

// Name is "belady".
func (Belady) Name() string { return "belady" }

// Score is seconds, or bytes where times are not known, by byte and command.
func (p Belady) Score(now uint64, c *Candidate) float64 {
	a := p.future.Ahead(c.Buffer, c.Memory, now)
	write, fetch, until := 1.0, 0.0, float64(math.MaxUint32)
	if a.Wanted {
		write = 0
	}
	if a.Next != 0 {
		until = float64(max(a.Next, now+1) - now)
	}
	if a.Fetch {
		fetch = 1
	}
	return price(c, write, fetch) / until
}
