package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// RunCrowd replays n histories at once, each from a goroutine of its own, on one context. The
// order in which the context took the commands (Event.Command) is the one they must have taken
// effect in: the verdict replays them in it. Histories must come from Crowd or Apart.
func RunCrowd(crowd []*History, cfg Config) (res Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(cfg.Patience, 30*time.Second))
	defer cancel()
	first := newReplay(ctx, crowd[0], cfg)
	if first.policy, err = policyOf(ctx, crowd[0], cfg); err != nil {
		return Result{}, err
	}
	first.crowd = true
	if err := first.setUp(); err != nil {
		if first.faults != nil && errors.Is(err, errFault) {
			return Result{Unopened: 1}, nil
		}
		return Result{}, err
	}
	all := []*replay{first}
	for _, h := range crowd[1:] {
		all = append(all, first.beside(h, len(all)))
	}
	errs := make([]error, len(all))
	runs := make([]func(), len(all))
	for i, r := range all {
		runs[i] = func() {
			if err := r.runBeside(i); err != nil {
				errs[i] = fmt.Errorf("goroutine %d, %w", i, err)
			}
		}
	}
	err = atOnce(first.by, runs)
	first.faults.enter(quiet)
	first.join(all)
	if err = errors.Join(append(errs, err)...); err == nil {
		err = errors.Join(first.compareMoves(), first.finish())
	}
	if first.faults != nil {
		first.result.Strikes, first.result.Calls = first.faults.strikes, first.faults.calls
	}
	return first.result, errors.Join(err, first.tearDown())
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

// beside is a replay of h as the i-th of a crowd. What is by root or view they share: two of
// them use an element only where nothing renews or maps it.
func (r *replay) beside(h *History, i int) *replay {
	o := *r
	o.h, o.events, o.open = h, make(map[int]runtime.Event), make(map[int]runtime.Event)
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

// join takes over what the others of a crowd have done, in the order of their commands.
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
		if o == r {
			continue
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
	r.log = nil
	for _, x := range log {
		r.log = append(r.log, x.entry)
	}
	r.crowd = false
}

// Crowd draws n histories of the same buffers for RunCrowd; in failing ones some
// user events fail.
func Crowd(seed uint64, n, ops int, failing bool) []*History {
	first := drawn(seed, ops, failing)
	first.Ops = unshared(first.Ops)
	out := []*History{first}
	for i := range n - 1 {
		g := drawOver(first, seed+uint64(i)+1<<32, ops)
		g.Ops = unshared(g.Ops)
		out = append(out, g)
	}
	return out
}

func drawn(seed uint64, ops int, failing bool) *History {
	if failing {
		return GenerateFailing(seed, ops)
	}
	return Generate(seed, ops)
}

// unshared leaves out what other goroutines must not meet: a buffer they use being
// released, a mapped range, which OpenCL lets nobody else use, and calls that are
// to change nothing.
func unshared(ops []Op) []Op {
	return slices.DeleteFunc(ops, func(op Op) bool {
		return op.Kind == Renew || op.Kind == Map || op.Kind == Unmap || single(op)
	})
}

// single reports whether an operation needs the context for itself.
func single(op Op) bool {
	return op.Kind == MapBriefly || op.Kind == FreePointer || op.Kind == Refuse || op.Kind == Count || op.Kind == CountBy
}

// comeAndGo has roots used on a device and released as soon as that has ended, now and then.
func comeAndGo(h *History, dice *rand.Rand, ops []Op) (out []Op) {
	id := 1 << 20 // past those that are drawn
	for _, op := range ops {
		out = append(out, op)
		if dice.IntN(6) > 0 {
			continue
		}
		view, queue := dice.IntN(len(h.Views)), dice.IntN(LogicalQueues)
		v := h.Views[view]
		out = append(out, Op{ID: id, Kind: Produce, Queue: queue, Dst: view, Size: v.Size, Salt: dice.Uint32()},
			Op{ID: id + 1, Kind: Finish, Queue: queue, Salt: 1}, Op{ID: id + 2, Kind: Renew, Queue: queue, Dst: v.Root})
		id += 4
	}
	return out
}

// Apart draws n histories for RunCrowd, each of buffers of its own, which it renews and maps
// while the others press on the memories.
func Apart(seed uint64, n, ops int, failing bool) []*History {
	var out []*History
	all := History{Seed: seed, Failing: failing}
	for i := range n {
		g := drawn(seed+uint64(i)<<40, ops, failing)
		roots, views := len(all.Roots), len(all.Views)
		for _, v := range g.Views {
			v.Root += roots
			all.Views = append(all.Views, v)
		}
		g.Roots[0].Kind = UserMem
		all.Roots = append(all.Roots, g.Roots...)
		g.Ops = comeAndGo(g, rand.New(rand.NewPCG(seed, uint64(i))), slices.DeleteFunc(g.Ops, single))
		for k := range g.Ops {
			op := &g.Ops[k]
			op.More = nil
			if op.Src += views; op.Kind == Renew {
				op.Dst += roots
			} else {
				op.Dst += views
			}
		}
		out = append(out, g)
	}
	for _, g := range out {
		g.Seed, g.Roots, g.Views = seed, all.Roots, all.Views
	}
	return out
}
