package bufalloc

import (
	"fmt"
	"strings"

	"godwit/mem"
)

// Strategy says where a Region places chunks. The zero value is Fit.
type Strategy uint8

// The strategies. Those marked exact never fail while a hole exists that the
// request fits into.
const (
	// Fit is the default: two-level bins with a look into the request's own
	// bin, low addresses first, large chunks from the other end. O(1); exact.
	Fit Strategy = iota
	// BestFit takes the smallest hole that fits, at the lowest address among
	// equals. O(log n); exact. The yardstick for fragmentation.
	BestFit
	// Tight is PoCL's strategy of that name as documented: the first freed hole
	// that fits, the unused tail only where there is none. O(n); exact.
	Tight
	// Wasteful is PoCL's default as documented: the unused tail first, freed
	// holes only where it is too small. O(n) at worst; exact.
	Wasteful
	// GoodFit is the bare two-level bitmap (TLSF, OffsetAllocator): the request
	// rounded up to the next bin, that bin's last freed hole. O(1); not exact. The
	// yardstick for speed.
	GoodFit
	// Buddy is Knuth's binary buddy system on naturally aligned blocks. Sizes
	// are rounded up to powers of two. O(log n); not exact.
	Buddy
	// PowerOfTwo keeps freed blocks in pools by power-of-two size and neither
	// splits nor merges them. O(1); not exact.
	PowerOfTwo
	// PoCLTight does what PoCL's bufalloc.c really does under BALLOCS_TIGHT: a
	// hole is reused whole, without splitting, and 1,023 chunks are the limit.
	PoCLTight
	// PoCLWasteful is the same under BALLOCS_WASTEFUL, PoCL's default.
	PoCLWasteful
	numStrategies
)

var strategyNames = [numStrategies]string{
	Fit: "fit", BestFit: "bestfit", Tight: "tight", Wasteful: "wasteful", GoodFit: "goodfit",
	Buddy: "buddy", PowerOfTwo: "poweroftwo", PoCLTight: "pocl-tight", PoCLWasteful: "pocl-wasteful",
}

// String is the strategy's name on the command line.
func (s Strategy) String() string {
	if s >= numStrategies {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategyNames[s]
}

// Strategies lists all strategies, the default first.
func Strategies() []Strategy {
	all := make([]Strategy, numStrategies)
	for i := range all {
		all[i] = Strategy(i)
	}
	return all
}

// ParseStrategy returns the strategy of that name. It fails with
// mem.ErrInvalidValue for any other, and lists the names.
func ParseStrategy(name string) (Strategy, error) {
	for s, n := range strategyNames {
		if strings.EqualFold(n, name) {
			return Strategy(s), nil
		}
	}
	return 0, fmt.Errorf("strategy %q: want one of %s: %w", name, strings.Join(strategyNames[:], ", "), mem.ErrInvalidValue)
}

// Exact reports whether the strategy never fails while a hole exists that the
// request fits into.
func (s Strategy) Exact() bool { return s <= Wasteful }

// splits reports whether a chunk may take any part of a hole, so that several
// requests can be cut out of one.
func (s Strategy) splits() bool { return s <= GoodFit }

// placer is a strategy at work: it keeps the holes of one region in an order
// and picks among them. Fit and GoodFit are not behind this interface: see
// Region.bins.
type placer interface {
	// reset forgets all holes.
	reset()
	// insert takes note of hole i. A placer may cut it into several.
	insert(r *Region, i uint32)
	// remove forgets hole i, which is about to change or vanish.
	remove(r *Region, i uint32)
	// find picks a hole, and in it the chunk's address and its size, slack
	// included. It changes nothing. The index is 0 where there is none.
	find(r *Region, size, align uint64) (i uint32, addr, take uint64)
	// joins reports whether hole j, which borders on hole i from behind, should
	// become one with it. Node i or j is the one just freed.
	joins(r *Region, i, j uint32) bool
	// check tests that the order holds hole i and is right about it.
	check(r *Region, i uint32) error
	// holes is the number of holes in the order, and in how many nodes it could
	// need for one allocation is at most 2 but for buddies.
	holes() int
}
