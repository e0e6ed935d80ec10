package history

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// Whose commands and buffers are: requests that are aborted at random (C15), and tenants. A command that was called off is lost as any that
// failed, so model and account know nothing of requests; the verdict asks beside whether it might be called off, and whether anybody else needed it.

// owners is how many requests, and how many tenants, a history has at most.
const owners = 3

// tenantSpec is a tenant, in sixteenths of each device's memory.
type tenantSpec struct {
	Cap, Floor int // 0 is none
	Priority   int32
}

// asked are the operations that may belong to a request.
var asked = map[kind]bool{
	opWrite: true, opRead: true, opCopy: true, opFill: true, opMix: true, opProduce: true, opReverse: true, opMigrate: true, opWriteRect: true, opReadRect: true,
	opCopyRect: true, opMap: true, opMarker: true, opBarrier: true, opFail: true,
}

// Own gives a history's commands to requests, or its buffers to tenants, or both.
func (h *History) Own(dice *rand.Rand) {
	if dice.IntN(3) > 0 {
		h.withRequests(dice)
	}
	if dice.IntN(3) > 0 || h.Requests == 0 {
		h.withTenants(dice)
	}
}

// withRequests gives some operations to requests, which are aborted here and there.
func (h *History) withRequests(dice *rand.Rand) {
	h.Requests = 1 + dice.IntN(owners)
	often, aborts := 0.2+0.7*dice.Float64(), 0.02+0.1*dice.Float64()
	var ops []operation
	for i, op := range h.Ops {
		if asked[op.Kind] && dice.Float64() < often {
			op.Request = 1 + dice.IntN(h.Requests)
		}
		ops = append(ops, op)
		if dice.Float64() < aborts {
			ops = append(ops, operation{ID: 1<<21 + i, Kind: opAbort, Goroutine: op.Goroutine, Queue: op.Queue, Ref: 1 + dice.IntN(h.Requests), Salt: dice.Uint32()})
		}
	}
	h.Ops = ops
}

// withTenants gives roots to tenants.
func (h *History) withTenants(dice *rand.Rand) {
	n := 1 + dice.IntN(owners)
	for range n {
		s := tenantSpec{Floor: dice.IntN(16 / n), Priority: int32(dice.IntN(3) - 1)}
		if dice.IntN(2) == 0 {
			s.Cap = max(s.Floor, 6+dice.IntN(11))
		}
		h.Tenants = append(h.Tenants, s)
	}
	for i := range h.Roots {
		if h.Roots[i].Kind != sizeRoot {
			h.Roots[i].Tenant = dice.IntN(n + 1)
		}
	}
}

// request is one of a history's, until it is replaced.
type request struct {
	*runtime.Request
	cause   error // of its own
	aborted bool
	at      int // entries of the log when it was aborted
}

// errCalledOff is what requests are aborted with.
var errCalledOff = errors.New("called off")

// furnishOwners makes requests and tenants.
func (r *replay) furnishOwners() error {
	for range r.h.Requests {
		of, err := r.newRequest()
		if err != nil {
			return err
		}
		r.requests = append(r.requests, of)
	}
	for i, s := range r.h.Tenants {
		o := runtime.TenantOptions{Name: fmt.Sprint("tenant", i+1), Priority: s.Priority, Caps: []uint64{0}, Floors: []uint64{0}}
		for k, d := range r.devs {
			unit := cmp.Or(r.cfg.Cap, d.Info().GlobalMemory, 2*uint64(r.h.Bytes())) / 16
			if topo := r.c.Topology(); topo.Store(mem.MemoryID(k+1)) != mem.MemoryID(k+1) {
				unit = 0
			}
			o.Caps, o.Floors = append(o.Caps, unit*uint64(s.Cap)), append(o.Floors, unit*uint64(s.Floor))
		}
		t, err := r.c.NewTenant(o)
		if err != nil {
			return err
		}
		r.tenants = append(r.tenants, t)
	}
	return nil
}

func (r *replay) newRequest() (*request, error) {
	of, err := r.c.NewRequest(r.ctx)
	r.made++
	return &request{Request: of, cause: fmt.Errorf("request %d: %w", r.made, errCalledOff)}, err
}

