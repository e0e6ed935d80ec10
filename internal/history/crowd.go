package history

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// runTogether replays the operations of each goroutine from one of its own. The order in which the
// context took the commands (Event.Command) is the one they must have taken effect in: the verdict
// replays them in it.
func (r *replay) runTogether() error {
	all := make([]*replay, r.h.goroutines())
	errs := make([]error, len(all))
	runs := make([]func(), len(all))
	for i := range all {
		all[i] = r.beside(i)
		runs[i] = func() {
			if err := all[i].runBeside(i); err != nil {
				errs[i] = fmt.Errorf("goroutine %d, %w", i, err)
			}
		}
	}
	err := atOnce(r.by, runs)
	r.faults.enter(quiet)
	r.join(all)
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return errors.Join(r.compareMoves(), r.finish())
}

// goroutines is how many the history has.
func (h *History) goroutines() (n int) {
	for i := range h.Ops {
		n = max(n, h.Ops[i].Goroutine+1)
	}
	return n
}

// atOnce runs fs at once and waits for all: on host threads where time is virtual.
func atOnce(by devices.Executor, fs []func()) error {
	if w, ok := by.(interface{ Threads(fs ...func()) error }); ok {
		return w.Threads(fs...)
	}
	var wg sync.WaitGroup
	for _, f := range fs {
		wg.Go(f)
	}
	wg.Wait()
	return nil
}

// beside is a replay of what the i-th goroutine does. What is by root or view they share: two of
// them use an element only where nothing renews or maps it.
func (r *replay) beside(i int) *replay {
	o, h := *r, *r.h
	h.Ops = slices.DeleteFunc(slices.Clone(h.Ops), func(op operation) bool { return op.Goroutine != i })
	o.h, o.events, o.open = &h, make(map[int]runtime.Event), make(map[int]runtime.Event)
	o.needs, o.thens, o.result = make(map[uint64][]mem.Access), make(map[uint64]func()), Result{Ops: make(map[string]int), Evicted: make(map[string]int)}
	o.log, o.owned, o.freed = nil, nil, nil
	o.firstSlot = slots * i % (4 * slots)
	return &o
}

// runBeside replays the operations of the i-th of a crowd.
func (r *replay) runBeside(i int) error {
	for k := range r.h.Ops {
		op := &r.h.Ops[k]
		r.faults.begin(len(r.h.Ops)*i+k, math.MaxInt, 0) // whatever is struck is so beside all else
		if err := errors.Join(r.do(op), r.takeBack(false)); err != nil {
			return errors.Join(fmt.Errorf("operation %d (%s): %w", k, op.Kind, err), r.setAll())
		}
		if k%16 == 0 {
			if err := r.c.Check(); err != nil {
				return err
			}
		}
	}
	return r.setAll()
}

// join takes over what all have done, in the order of their commands.
func (r *replay) join(all []*replay) {
	type placed struct {
		entry
		at uint64 // the last command of its goroutine's
	}
	var log []placed
	for _, o := range all {
		at := uint64(0)
		for _, x := range o.log {
			at = max(at, x.command)
			log = append(log, placed{x, at})
		}
		r.result.Add(o.result)
		maps.Copy(r.needs, o.needs)
		maps.Copy(r.thens, o.thens)
		r.owned, r.freed = append(r.owned, o.owned...), append(r.freed, o.freed...)
		r.maps, r.due, r.taken = append(r.maps, o.maps...), append(r.due, o.due...), append(r.taken, o.taken...)
	}
	// Where a refusal for lost bytes lies in the order, nobody knows.
	log = slices.DeleteFunc(log, func(x placed) bool { return x.refused })
	slices.SortStableFunc(log, func(a, b placed) int { return int(a.at) - int(b.at) })
	for _, x := range log {
		r.log = append(r.log, x.entry)
	}
	r.crowd = false
}

// shared draws operations that goroutines do over the same buffers, but for those that others must
// not meet: of a buffer they use being released, of a mapped range, which OpenCL lets nobody else
// use, and of calls that are to change nothing.
func (d *Draw) shared() *History {
	all := *d
	all.Ops *= d.Goroutines
	h := all.one()
	h.Ops = slices.DeleteFunc(h.Ops, func(op operation) bool {
		return op.Kind == opRenew || op.Kind == opMap || op.Kind == opUnmap || single(op)
	})
	for i := range h.Ops {
		h.Ops[i].Goroutine = i * d.Goroutines / len(h.Ops)
	}
	return h
}

// single reports whether an operation needs the context for itself.
func single(op operation) bool {
	return op.Kind == opMapBriefly || op.Kind == opFreePointer || op.Kind == opRefuse || op.Kind == opCount || op.Kind == opCountBy
}

// comeAndGo has roots used on a device and released as soon as that has ended, now and then.
func comeAndGo(h *History, dice *rand.Rand) (out []operation) {
	id := 1 << 20 // past those that are drawn
	for _, op := range h.Ops {
		out = append(out, op)
		if dice.IntN(6) > 0 {
			continue
		}
		view, queue := dice.IntN(len(h.Views)), dice.IntN(logicalQueues)
		v := h.Views[view]
		out = append(out, operation{ID: id, Kind: opProduce, Queue: queue, Dst: view, Size: v.Size, Salt: dice.Uint32()},
			operation{ID: id + 1, Kind: opFinish, Queue: queue, Salt: 1}, operation{ID: id + 2, Kind: opRenew, Queue: queue, Dst: v.Root})
		id += 4
	}
	return out
}

// apart draws a history of each goroutine's own.
func (d *Draw) apart() *History {
	all := &History{Seed: d.Seed, Failing: d.Failing}
	for i := range d.Goroutines {
		own := *d
		own.Seed += uint64(i) << 40
		h, roots, views := own.one(), len(all.Roots), len(all.Views)
		h.Roots[0].Kind = lentRoot
		h.Ops = slices.DeleteFunc(h.Ops, single)
		for _, op := range comeAndGo(h, rand.New(rand.NewPCG(d.Seed, uint64(i)))) {
			op.Goroutine, op.More = i, nil
			if op.Src += views; op.Kind == opRenew {
				op.Dst += roots
			} else {
				op.Dst += views
			}
			all.Ops = append(all.Ops, op)
		}
		for _, v := range h.Views {
			v.Root += roots
			all.Views = append(all.Views, v)
		}
		all.Roots = append(all.Roots, h.Roots...)
	}
	return all
}
