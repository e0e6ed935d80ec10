package tensor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"godwit/lib/backend"
	"godwit/mem"
	"godwit/runtime"
)

// Step is operations on tensors that were recorded and can be run any number of times: their copies are planned once, and
// a run takes a fraction of what enqueueing them does (runtime.Graph). Methods are safe for use from many goroutines, but for Input:
// inputs have the order of its calls.
type Step struct {
	on     []*backend.Handle // immutable
	rec    *runtime.Recording
	graph  *runtime.Graph // immutable once recorded
	inputs []input        // likewise

	mu   sync.Mutex
	kept map[*owner]bool // protected by mu: of tensors that the operations use
}

// input is a tensor that another stands for in each run.
type input struct {
	t    *Tensor
	slot *runtime.Buffer
}

// recorder is what a context has for its steps: the one that is being recorded.
type recorder struct{ now atomic.Pointer[Step] }

type recorderKey struct{}

// Close implements io.Closer.
func (r *recorder) Close() error { return nil }

func recorderOf(h *backend.Handle) *recorder {
	v, err := h.Context().Attached(recorderKey{}, func() (io.Closer, error) { return new(recorder), nil })
	if err != nil { // closed: nothing is recorded any more
		return new(recorder)
	}
	return v.(*recorder)
}

// recording is the step that is being recorded on a device, or nil.
func recording(h *backend.Handle) *Step {
	if s := recorderOf(h).now.Load(); s != nil && slices.Contains(s.on, h) {
		return s
	}
	return nil
}

