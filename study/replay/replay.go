// Package replay runs recorded command traces (trace.CommandTrace) again, on modelled devices,
// under any eviction policy and with any capacities, and says what moved beside the bounds.
//
// Assumptions: what a program's commands access, and in which order, does not depend on how
// much memory there is; how long its kernels take says nothing of what has to move.
//
// What follows. The runtime itself replays: there is no second planner, no second
// eviction and no second account. Devices are modelled ones that keep stamps in place of
// bytes, so that a trace of a large machine runs on a small one. Every access is the
// recorded one, and what of a buffer is stored is too; so a replay under the policy and the
// capacities of the recording moves what the recording moved. The account is package
// internal/icd/tracelog's, as in godwit exec.
//
// Without a machine each command has ended before the next is enqueued, so that the figures
// follow from the trace alone. With one, commands are enqueued as fast as the machine's host
// can: then content that is still on its way counts as promised only, as in a real run
// that never waits.
//
// What a trace does not have: waits, user events, pins, maps for reading beyond the copy that
// they need, and content sizes, so that buffers that have one move whole.
package replay

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices/virtual"
	"godwit/eviction"
	"godwit/internal/icd/tracelog"
	"godwit/internal/storage"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/study/machine"
	"godwit/study/page"
)

// Options say under what a trace is replayed.
type Options struct {
	// Policy is one of eviction.Policies; empty is the runtime's default.
	Policy string
	// Capacity is how many bytes each memory has, the host's first; 0, and what is not there,
	// is without limit, or the machine's.
	Capacity []uint64
	// Machine, where not nil, is what the trace is replayed on, in its time.
	Machine *machine.Machine
	// Draw asks for Result.Picture.
	Draw bool
}

// Result is what a replay did.
type Result struct {
	tracelog.Summary
	Capacities []uint64 // bytes, by memory; 0 is without limit
	Makespan   uint64   // nanoseconds of the machine; 0 without one
	Picture    *page.Run
}

// Run replays a trace. Where a command finds no room, it fails with that command's
// *resource.OutOfMemory, and the result is what came before. A trace is not
// changed: several replays of it may run at once.
func Run(ctx context.Context, t *trace.CommandTrace, o Options) (*Result, error) {
	r := &runner{
		trace: t, opt: o, next: 1, ids: make(map[mem.BufferID]mem.BufferID), buffers: make(map[mem.BufferID]*buffer), tenants: make(map[string]*runtime.Tenant),
		kernels: make(map[kernelKey]*runtime.Kernel), maps: make(map[mapKey]runtime.Mapping),
	}
	err := r.open(ctx)
	if err == nil {
		err = r.steps(ctx)
	}
	res := &Result{Capacities: r.capacity}
	if r.world != nil && o.Machine != nil {
		res.Makespan = r.world.Time()
	}
	if r.ctx != nil {
		if err == nil {
			if err = r.ctx.Check(); err != nil {
				err = fmt.Errorf("the runtime's state is not consistent: %w", err)
			}
		}
		res.Summary = r.log.Summary() // before buffers are given back, as the program still has them
		res.Complete = err == nil
		if p := r.log.Pictures(); len(p) > 0 {
			res.Picture = p[0]
		}
		err = errors.Join(err, r.close(ctx))
	}
	return res, err
}

// runner is the state of a replay.
type runner struct {
	trace    *trace.CommandTrace
	opt      Options
	machine  *machine.Machine
	world    *virtual.World
	ctx      *runtime.Context
	log      *tracelog.Log
	capacity []uint64
	queues   []*runtime.Queue // by memory
	tenants  map[string]*runtime.Tenant
	buffers  map[mem.BufferID]*buffer
	ids      map[mem.BufferID]mem.BufferID // the trace's, by the runtime's
	kernels  map[kernelKey]*runtime.Kernel
	maps     map[mapKey]runtime.Mapping // for writing
	next     uint64                     // number of the next command, from 1
	blank    storage.Blank              // what commands read into and write: nobody looks at it
	script   *eviction.Script
}