// newBuffer makes a buffer, of a root's tenant.
func (r *replay) newBuffer(root int, size uint64, flags runtime.Flags, host []byte) (*runtime.Buffer, error) {
	if t := r.h.Roots[root].Tenant; t > 0 {
		return r.tenants[t-1].CreateBuffer("", size, flags, host)
	}
	return r.c.CreateBuffer(size, flags, host)
}

// abort calls a request off, and puts another in its place, or leaves it to be refused.
func (r *replay) abort(op *operation) error {
	of := r.requests[op.Ref-1]
	if !of.aborted {
		of.aborted, of.at = true, len(r.log)
		r.result.Ops["request aborted"]++
	}
	if err := of.Abort(of.cause); err != nil || op.Salt%4 == 0 {
		return err
	}
	of.Close()
	var err error
	r.requests[op.Ref-1], err = r.newRequest()
	return err
}

// ofRequest is a queue for an operation's request, and whether that takes no more.
func (r *replay) ofRequest(q *queue, op *operation) (_ *queue, over bool) {
	if op.Request == 0 {
		return q, false
	}
	of := r.requests[op.Request-1]
	return &queue{q.With(runtime.CommandOptions{Request: of.Request, Label: string(op.Kind)}), q.svm, q.fine, q}, of.aborted
}

// tooLate has an operation of an aborted request refused.
func (r *replay) tooLate(q *queue, op *operation) error {
	commands := len(r.rec.CommandsFrom(r.seen))
	_, err := r.enqueue(q, op, make([]byte, op.bytes()), r.waits(op))
	if !errors.Is(err, errCalledOff) || errors.Is(err, mem.ErrPoisoned) || len(r.rec.CommandsFrom(r.seen)) != commands {
		return fmt.Errorf("of an aborted request: got %w", err)
	}
	r.result.Ops["refused: of an aborted request"]++
	return nil
}

// calledOff reports whether a command failed since its request was aborted after it.
func (x *entry) calledOff(err error) bool {
	return x.of != nil && x.of.aborted && errors.Is(err, x.of.cause)
}

// rest notes why an entry failed, where that is that one was called off: itself, or one that it waits for or reads from. A command of another request, or
// of none, that was accepted before the abort needed it: then it must have run.
func (v *verdict) rest(x *entry, off bool) error {
	if off {
		v.result.CalledOff++
		if !v.mayHaveFailed(x) { // then it was to be this one, not one before of the same request
			x.gone = x
		}
		return nil
	}
	if v.h.Requests == 0 || v.mayHaveFailed(x) { // then it may have waited for what came between
		return nil
	}
	needs := func(w *entry) error {
		if w == nil || w.gone == nil {
			return nil
		}
		w = w.gone
		if x.gone = w; w.of != x.of && v.next < w.of.at && v.h.goroutines() == 1 {
			return fmt.Errorf("needs operation %d, whose request was aborted after it: that was called off all the same", w.op.ID)
		}
		return nil
	}
	for _, e := range x.waits {
		if i := slices.IndexFunc(v.log[:v.next], func(w entry) bool { return w.event == e }); i >= 0 {
			if err := needs(&v.log[i]); err != nil {
				return err
			}
		}
	}
	var err error
	v.m.reads(x.op, func(root, at int) bool {
		if v.m.lost[root][at] {
			err = errors.Join(err, needs(&v.log[v.m.wrote[root][at]]))
		}
		return err != nil
	})
	return err
}

// floors tests that an operation has taken no tenant's buffers below its floor but those of its own.
func (r *replay) floors(op *operation, before []runtime.TenantBytes) error {
	if op.Kind == opUnmap { // which may end a root that was released
		return nil
	}
	for _, f := range r.c.Figures().Tenants {
		i := slices.IndexFunc(before, func(b runtime.TenantBytes) bool { return b.Tenant == f.Tenant && b.Memory == f.Memory })
		if i < 0 || f.Live >= min(before[i].Live, f.Floor) {
			continue
		}
		own := slices.IndexFunc(r.tenants, func(t *runtime.Tenant) bool { return t.String() == f.Tenant }) + 1
		for root := range r.h.Roots {
			if r.h.Roots[root].Tenant == own && (op.Kind == opRenew && op.Dst == root || r.h.names(op, root)) {
				own = 0
			}
		}
		if own > 0 {
			return fmt.Errorf("%s has %d bytes on %s, had %d, and a floor of %d, and no buffer of it is used", f.Tenant, f.Live, f.Memory, before[i].Live, f.Floor)
		}
	}
	return nil
}