// Record records what f enqueues on the queues of devices of one context, in place of running it. Tensors that f makes are
// in memory of the step's, which those share that are not in use at once: their content ends with a run, and using
// them after f fails with mem.ErrInvalidBuffer. So results go to tensors that were made before: AddInto, CopyInto.
// These stay in memory until the step is closed. Values are as recorded; what differs from run to run is an Input. FromHost
// and ToHost are refused in f, with mem.ErrInvalidOperation, and so is a second Record in the context meanwhile.
// It fails like f, and like runtime.Context.Record and runtime.Recording.Finish.
func Record(ctx context.Context, on []*backend.Handle, f func(s *Step) error) (_ *Step, err error) {
	if len(on) == 0 {
		return nil, fmt.Errorf("step on no device: %w", mem.ErrInvalidDevice)
	}
	s := &Step{on: slices.Clone(on), kept: make(map[*owner]bool)}
	var queues []*runtime.Queue
	for _, h := range on {
		if !h.SharesContext(on[0]) {
			return nil, fmt.Errorf("step on %s and %s, which share no context: %w", on[0], h, mem.ErrInvalidContext)
		}
		queues = append(queues, h.Queue())
	}
	now := &recorderOf(on[0]).now
	if !now.CompareAndSwap(nil, s) {
		return nil, fmt.Errorf("step on %s: another is being recorded: %w", on[0], mem.ErrInvalidOperation)
	}
	defer now.Store(nil)
	if s.rec, err = on[0].Context().Record(queues...); err != nil {
		return nil, err
	}
	defer func() { // also where f panics
		if s.graph == nil {
			_ = s.rec.Discard() // it may be over
			err = errors.Join(err, s.drop())
		}
	}()
	if err = f(s); err != nil {
		return nil, err
	}
	if s.graph, err = s.rec.Finish(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Input makes a tensor like another, for operations that are being recorded, which each Run gives. It is the step's. It fails with
// mem.ErrInvalidOperation once the step is recorded.
func (s *Step) Input(like *Tensor) (*Tensor, error) {
	if err := like.live(); err != nil {
		return nil, err
	}
	slot, err := s.rec.Slot(fmt.Sprint("input", len(s.inputs)), like.Bytes(), 0)
	if err != nil {
		return nil, err
	}
	t := own(like.s.h, slot, func() error { return nil }, like.s.shape, like.s.dtype)
	s.inputs = append(s.inputs, input{t, slot})
	return t, nil
}

// Run enqueues the operations once more, over these inputs, in the order in which Input was called, and
// waits for nothing. Inputs have the shapes and types of what they were made like; with others it fails with ErrShape or ErrDType. It
// fails like runtime.Graph.Replay.
func (s *Step) Run(ctx context.Context, inputs ...*Tensor) (err error) {
	if len(inputs) != len(s.inputs) {
		return fmt.Errorf("run of a step: %d inputs, it has %d: %w", len(inputs), len(s.inputs), mem.ErrInvalidValue)
	}
	in := runtime.Bindings{Slots: make([]runtime.Binding, len(inputs))}
	for i, t := range inputs {
		b, err := t.standIn(s.inputs[i].t)
		if err != nil {
			return fmt.Errorf("run of a step: input %d: %w", i, err)
		}
		defer func() { err = errors.Join(err, b.Release()) }()
		in.Slots[i] = runtime.Binding{Slot: s.inputs[i].slot, Buffer: b}
	}
	return done(s.graph.Replay(ctx, s.on[0].Queue(), in))
}

// standIn is the buffer of the tensor's elements alone, to be released, where the tensor can stand for another.
func (t *Tensor) standIn(of *Tensor) (*runtime.Buffer, error) {
	switch err := t.live(); {
	case err != nil:
		return nil, err
	case t.s.dtype != of.s.dtype:
		return nil, fmt.Errorf("%s in place of %s: %w", t, of.s.dtype, ErrDType)
	case !slices.Equal(t.s.shape, of.s.shape):
		return nil, fmt.Errorf("%s in place of %v: %w", t, of.s.shape, ErrShape)
	case t.s.buf.Size() == t.Bytes():
		return t.s.buf, t.s.buf.Retain()
	}
	return t.s.root.Sub(t.s.off, t.Bytes(), 0)
}

// Figures say what a run does.
func (s *Step) Figures() runtime.GraphFigures { return s.graph.Figures() }

// Close gives the step's memory back once its runs have ended, with its inputs and the tensors that it has kept.
func (s *Step) Close() error { return errors.Join(s.graph.Close(), s.drop()) }

// drop releases the inputs, and gives up the tensors that the step keeps.
func (s *Step) drop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, in := range s.inputs {
		if in.t.live() == nil {
			errs = append(errs, in.t.Release())
		}
	}
	for o := range s.kept {
		errs = append(errs, o.drop())
	}
	clear(s.kept)
	return errors.Join(errs...)
}

// empty is Empty while the step is recorded.
func (s *Step) empty(h *backend.Handle, size uint64, shape []int, d DType) (*Tensor, error) {
	b, err := s.rec.Transient(fmt.Sprintf("tensor %v %s", shape, d), size)
	if err != nil {
		return nil, err
	}
	return own(h, b, func() error { return nil }, shape, d), nil
}

// use has the step that is being recorded keep the tensor.
func (t *Tensor) use() *runtime.Buffer {
	if s := t.s.steps.now.Load(); s != nil {
		s.mu.Lock()
		if !s.kept[t.s.owner] {
			s.kept[t.s.owner] = true
			t.s.owner.refs.Add(1)
		}
		s.mu.Unlock()
	}
	return t.s.buf
}

// refuse fails where a step is being recorded on a device.
func refuse(what string, h *backend.Handle) error {
	if recording(h) == nil {
		return nil
	}
	return fmt.Errorf("%s while a step is recorded on %s: give it an Input, and results a tensor that was made before: %w", what, h, mem.ErrInvalidOperation)
}

// CopyInto copies src's elements to dst, of the same shape and type, which shares its context. It fails with
// ErrShape, ErrDType or mem.ErrInvalidContext, and like runtime.Queue.EnqueueCopy.
func CopyInto(ctx context.Context, dst, src *Tensor) error {
	for _, t := range []*Tensor{dst, src} {
		if err := t.live(); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	switch {
	case !dst.s.h.SharesContext(src.s.h):
		return fmt.Errorf("copy: %s and %s share no context; see To: %w", dst.s.h, src.s.h, mem.ErrInvalidContext)
	case dst.s.dtype != src.s.dtype:
		return fmt.Errorf("copy of %s to %s: %w", src, dst, ErrDType)
	case !slices.Equal(dst.s.shape, src.s.shape):
		return fmt.Errorf("copy of %s to %s: %w", src, dst, ErrShape)
	}
	return done(dst.s.h.Queue().EnqueueCopy(ctx, src.use(), dst.use(), 0, 0, src.Bytes()))
}
