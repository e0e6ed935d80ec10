package replay

import (
	"context"
	"errors"
	"fmt"

	"godwit/bufalloc"
	"godwit/internal/suggest"
)

// Subject is what streams are replayed through: a strategy of bufalloc (Of) or an
// allocator in another process (OfRemote). Safe for use from many goroutines.
type Subject interface {
	// Name is what tables, files and the command line call it.
	Name() string

	// open makes an empty region of size bytes for st, to be closed.
	open(ctx context.Context, st *Stream, size uint64, ask asking) (machine, error)
	// contend makes a contender for times.
	contend(ctx context.Context, st *Stream, size uint64) (contender, error)
}

// asking says what of a stream a machine will be asked to do.
type asking uint8

const (
	all       asking = iota // every operation, in order
	toRefusal               // what comes before the first refusal, that one included
	unknown                 // nobody knows: st has the alignment and the number of slots alone
)

// machine is one replay in progress. Errors are *Fault, or that no replay was
// possible.
type machine interface {
	// do performs the stream's next operation. ok is false where an allocation
	// did not fit; the free of such a one does nothing.
	do(op Op) (ok bool, err error)
	// addr is the address of the live chunk in the slot.
	addr(slot uint32) (uint64, error)
	// stats are the figures so far, as far as they are known.
	stats() bufalloc.Stats
	// quick reports that stats costs next to nothing.
	quick() bool
	close() error
}

// Of is a strategy of bufalloc as a Subject.
func Of(s bufalloc.Strategy) Subject { return region{s, nil} }

// PlannedName is the name of a region that follows a plan, beside the strategies.
const PlannedName = "planned"

// Follow is a region that follows a plan, as a Subject.
func Follow(p *bufalloc.Plan) Subject { return region{bufalloc.Fit, p} }

// Strategies are strategies of bufalloc as Subjects.
func Strategies(list ...bufalloc.Strategy) []Subject {
	out := make([]Subject, len(list))
	for i, s := range list {
		out[i] = Of(s)
	}
	return out
}

// Subjects lists what can be named: all strategies, the default first.
func Subjects() []Subject { return Strategies(bufalloc.Strategies()...) }

// ParseSubject is the strategy of that name, without regard to case. It fails with
// mem.ErrInvalidValue for any other, and lists the names.
func ParseSubject(name string) (Subject, error) {
	return suggest.Pick("strategy", name, Subjects(), Subject.Name)
}

// region is a strategy of bufalloc, or a plan, as a Subject. It uses a Region directly.
type region struct {
	strategy bufalloc.Strategy
	plan     *bufalloc.Plan
}

func (p region) Name() string {
	if p.plan != nil {
		return PlannedName
	}
	return p.strategy.String()
}

func (p region) open(_ context.Context, st *Stream, size uint64, _ asking) (machine, error) {
	return newState(st, p, size)
}

func (p region) contend(_ context.Context, st *Stream, size uint64) (contender, error) {
	s, err := newState(st, p, size)
	if err != nil {
		return nil, err
	}
	return &local{st: st, x: s}, nil
}

// state is a Region as a machine.
type state struct {
	st      *Stream
	r       *bufalloc.Region
	chunks  []bufalloc.Chunk // by slot; the zero chunk where an allocation failed
	planned bool
}

func newState(st *Stream, p region, size uint64) (*state, error) {
	r, err := bufalloc.NewRegion(0, size, bufalloc.Options{Strategy: p.strategy, Granularity: st.granularity(), Chunks: st.Slots, Plan: p.plan})
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", st.Name, p.Name(), err)
	}
	return &state{st, r, make([]bufalloc.Chunk, st.Slots), p.plan != nil}, nil
}

// maxGranularity is the greatest that a Region takes, in bytes.
const maxGranularity = 1 << 24

func (st *Stream) granularity() uint64 { return min(st.Align, maxGranularity) }

// perform is do without its errors: for what is timed.
func (s *state) perform(op Op) (ok bool) {
	if op.Size != 0 {
		c, err := s.r.AllocHint(op.Size, s.st.Align, op.hint())
		s.chunks[op.Slot] = c
		return err == nil
	}
	if c := s.chunks[op.Slot]; !c.IsZero() {
		if err := s.r.Free(c); err != nil {
			panic(fmt.Sprintf("replay: %s, slot %d: %v", s.st.Name, op.Slot, err)) // only replay holds the chunk
		}
	}
	return true
}

func (s *state) do(op Op) (ok bool, err error) {
	if op.Size == 0 {
		return s.perform(op), nil
	}
	c, err := s.r.AllocHint(op.Size, s.st.Align, op.hint())
	s.chunks[op.Slot] = c
	return err == nil, s.fault(err)
}

// fault is an error other than that there is no room.
func (s *state) fault(err error) error {
	if !errors.Is(err, bufalloc.ErrPlacement) {
		return nil
	}
	return &Fault{Subject: s.r.Strategy().String(), Kind: misplaced, Detail: err.Error()}
}

func (s *state) addr(slot uint32) (uint64, error) { return s.r.Addr(s.chunks[slot]) }

func (s *state) stats() bufalloc.Stats { return s.r.Stats() }

func (s *state) quick() bool {
	return s.r.Strategy() == bufalloc.Fit || s.r.Strategy() == bufalloc.GoodFit
}

func (s *state) close() error { return nil }

func pointOf(i int, x bufalloc.Stats) Point {
	return Point{i, x.Live + x.Slack, x.Free, x.HighWater, x.LargestFree}
}

func (s *state) reset() { s.r.Reset() }

func (s *state) bookkeeping() (used, aside uint64) {
	x := s.r.Stats()
	return uint64(x.Chunks+x.Holes) * nodeBytes, x.Bookkeeping
}
