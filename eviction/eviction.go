// Package eviction says which blocks go first where a memory is short. What may
// go, what fits then and where bytes are written back to is package migration's; a
// policy only compares.
package eviction

import (
	"fmt"
	"math"
	"reflect"
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
	Used   uint64    // number of the last command that used the block, from 1; 0 is never
	Write  float64   // time to write Back to the cheapest place
	Fetch  float64   // time to fetch Fresh again from there
	// Priority comes before the score: whatever a policy says, those of lower priority go first.
	Priority int32
}

// Size is that of the block, in bytes.
func (c *Candidate) Size() uint64 { return c.Range.Size() }

// Policy says which candidates go first. It belongs to one context, and is called
// under its planner lock: it must neither block nor call a context, whose methods fail
// there with mem.ErrInvalidOperation.
type Policy interface {
	// Name is what ByName knows it by.
	Name() string
	// Score is what it costs to lose c when command number now is planned: the
	// lowest goes first; of equals, the least recently used, then the lowest ID.
	Score(now uint64, c *Candidate) float64
}

// Ranker is a policy whose scores may be kept while blocks are not used.
type Ranker interface {
	Policy
	// ScoreAt is what Score is at command number now, as of an earlier one: scores as of
	// the same base compare, whenever each was asked for, while the epoch is the same and
	// nobody uses the blocks. ScoreAt(now, now, c) is Score(now, c).
	ScoreAt(base, now uint64, c *Candidate) float64
	// Epoch changes when the policy has changed its mind on all blocks.
	Epoch() uint64
}

// Settled is a Ranker whose scores change only where a block is used: neither as time goes
// by nor with what other memories hold. Its order, once made, needs no second look.
type Settled interface {
	Ranker
	// Settled is the policy whose scores those are: itself. A policy that embeds this one,
	// and may score otherwise, inherits the other's answer, and counts as not settled.
	Settled() Policy
}

// IsSettled reports whether p is Settled itself.
func IsSettled(p Policy) bool {
	s, ok := p.(Settled)
	return ok && reflect.TypeOf(s.Settled()) == reflect.TypeOf(p)
}

// Observer is a policy that learns from what is done.
type Observer interface {
	Policy
	// Observe tells of each command that was accepted, in order, with what it
	// accesses. It may begin with any command, and leave none out from then on.
	Observe(accesses []mem.Access)
}

// ByName returns a new policy: "lru", "cost", or "none", which is nil: nothing goes.
// It fails with mem.ErrInvalidValue for any other. NewBelady's needs a future.
func ByName(name string) (Policy, error) {
	switch name {
	case "lru":
		return LRU{}, nil
	case "cost":
		return NewCost(), nil
	case "none":
		return nil, nil
	}
	return nil, fmt.Errorf("eviction policy %q: want one of %s: %w", name, strings.Join(names(), ", "), mem.ErrInvalidValue)
}

// names are those that ByName takes.
func names() []string { return []string{"cost", "lru", "none"} }

// Belady is the name of what NewBelady returns.
const Belady = "belady"

// Policies are the names that Foreseen takes.
func Policies() []string { return append([]string{Belady}, names()...) }

// Foreseen is ByName where the future is known: then belady makes that policy. An empty name is
// nil, the runtime's default.
func Foreseen(name string, belady func() Policy) (Policy, error) {
	switch name {
	case "":
		return nil, nil
	case Belady:
		return belady(), nil
	}
	return ByName(name)
}

// LRU has the block go that was used longest ago.
type LRU struct{}

// Name is "lru".
func (LRU) Name() string { return "lru" }

// Score is the number of the command that used c last.
func (LRU) Score(_ uint64, c *Candidate) float64 { return float64(c.Used) }

// ScoreAt implements Ranker.
func (LRU) ScoreAt(_, _ uint64, c *Candidate) float64 { return float64(c.Used) }

// Epoch implements Ranker.
func (LRU) Epoch() uint64 { return 0 }

// Settled implements Settled.
func (p LRU) Settled() Policy { return p }

// cost has the block go whose room costs the least: the time to write it back and
// to fetch it again, for the bytes that it has and for how long they stay free,
// which is until it is used next. When that is, it guesses, from what followed when
// the program last did what it does now. While the program does nothing for the
// second time, what was not used for long counts as not used for long to come.
type cost struct{ past *past }

// NewCost returns the policy for one context.
func NewCost() Observer { return new(cost) }

// hurry: what was used a commands ago counts for 1 + 1/(hurry*a) of its price, where it is
// foreseen. A program that sweeps over more than there is needs its latest block last; but
// that is still in use, so that its write-back, and what comes in its place, would wait for
// the command that was just enqueued, and copies and kernels would come in turn. A few
// commands earlier costs next to nothing, and they overlap: of p blocks in turn the one
// goes that was used about sqrt(p/3) commands ago. It is the order of commands that counts
// and not what has ended, so that a run can be repeated.
const hurry = 4

// Name is "cost".
func (*cost) Name() string { return "cost" }

// Observe implements Observer. The first call allocates some MiB, and later ones
// nothing, but for buffers that are new.
func (p *cost) Observe(accesses []mem.Access) {
	if p.past == nil {
		p.past = newPast()
	}
	p.past.observe(accesses)
}

// Score is seconds, or bytes where times are not known, for a byte's room.
func (p *cost) Score(now uint64, c *Candidate) float64 { return p.ScoreAt(now, now, c) }

// Epoch implements Ranker: it changes where the program turns to something else than it
// has done so far.
func (p *cost) Epoch() uint64 {
	if p.past == nil || p.past.match == 0 {
		return 0
	}
	return p.past.jumps
}

// ScoreAt implements Ranker.
func (p *cost) ScoreAt(base, now uint64, c *Candidate) float64 {
	age := float64(max(base, c.Used+1) - c.Used)
	if p.past != nil {
		if a, known := p.past.ahead(c.Buffer, c.Memory); known {
			return a.price(c, now-base) * (1 + 1/(hurry*age))
		}
	}
	return price(c, true, true) / (age * age) // recency counts for more than cost, which is twice as much at most
}

// Ahead is what becomes of a block, if it stays.
type Ahead struct {
	Until uint64 // commands until one uses it there, at least 1; 0 is never
	Fetch bool   // that command reads what the block holds now
	// Wanted: another memory reads the content before it is written anew, so that
	// it has to leave the block anyway.
	Wanted bool
}

// price is what room costs if c goes, as of so many commands ago. Time counts for a little less than it is
// (its 3/4th power): the room of a block that is needed late is of use to others
// only where nothing else becomes free meanwhile. Of the powers tried this was the
// best with the future known (simulate_test.go).
func (a Ahead) price(c *Candidate, ago uint64) float64 {
	until := float64(a.Until + ago)
	if a.Until == 0 {
		until = math.MaxUint32
	}
	root := math.Sqrt(until)
	return price(c, !a.Wanted, a.Fetch) / (root * math.Sqrt(root))
}

// price is the time to write a block back and to fetch it again, as far as that is
// needed, for each of its bytes; in bytes, where times are not known.
func price(c *Candidate, write, fetch bool) (sum float64) {
	known := c.Write+c.Fetch > 0
	add := func(time float64, bytes uint64) {
		if known {
			sum += time
		} else {
			sum += float64(bytes)
		}
	}
	if write {
		add(c.Write, c.Back)
	}
	if fetch {
		add(c.Fetch, c.Fresh)
	}
	return sum / float64(c.Size())
}