// open makes the context.
func (r *runner) open(ctx context.Context) (err error) {
	n := len(r.trace.Memories) - 1
	if r.machine = r.opt.Machine; r.machine == nil {
		if r.machine, err = unlimited(n); err != nil {
			return err
		}
	}
	if have := r.machine.Memories() - 1; have < n {
		return fmt.Errorf("machine %s has %d devices, the trace has %d: %w", r.machine.Name, have, n, mem.ErrInvalidDevice)
	}
	policy, err := eviction.Foreseen(r.opt.Policy, func() eviction.Policy {
		r.foresee()
		return eviction.NewBelady(future{r})
	})
	if err != nil {
		return err
	}
	if r.world, err = virtual.New(r.machine, virtual.Options{Exact: r.machine.Exact(), Stamps: true}); err != nil {
		return err
	}
	var names []string
	caps := make([]uint64, n+1)
	for m := range caps {
		if m < len(r.opt.Capacity) {
			caps[m] = r.opt.Capacity[m]
		}
		has := r.machine.Info(m).GlobalMemory
		if caps[m] > 0 && has > 0 {
			has = min(has, caps[m])
		}
		r.capacity = append(r.capacity, max(has, caps[m]))
		if has > 0 {
			r.capacity[m] = has
		}
		names = append(names, r.trace.Memories[m].Name)
	}
	r.log = tracelog.New(nil)
	if r.opt.Draw {
		r.log.Draw("machine "+r.machine.Name, false)
	}
	r.ctx, err = runtime.OpenContext(ctx, runtime.Options{
		Name: "replay", Devices: r.world.Devices()[:n], OwnDevices: true, Names: names[1:], Host: r.world.Host(), Executor: r.world, Staging: r.machine.Staging(),
		Trace: r.log.Context(names, r.capacity), Policy: policy, NoEviction: r.opt.Policy == "none", Caps: caps, WholeBelow: r.trace.WholeBelow,
	})
	if err != nil {
		return err
	}
	for m := range caps {
		d, err := r.ctx.Device(mem.MemoryID(m))
		if err != nil {
			return err
		}
		q, err := r.ctx.NewQueue(d, runtime.QueueOptions{Name: names[m]})
		if err != nil {
			return err
		}
		r.queues = append(r.queues, q)
	}
	return nil
}

// unlimited is a machine with so many devices whose memories have no limit, and whose links
// are all alike, so that times are in proportion to bytes.
func unlimited(devices int) (*machine.Machine, error) {
	text := fmt.Sprintf("name: replay\nbytes: false\ndevices: [{name: device, count: %d}]\nlinks: [{between: [host, device], bandwidth: 1 GB/s}]\n", devices)
	return machine.Parse("replay", []byte(text), machine.Options{})
}

// foresee writes the trace's commands down.
func (r *runner) foresee() {
	r.script = eviction.NewScript(nil)
	n, accesses := uint64(1), []mem.Access(nil)
	for i := range r.trace.Steps {
		switch s := &r.trace.Steps[i]; {
		case s.Release != 0:
			r.script.Release(n, s.Release)
		case s.Command != nil:
			accesses = accesses[:0]
			for k := range s.Command.Uses {
				accesses = append(accesses, s.Command.Uses[k].Access())
			}
			r.script.Command(n, accesses)
			n++
		}
	}
}

// future is what the trace says of the commands to come. Commands count as in the trace.
type future struct{ r *runner }

// Ahead is what eviction.NewBelady asks.
func (f future) Ahead(b mem.BufferID, m mem.MemoryID, _ uint64) eviction.Ahead {
	return f.r.script.Ahead(f.r.ids[b], m, f.r.next)
}

// steps replays all.
func (r *runner) steps(ctx context.Context) error {
	for i := range r.trace.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := &r.trace.Steps[i], error(nil)
		switch {
		case s.Tenant != nil:
			err = r.tenant(s.Tenant)
		case s.Create != nil:
			err = r.create(s.Create)
		case s.Release != 0:
			err = r.release(s.Release)
		default:
			if err = r.command(ctx, s.Command); err != nil {
				err = fmt.Errorf("command %d of the trace, %s: %w", r.next, what(s.Command), err)
			}
			r.next++
		}
		if err != nil {
			return err
		}
	}
	for _, q := range r.queues {
		if err := q.Finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// what names a command.
func what(c *trace.CommandUses) string {
	if c.Kernel != "" {
		return "launch of " + c.Kernel
	}
	return c.Op
}

// close gives everything back.
func (r *runner) close(ctx context.Context) error {
	var errs []error
	for _, m := range r.maps {
		errs = append(errs, m.Abandon())
	}
	for _, b := range r.buffers {
		errs = append(errs, b.release())
	}
	return errors.Join(append(errs, r.ctx.Close(ctx), r.blank.Close())...)
}
