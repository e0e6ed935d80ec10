package resource

import (
	"fmt"
	"sync"

	"godwit/mem"
)

// Limit is a ceiling on the bytes that callers hold through it, those given
// back but still waiting for a point included.
type Limit struct {
	base

	mu      sync.Mutex
	ceiling Ceiling                // protected by mu
	live    map[mem.Block]struct{} // protected by mu
}

// NewLimit returns a ceiling of max bytes over up. It fails with
// mem.ErrInvalidValue for a ceiling of zero.
func NewLimit(up mem.Resource, max uint64) (*Limit, error) {
	if max == 0 {
		return nil, fmt.Errorf("limit of 0 bytes: a ceiling must leave room for something: %w", mem.ErrInvalidValue)
	}
	return &Limit{base: base{up}, ceiling: Ceiling{Max: max}, live: make(map[mem.Block]struct{})}, nil
}

// String names the layer with its ceiling.
func (l *Limit) String() string { return "limit " + mem.FormatBytes(l.ceiling.Max) }

// Held is the number of bytes counted against the ceiling.
func (l *Limit) Held() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ceiling.Held()
}

// Max is the ceiling in bytes.
func (l *Limit) Max() uint64 { return l.ceiling.Max }

// AllocAll answers OverBudget where the ceiling would be passed, NeedsWait
// where it would not once all pending frees have happened. Where reuse takes these,
// what is given waits for as many of them, the oldest first, as keeps what is in use
// at any time below the ceiling.
func (l *Limit) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	want, err := total(reqs)
	if err != nil {
		return mem.Exhausted, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	over, o := l.ceiling.Over(want, reuse)
	if o != mem.Ready {
		return o, nil
	}
	o, err = l.Resource.AllocAll(reqs, out, reuse)
	if err != nil || o != mem.Ready {
		return o, err
	}
	l.ceiling.Take(want, over, reuse, len(reqs))
	for _, b := range out {
		l.live[b] = struct{}{}
	}
	return o, nil
}

// Fits counts gone as given back.
func (l *Limit) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	want, err := total(reqs)
	if err != nil {
		return false
	}
	l.mu.Lock()
	var leaving uint64
	for _, b := range gone {
		if _, ok := l.live[b]; ok {
			leaving += b.Size
		}
	}
	fits := l.ceiling.Fits(want, leaving, reuse)
	l.mu.Unlock()
	return fits && l.Resource.Fits(reqs, gone, reuse)
}

// Stats are those of upstream with no more capacity than the ceiling.
func (l *Limit) Stats() mem.ResourceStats {
	s := l.Resource.Stats()
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.ceiling.Max - l.ceiling.held
	if s.Capacity == 0 {
		s.Capacity, s.LargestFree = l.ceiling.Max, room
		return s
	}
	s.Capacity, s.LargestFree = min(s.Capacity, l.ceiling.Max), min(s.LargestFree, room)
	return s
}

// FreeAfter gives b back; it counts against the ceiling until the points are
// reached.
func (l *Limit) FreeAfter(b mem.Block, after []mem.Point) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.live[b]; !ok {
		return notLive("limit", b)
	}
	if err := l.Resource.FreeAfter(b, after); err != nil {
		return err
	}
	delete(l.live, b)
	l.ceiling.Free(b.Size, after)
	return nil
}

// Check tests that what is held is what is live and pending, and no more than
// the ceiling; then upstream.
func (l *Limit) Check() error {
	l.mu.Lock()
	sum := l.ceiling.Pending()
	for b := range l.live {
		sum += b.Size
	}
	held := l.ceiling.held
	l.mu.Unlock()
	if sum != held {
		return fmt.Errorf("limit: %d bytes counted as held, but %d are live or pending", held, sum)
	}
	if held > l.ceiling.Max {
		return fmt.Errorf("limit: %d bytes held over the ceiling of %d", held, l.ceiling.Max)
	}
	return l.Resource.Check()
}

// total sums requests. Zero sizes and sums past 64 bits are errors.
func total(reqs []mem.Request) (uint64, error) {
	var sum uint64
	for i, r := range reqs {
		if r.Size == 0 {
			return 0, fmt.Errorf("request %d of %d: size 0: a block holds at least one byte: %w", i+1, len(reqs), mem.ErrInvalidSize)
		}
		if sum+r.Size < sum {
			return 0, fmt.Errorf("request %d of %d: %d bytes more overflow 64 bits: %w", i+1, len(reqs), r.Size, mem.ErrInvalidSize)
		}
		sum += r.Size
	}
	return sum, nil
}

func notLive(layer string, b mem.Block) error {
	return fmt.Errorf("%s: free of block %#x of %d bytes (ref %#x), which is not live here: %w", layer, b.Addr, b.Size, b.Ref, mem.ErrInvalidValue)
}
