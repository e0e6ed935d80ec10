package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit/mem"
	"godwit/runtime"
)

// RunCrowd replays n histories over the same buffers at once, each from a
// goroutine of its own, on one context. The order in which the context took the
// commands (Event.Command) is the one they must have taken effect in: the
// verdict replays them in it. Histories must come from Crowd.
func RunCrowd(crowd []*History, cfg Config) (res Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(cfg.Patience, 30*time.Second))
	defer cancel()
	first := newReplay(ctx, crowd[0], cfg)
	if err := first.setUp(); err != nil {
		return Result{}, err
	}
	all := []*replay{first}
	for _, h := range crowd[1:] {
		r := *first
		r.h, r.events, r.open = h, make(map[int]runtime.Event), make(map[int]runtime.Event)
		r.needs, r.result = make(map[uint64][]mem.Access), Result{Ops: make(map[string]int)}
		r.firstSlot = slots * len(all) % (4 * slots)
		all = append(all, &r)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, r := range all {
		wg.Go(func() {
			for k := range r.h.Ops {
				if err := r.do(&r.h.Ops[k]); err != nil {
					errs[i] = fmt.Errorf("goroutine %d, operation %d (%s): %w", i, k, r.h.Ops[k].Kind, err)
					break
				}
				if k%16 == 0 {
					errs[i] = errors.Join(errs[i], r.c.Check())
				}
			}
			errs[i] = errors.Join(errs[i], r.setAll())
		})
	}
	wg.Wait()
	for _, r := range all[1:] {
		first.log = append(first.log, r.log...)
		first.result.Add(r.result)
		maps.Copy(first.needs, r.needs)
		first.owned = append(first.owned, r.owned...)
	}
	// Where a refusal for lost bytes lies in the order, nobody knows.
	first.log = slices.DeleteFunc(first.log, func(x entry) bool { return x.refused })
	slices.SortFunc(first.log, func(a, b entry) int { return int(a.command) - int(b.command) })
	if err = errors.Join(errs...); err == nil {
		err = errors.Join(first.compareMoves(), first.finish())
	}
	return first.result, errors.Join(err, first.tearDown())
}

// Crowd draws n histories of the same buffers for RunCrowd; in failing ones some
// user events fail.
func Crowd(seed uint64, n, ops int, failing bool) []*History {
	first := Generate(seed, ops)
	if failing {
		first = GenerateFailing(seed, ops)
	}
	first.Ops = unshared(first.Ops)
	out := []*History{first}
	for i := range n - 1 {
		g := drawOver(first, seed+uint64(i)+1<<32, ops)
		g.Ops = unshared(g.Ops)
		out = append(out, g)
	}
	return out
}

// unshared leaves out what other goroutines must not meet: a buffer they use being
// released, a mapped range, which OpenCL lets nobody else use, and calls that are
// to change nothing.
func unshared(ops []Op) []Op {
	return slices.DeleteFunc(ops, func(op Op) bool {
		return op.Kind == Renew || op.Kind == Map || op.Kind == Unmap || op.Kind == MapBriefly || op.Kind == FreePointer || op.Kind == Refuse ||
			op.Kind == Count || op.Kind == CountBy
	})
}
