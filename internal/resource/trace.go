package resource

import (
	"fmt"
	"sync"

	"godwit/mem"
	"godwit/mem/trace"
)

// Trace writes every allocation and free that goes through it to a recording
// that `godwit replay` reads. A free counts when it is asked for, whatever
// points it waits for.
type Trace struct {
	base
	w *trace.AllocWriter // immutable

	mu   sync.Mutex
	ids  map[mem.Block]uint64 // protected by mu: live blocks
	next uint64               // protected by mu
}

// NewTrace returns a recording layer. The caller keeps w, and flushes it.
func NewTrace(up mem.Resource, w *trace.AllocWriter) *Trace {
	return &Trace{base: base{up}, w: w, ids: make(map[mem.Block]uint64)}
}

// String names the layer.
func (t *Trace) String() string { return "trace" }

// AllocAll records the blocks it could get.
func (t *Trace) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	o, err := t.Resource.AllocAll(reqs, out, reuse)
	if err != nil || o != mem.Ready {
		return o, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range out {
		t.ids[b] = t.next
		t.w.Alloc(t.next, b.Size)
		t.next++
	}
	return o, nil
}

// FreeAfter records the free.
func (t *Trace) FreeAfter(b mem.Block, after []mem.Point) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.ids[b]
	if !ok {
		return notLive("trace", b)
	}
	if err := t.Resource.FreeAfter(b, after); err != nil {
		return err
	}
	delete(t.ids, b)
	t.w.Free(id, b.Size)
	return nil
}

// Check tests that what is recorded as live is live upstream, as far as
// upstream counts it.
func (t *Trace) Check() error {
	t.mu.Lock()
	n := len(t.ids)
	t.mu.Unlock()
	if st := t.Resource.Stats(); n > st.Blocks {
		return fmt.Errorf("trace: %d blocks recorded as live, but only %d are below", n, st.Blocks)
	}
	return t.Resource.Check()
}
