package bufalloc

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"godwit/internal/suggest"
)

// Strategy says where a Region places chunks. The zero value is Fit. Those below
// are built in; Register adds others.
type Strategy uint16

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
	// that fits, the unused tail only where there is none. O(log n) where chunks are
	// aligned to the granularity; exact. What it does in a region it does in every
	// larger one: the smallest region that works is a safe one.
	Tight
	// Wasteful is PoCL's default as documented: the unused tail first, freed
	// holes only where it is too small. O(log n) as Tight; exact.
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
	builtin
)

// strategy is what is known of a Strategy.
type strategy struct {
	name  string
	exact bool             // never fails while a hole fits
	grid  bool             // places on a grid of its own: holes cannot be cut anywhere
	still bool             // places alike in every region: see Monotone
	open  func() Placement // nil for those whose order of holes is built into Region
}

// strategies is indexed by Strategy; entries are immutable.
var strategies = struct {
	sync.RWMutex
	list []strategy // protected by the mutex
}{list: []strategy{
	Fit:          {name: "fit", exact: true},
	BestFit:      {name: "bestfit", exact: true, open: newBestFit},
	Tight:        {name: "tight", exact: true, still: true},
	Wasteful:     {name: "wasteful", exact: true},
	GoodFit:      {name: "goodfit"},
	Buddy:        {name: "buddy", grid: true},
	PowerOfTwo:   {name: "poweroftwo", grid: true},
	PoCLTight:    {name: "pocl-tight", grid: true},
	PoCLWasteful: {name: "pocl-wasteful", grid: true},
}}

// Register makes a placement known by name, for every Region and for whatever
// takes a strategy's name, and returns its Strategy. open makes one for each
// region. exact says that Find never fails while a hole exists that the request
// fits into. Names are compared without case. Register is for init functions:
// it panics where the name is taken or not a plain word, which is a bug in the
// program.
func Register(name string, exact bool, open func() Placement) Strategy {
	if name == "" || strings.ContainsAny(name, " :,\t\n") || open == nil {
		panic(fmt.Sprintf("bufalloc: strategy %q: want a name without spaces, colons and commas, and a placement", name))
	}
	strategies.Lock()
	defer strategies.Unlock()
	for _, s := range strategies.list {
		if strings.EqualFold(s.name, name) {
			panic("bufalloc: strategy " + name + " registered twice")
		}
	}
	strategies.list = append(strategies.list, strategy{name: name, exact: exact, open: open})
	return Strategy(len(strategies.list) - 1)
}

// info is what is known of s; ok is false where nothing is registered for it.
func (s Strategy) info() (x strategy, ok bool) {
	strategies.RLock()
	defer strategies.RUnlock()
	if int(s) >= len(strategies.list) {
		return strategy{}, false
	}
	return strategies.list[s], true
}

// String is the strategy's name on the command line.
func (s Strategy) String() string {
	x, ok := s.info()
	if !ok {
		return fmt.Sprintf("Strategy(%d)", uint16(s))
	}
	return x.name
}

// Strategies lists all strategies: those built in, the default first, then the
// registered ones by name.
func Strategies() []Strategy {
	strategies.RLock()
	defer strategies.RUnlock()
	all := make([]Strategy, len(strategies.list))
	for i := range all {
		all[i] = Strategy(i)
	}
	slices.SortFunc(all[builtin:], func(a, b Strategy) int {
		return strings.Compare(strategies.list[a].name, strategies.list[b].name)
	})
	return all
}

// ParseStrategy returns the strategy of that name. It fails with
// mem.ErrInvalidValue for any other, and lists the names.
func ParseStrategy(name string) (Strategy, error) {
	return suggest.Pick("strategy", name, Strategies(), Strategy.String)
}

// Exact reports whether the strategy never fails while a hole exists that the
// request fits into.
func (s Strategy) Exact() bool {
	x, _ := s.info()
	return x.exact
}

// Monotone reports whether what fits into a region fits into every larger one, since
// the strategy places alike in all of them.
func (s Strategy) Monotone() bool {
	x, _ := s.info()
	return x.still
}

// placer is a strategy at work: it keeps the holes of one region in an order
// and picks among them. Fit and GoodFit are not behind this interface: see
// Region.bins. Placements are, each in a placed; what is here directly needs
// more of a region than a Placement sees: its address order, or a say in how
// holes are merged.
type placer interface {
	// reset forgets all holes.
	reset(r *Region)
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
	// count is the number of holes in the order.
	count() int
}
