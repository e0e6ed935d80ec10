package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Outside reports whether s is an allocator in another process.
func Outside(s Subject) bool {
	_, ok := s.(*remote)
	return ok
}

type remote struct{ r Remote }

func (r *remote) Name() string { return r.r.Name() }

// open plays the stream over there at once; the machine then goes over the
// answers. Where the stream is not known it asks operation by operation.
func (r *remote) open(ctx context.Context, st *Stream, size uint64, ask asking) (m machine, err error) {
	s, err := r.r.Session(ctx, st)
	if err != nil {
		return nil, err
	}
	p := &playback{checked: checked{name: r.Name(), st: st, size: size, held: make([]uint64, st.Slots), ledger: newLedger(size)}, s: s}
	if ask == unknown {
		step, err := s.Step(ctx, size)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.ask = func(op Op) (uint64, error) {
			if op.Size == 0 && p.held[op.Slot] == NoPlace {
				return NoPlace, nil
			}
			return step.Do(ctx, op)
		}
		return p, nil
	}
	answers, err := s.Play(ctx, size, ask == toRefusal)
	p.ask = p.next
	if errors.As(err, &p.end) {
		err = nil // reported in its place, after what came before
	}
	p.answers = slices.Clone(answers)
	return p, errors.Join(err, p.close())
}

// playback is a machine whose answers come from another process.
type playback struct {
	checked
	s       Session // nil once closed
	answers []uint64
	end     *Fault // what comes after the answers; nil for nothing
}

// next is the answer that was given to the next operation.
func (p *playback) next(Op) (answer uint64, err error) {
	switch {
	case len(p.answers) > 0:
		answer, p.answers = p.answers[0], p.answers[1:]
		return answer, nil
	case p.end != nil:
		return 0, p.end
	}
	return 0, &Fault{Subject: p.name, Kind: Nonsense, Detail: fmt.Sprintf("fewer answers than the %d operations", len(p.st.Ops))}
}

func (p *playback) close() error {
	s := p.s
	if p.s = nil; s == nil {
		return nil
	}
	return s.Close()
}

func (r *remote) contend(ctx context.Context, st *Stream, size uint64) (contender, error) {
	s, err := r.r.Session(ctx, st)
	if err != nil {
		return nil, err
	}
	return &away{st: st, s: s, size: size}, nil
}
