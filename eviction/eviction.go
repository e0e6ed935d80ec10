// Package eviction says which blocks go first where a memory is short. What may
// go, what fits then and where bytes are written back to is migration's; a policy
// only compares. Everything here is pure: policies are called under a context's
// planner lock, and neither block nor allocate.
package eviction

import (
	"fmt"
	"strings"

	"godwit/mem"
)

// Candidate is a block that may go from a memory that is short. Bytes; times in
// seconds, 0 where the figures of the links are not known.
type Candidate struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	Range  mem.Range // of the buffer that the block holds
	Fresh  uint64    // bytes that are valid in it: what a later use there has to fetch again
	Back   uint64    // of Fresh, those that must be written back first
	Write  float64   // time to write Back to the cheapest place
	Fetch  float64   // time to fetch Fresh again from there
	History
}

// Size is that of the block, in bytes.
func (c *Candidate) Size() uint64 { return c.Range.Size() }

// Policy says which candidates go first. Called under the context's planner lock:
// it must neither block nor call the context.
type Policy interface {
	// Name is what ByName knows it by.
	Name() string
	// Score is what it costs to lose c when command number now is planned: the
	// lowest goes first; of equals, the least recently used, then the lowest ID.
	Score(now uint64, c *Candidate) float64
}

// Observer is a policy that learns from what is done. The planner tells it of each
// command that it commits, refused ones not, from when a memory first is half full.
// Called under the context's planner lock, so that it belongs to one context.
type Observer interface {
	Policy
	Observe(now uint64, accesses []mem.Access)
}

// ByName returns a policy that needs no more than a name: "lru", "cost", or
// "none", which is nil: nothing goes. It fails with mem.ErrInvalidValue for any
// other.
func ByName(name string) (Policy, error) {
	switch name {
	case LRU{}.Name():
		return LRU{}, nil
	case Cost{}.Name():
		return Cost{}, nil
	case "none":
		return nil, nil
	}
	return nil, fmt.Errorf("eviction policy %q: want one of %s: %w", name, strings.Join(Names(), ", "), mem.ErrInvalidValue)
}

// Names are those that ByName takes.
func Names() []string { return []string{Cost{}.Name(), LRU{}.Name(), "none"} }

// LRU has the block go that was used longest ago.
type LRU struct{}

// Name is "lru".
func (LRU) Name() string { return "lru" }

// Score is the number of the command that used c last.
func (LRU) Score(_ uint64, c *Candidate) float64 { return float64(c.Used) }

// Cost has the block go whose room costs the least: the time to write it back and
// to fetch it again, for a byte and for each command until it is likely to be used
// next. When that is, is told by its history. It is what Belady's rule is where all
// blocks have one size and one cost, with a guess in place of the future.
type Cost struct{}

// Name is "cost".
func (Cost) Name() string { return "cost" }

// Score is seconds, or bytes where times are not known, by byte and command.
func (Cost) Score(now uint64, c *Candidate) float64 {
	return price(c, 1, 1) / float64(c.Next(now)-now)
}

// price is what it costs to lose a byte of a block: these parts of the time to
// write it back, and to fetch it again; of bytes, where times are not known.
func price(c *Candidate, write, fetch float64) float64 {
	if c.Write+c.Fetch > 0 {
		return (write*c.Write + fetch*c.Fetch) / float64(c.Size())
	}
	return (write*float64(c.Back) + fetch*float64(c.Fresh)) / float64(c.Size())
}
