package history

import (
	"errors"
	"fmt"
	"math"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// staging is plenty for buffers of some KiB, and too little for the mover to measure rings
// with as a context is opened, which takes longer than a history.
const staging = 4 << 20 // bytes

func (r *replay) setUp() error {
	o := runtime.Options{Name: r.cfg.Name, OwnDevices: true, NoPeer: r.cfg.NoPeer, WaitForMemory: r.cfg.Waits, SVMSize: 1 << 24, Trace: r.rec, Staging: staging, Chunk: r.cfg.Chunk, WholeBelow: 1, Policy: r.policy, NoEviction: r.policy == nil}
	if r.cfg.Whole {
		o.WholeBelow = math.MaxUint64
	}
	if r.cfg.Every > 0 || r.cfg.strike != nil {
		r.faults = newFaults(r.h.Seed, r.cfg.Every, r.cfg.strike)
		r.faults.pieces = r.cfg.Priorities
		r.faults.enter(opening)
		o.Resource = r.faults.Resource
	}
	devs, err := r.cfg.Open(r.faults)
	if err != nil {
		return err
	}
	o.Devices, r.devs = devs, devs
	for range devs {
		o.Caps = append(o.Caps, r.cfg.Cap)
	}
	o.Caps = append([]uint64{0}, o.Caps...)
	for i := range devs {
		if r.cfg.Figures {
			at := mem.MemoryID(i + 1)
			slow := mem.DirectLink(time.Microsecond, 1e9)
			o.Links = append(o.Links, runtime.Link{From: mem.Host, To: at, Link: slow}, runtime.Link{From: at, To: mem.Host, Link: slow})
		}
	}
	if r.cfg.Context != nil {
		r.cfg.Context(devs, &o)
	}
	r.by = devices.ExecutorOr(o.Executor)
	r.c, err = runtime.NewContext(o)
	if err != nil {
		return err
	}
	if r.cfg.Links {
		if err = r.c.OpenLinks(r.ctx); err != nil {
			return errors.Join(err, r.c.Close(r.ctx))
		}
	}
	if err = r.furnish(devs); err != nil {
		return errors.Join(err, r.c.Close(r.ctx))
	}
	return nil
}

// furnish makes queues, kernels and buffers.
func (r *replay) furnish(devs []devices.Device) error {
	r.account = newAccount(r.c.Topology())
	for i, d := range append(devs, devs...) { // two queues each
		o := runtime.QueueOptions{Name: fmt.Sprint(UserQueue, i), OutOfOrder: r.cfg.OutOfOrder}
		if r.cfg.Priorities {
			o.Priority = devices.Priority((uint64(i)*5+r.h.Seed)%3) - 1
		}
		q, err := r.c.NewQueue(d, o)
		if err != nil {
			return err
		}
		r.queues = append(r.queues, &queue{Queue: q})
	}
	if err := r.build(); err != nil {
		return err
	}
	if err := errors.Join(r.furnishOwners(), r.furnishSVM()); err != nil {
		return err
	}
	for root := range r.h.Roots {
		if err := r.create(root, r.h.Roots[root].Kind); err != nil {
			return err
		}
	}
	for root := range r.h.Roots {
		r.firstIDs = append(r.firstIDs, r.whole(r.viewOf(root)).ID())
	}
	r.seen = len(r.rec.Commands())
	return nil
}

// build makes kernels, where there are launches.
func (r *replay) build() (err error) {
	if !r.h.launches() {
		return nil
	}
	if r.prog, err = r.c.Build(r.ctx, Program); err != nil {
		return err
	}
	for _, k := range []kind{opMix, opProduce, opReverse, opChase} {
		if r.kernel[k], err = r.prog.Kernel("meta_" + string(k)); err != nil {
			return err
		}
	}
	return nil
}

// create makes a root and its views.
func (r *replay) create(root int, kind rootKind) error {
	var whole *runtime.Buffer
	for i, v := range r.h.Views {
		var err error
		switch {
		case v.Root != root:
			continue
		case v.Sub && r.isSVM(root) && i%2 == 0:
			r.views[i], err = r.alias(v)
		case v.Sub:
			r.views[i], err = whole.Sub(uint64(v.Origin), uint64(v.Size), 0)
		default:
			if whole, err = r.createRoot(root, kind); r.crowd && r.faults != nil { // others have calls struck meanwhile
				for n := 0; n < 100 && err != nil; n++ {
					whole, err = r.createRoot(root, kind)
				}
			}
			if err == nil {
				err = r.account.create(whole.ID(), uint64(v.Size), kind == contentRoot || kind == lentRoot)
			}
			r.views[i] = whole
		}
		if err != nil {
			return fmt.Errorf("%s buffer %d: %w", kind, root, err)
		}
	}
	return nil
}

func (r *replay) createRoot(root int, kind rootKind) (*runtime.Buffer, error) {
	n := r.h.Roots[root].Size
	size := uint64(n)
	switch {
	case kind == contentRoot:
		return r.newBuffer(root, size, 0, pattern(n, uint32(root)))
	case kind == lentRoot:
		return r.createLent(root)
	case kind == hostRoot:
		return r.newBuffer(root, size, runtime.AllocHostPtr, nil)
	case kind == svmRoot && r.anySVM:
		return r.createSVM(root, size, 0)
	case kind == fineRoot && r.anyFine:
		return r.createSVM(root, size, runtime.SVMFineGrain)
	}
	return r.newBuffer(root, size, 0, nil)
}

// renew releases a root on a queue's time and makes a new one, without content but over lent
// memory.
func (r *replay) renew(q *queue, root int) error {
	kind := r.h.Roots[root].Kind
	if kind == contentRoot {
		kind = plainRoot
	}
	err := r.release(q, root)
	if errors.Is(err, errFault) { // what is released is gone all the same
		r.told, err = true, nil
	}
	r.faults.enter(quiet) // a buffer that could not be made would be missed by all that follows
	return errors.Join(err, r.create(root, kind))
}

// release gives up a root's views. Maps of it stay until they are unmapped.
func (r *replay) release(q *queue, root int) error {
	var errs []error
	used := false
	for _, m := range r.maps {
		if r.h.Views[m.op.Dst].Root == root {
			m.gone, used = true, true
		}
	}
	for i, v := range r.h.Views {
		if v.Root == root && r.views[i] != nil {
			errs = append(errs, r.views[i].Release())
			r.views[i] = nil
		}
	}
	r.released(root, used)
	return errors.Join(append(errs, r.takeBack(false), r.freeSVM(q, root, used))...)
}
