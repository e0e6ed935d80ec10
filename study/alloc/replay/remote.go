package replay

import (
	"context"
	"errors"
	"fmt"

	"godwit/bufalloc"
)

// Remote is an allocator in another process. It is given whole streams, so that
// the way there costs nothing by the operation. Safe for use from many
// goroutines.
type Remote interface {
	// Name is what tables, files and the command line call it.
	Name() string
	// Session hands st over. Errors are *Fault, or that there is no allocator.
	Session(ctx context.Context, st *Stream) (Session, error)
}

// Session is one stream in another process, for one goroutine at a time. Errors
// of its methods are *Fault where the allocator is to blame; then the session is
// at its end.
type Session interface {
	// Play starts from an empty region of size bytes and plays the stream to its
	// end, or with stop to the first allocation that was refused. It returns what
	// was answered to each operation done: an address, NoPlace for a refusal,
	// anything for a free. The slice is valid until the next call.
	Play(ctx context.Context, size uint64, stop bool) (answers []uint64, err error)
	// Time plays the stream from an empty region of size bytes and sets batches[k]
	// to the ns that the k-th batch of `batch` operations past Stream.Warm took,
	// and each[i], where each is not nil, to what operation i took, in another
	// pass. It returns how many allocations were refused. ok is false where the
	// allocator cannot be timed.
	Time(ctx context.Context, size uint64, batch int, batches, each []float64) (failures int, ok bool, err error)
	// Step begins a play call by call, in an empty region of size bytes.
	Step(ctx context.Context, size uint64) (Stepper, error)
	// Close gives back what the session holds.
	Close() error
}

// Stepper is an allocator in another process, called operation by operation.
type Stepper interface {
	// Do performs one operation and returns its answer, as Play has it.
	Do(ctx context.Context, op Op) (answer uint64, err error)
}

// OfRemote is r as a Subject.
func OfRemote(r Remote) Subject { return &remote{r} }

type remote struct{ r Remote }

func (r *remote) Name() string { return r.r.Name() }
func (r *remote) Exact() bool  { return false }

// open plays the stream over there at once; the machine then goes over the
// answers and believes none of them.
func (r *remote) open(ctx context.Context, st *Stream, size uint64, stop bool) (m machine, err error) {
	s, err := r.r.Session(ctx, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p := &playback{name: r.Name(), st: st, l: newLedger(size), held: make([]uint64, st.Slots)}
	answers, err := s.Play(ctx, size, stop)
	if f := (*Fault)(nil); errors.As(err, &f) {
		p.end, err = f, nil // reported in its place, after what came before
	}
	p.answers = append(p.answers, answers...)
	return p, err
}

// playback is a machine made of answers.
type playback struct {
	name    string
	st      *Stream
	l       *ledger
	answers []uint64
	end     *Fault // what comes after the answers; nil for nothing
	held    []uint64
	next    int
}

func (p *playback) do(op Op) (bool, error) {
	if p.next >= len(p.answers) {
		if p.end != nil {
			return false, p.end
		}
		return false, &Fault{Subject: p.name, Kind: Nonsense, Detail: fmt.Sprintf("%d answers to %d operations", len(p.answers), len(p.st.Ops))}
	}
	answer := p.answers[p.next]
	p.next++
	if op.Size == 0 {
		if addr := p.held[op.Slot]; addr != NoPlace {
			p.l.drop(addr)
		}
		return true, nil
	}
	p.held[op.Slot] = answer
	if answer == NoPlace {
		return false, nil
	}
	if f := p.l.add(answer, roundTo(op.Size, p.st.Align), p.st.Align); f != nil {
		f.Subject = p.name
		return false, f
	}
	return true, nil
}

func (p *playback) addr(slot uint32) (uint64, error) { return p.held[slot], nil }
func (p *playback) stats() bufalloc.Stats            { return p.l.stats() }
func (p *playback) quick() bool                      { return false }

// play asks over there, operation by operation.
func (r *remote) play(ctx context.Context, st *Stream, size uint64) (machine, func() error, error) {
	s, err := r.r.Session(ctx, st)
	if err != nil {
		return nil, nil, err
	}
	step, err := s.Step(ctx, size)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	p := playback{name: r.Name(), st: st, l: newLedger(size), held: make([]uint64, st.Slots)}
	return &stepping{p, ctx, step}, s.Close, nil
}

// stepping is a playback whose answers are asked for one at a time.
type stepping struct {
	playback
	ctx  context.Context //nolint:containedctx // of the one play that it is
	step Stepper
}

func (s *stepping) do(op Op) (bool, error) {
	if op.Size == 0 && s.held[op.Slot] == NoPlace {
		return true, nil
	}
	answer, err := s.step.Do(s.ctx, op)
	if err != nil {
		return false, err
	}
	s.answers, s.next = append(s.answers[:0], answer), 0
	return s.playback.do(op)
}

func (r *remote) contend(ctx context.Context, st *Stream, size uint64) (contender, error) {
	s, err := r.r.Session(ctx, st)
	if err != nil {
		return nil, err
	}
	return &away{name: r.Name(), st: st, s: s, size: size}, nil
}
