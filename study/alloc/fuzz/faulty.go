package fuzz

import (
	"context"
	"errors"

	"godwit/study/alloc/replay"
)

// A fault is made as small as by hand: fewer operations first, then a smaller region, in
// which fewer chunks lead to the same.

// faultShrinkEvals bounds the tries that make a fault's sequence small; one that hangs
// takes the subject's patience at each, and so has fewer unless there is a subject with
// little patience.
const (
	faultShrinkEvals = 4000
	hangShrinkEvals  = 25
)

// leaks plays a sequence between two requests for a whole region, and frees all that it
// leaves: a second request that is refused is a leak. Only allocators in other processes
// are asked; a Region's holes are its own.
func (s *searcher) leaks(ctx context.Context, ops []replay.Op) error {
	if s.o.NoLeaks || len(ops) == 0 || !replay.Outside(s.o.Subject) {
		return nil
	}
	st, err := stream(ops)
	if err != nil {
		return err
	}
	region := uint64(unit)
	for region < 2*st.PeakLive {
		region *= 2 // buddies manage powers of two alone
	}
	if st, err = leakStream(ops, region); err != nil {
		return err
	}
	_, err = replay.Replay(ctx, st, s.o.Subject, region)
	if f := (*replay.Fault)(nil); errors.As(err, &f) && f.Kind == replay.Leak {
		s.leaking = ops
	}
	return err
}

// leakStream is a sequence between two requests for the whole region.
func leakStream(ops []replay.Op, region uint64) (*replay.Stream, error) {
	ops = renumber(ops)
	slots, live := uint32(0), make(map[uint32]bool)
	for _, op := range ops {
		slots = max(slots, op.Slot+1)
		live[op.Slot] = op.Size > 0
	}
	all := []replay.Op{{Size: region, Slot: slots}, {Slot: slots}}
	all = append(all, ops...)
	for slot := range slots {
		if live[slot] {
			all = append(all, replay.Op{Slot: slot})
		}
	}
	st, err := stream(append(all, replay.Op{Size: region, Slot: slots}))
	if err == nil {
		st.Leaks = true
	}
	return st, err
}

// faulty is the finding that the subject broke its contract: the sequence that
// showed it, shrunk while it shows a fault of the same kind.
func (s *searcher) faulty(ctx context.Context, fault *replay.Fault) (*Finding, error) {
	return s.reduce(ctx, fault, s.showing(fault))
}

// showing are the operations that show a fault; none where it came before the first.
func (s *searcher) showing(fault *replay.Fault) []replay.Op {
	st := fault.Reproducer()
	switch {
	case st == nil || fault.Subject != s.o.Subject.Name():
		return nil
	case fault.Kind == replay.Leak:
		return s.leaking
	}
	return st.Ops
}

// reduce is the finding of a fault that operations show, made as small as may be.
func (s *searcher) reduce(ctx context.Context, fault *replay.Fault, ops []replay.Op) (*Finding, error) {
	f := s.blank()
	f.Fault, f.Region, f.FoundOps = fault, fault.Region, len(ops)
	if len(ops) == 0 {
		return f, nil
	}
	subject, tries := s.o.Subject, faultShrinkEvals
	if fault.Kind == replay.Hang {
		if tries = hangShrinkEvals; s.o.Hasty != nil {
			subject, tries = s.o.Hasty, faultShrinkEvals/20
		}
	}
	if s.interrupted {
		tries = 0
	}
	k := &shrinker{ops: renumber(ops), region: fault.Region, left: tries}
	whole := *k
	k.keeps = f.shows(subject, fault.Kind)
	if err := k.smallest(ctx); err != nil {
		return nil, err
	}
	if subject != s.o.Subject {
		// What little patience took for a hang may be a slow machine.
		ok, err := f.shows(s.o.Subject, fault.Kind)(ctx, k.ops, k.region)
		if err != nil {
			return nil, err
		}
		if !ok {
			k, f.Fault, whole.left = &whole, fault, min(tries, hangShrinkEvals)
			k.keeps = f.shows(s.o.Subject, fault.Kind)
			if err := k.smallest(ctx); err != nil {
				return nil, err
			}
		}
	}
	st, err := faultStream(fault.Kind, k.ops, k.region)
	if err != nil {
		return nil, err
	}
	f.Ops, f.Region = len(st.Ops), k.region
	f.Genome, _ = encode(k.ops) // none where genes cannot express it: the trace does
	f.shown(st)
	return f, nil
}

// shown has a stream be what the finding shows.
func (f *Finding) shown(st *replay.Stream) {
	f.Stream, f.PeakLive, st.Name = st, st.PeakLive, f.fileName()
	if f.Fault != nil {
		st.Name += "-" + string(f.Fault.Kind)
	}
}

// shows reports whether operations in a region show a fault of the kind, and keeps it.
func (f *Finding) shows(subject replay.Subject, kind replay.FaultKind) func(context.Context, []replay.Op, uint64) (bool, error) {
	return func(ctx context.Context, ops []replay.Op, region uint64) (bool, error) {
		st, err := faultStream(kind, ops, region)
		if err != nil {
			return false, nil //nolint:nilerr // nothing is allocated in it any more
		}
		_, err = replay.Replay(ctx, st, subject, region)
		var now *replay.Fault
		if !errors.As(err, &now) {
			return false, err
		}
		if now.Kind == kind {
			f.Fault = now
		}
		return now.Kind == kind, nil
	}
}

// faultStream is what shows a fault of the kind.
func faultStream(kind replay.FaultKind, ops []replay.Op, region uint64) (*replay.Stream, error) {
	if kind == replay.Leak {
		return leakStream(ops, region)
	}
	return stream(ops)
}

// smallest repeats all passes while one of them still makes the sequence or its region
// smaller.
func (k *shrinker) smallest(ctx context.Context) error {
	for ops, region := -1, uint64(0); (ops != len(k.ops) || region != k.region) && k.left > 0 && ctx.Err() == nil; {
		ops, region = len(k.ops), k.region
		for _, pass := range []func(context.Context) error{k.run, k.mergeChunks, k.lessRegion} {
			if err := pass(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeChunks makes one chunk of a group that was allocated one after the other: it
// comes in the first one's place, or in the last one's, with the size of all.
func (k *shrinker) mergeChunks(ctx context.Context) error {
	for n := k.allocations(); n >= 2; n /= 2 {
		for lo := 0; lo+n <= k.allocations() && k.left > 0 && ctx.Err() == nil; {
			ok, err := k.try(ctx, k.merged(lo, lo+n, lo))
			if err == nil && !ok {
				ok, err = k.try(ctx, k.merged(lo, lo+n, lo+n-1))
			}
			if err != nil {
				return err
			}
			if !ok {
				lo++
			}
		}
	}
	return nil
}

func (k *shrinker) allocations() int {
	return len(k.keep(func(op replay.Op) bool { return op.Size > 0 }))
}

// merged is the sequence with one chunk in place of those in [lo, hi): number at.
func (k *shrinker) merged(lo, hi, at int) []replay.Op {
	sum := uint64(0)
	for _, op := range k.ops {
		if int(op.Slot) >= lo && int(op.Slot) < hi {
			sum += op.Size
		}
	}
	out := k.keep(func(op replay.Op) bool { return int(op.Slot) < lo || int(op.Slot) >= hi || int(op.Slot) == at })
	for i := range out {
		if int(out[i].Slot) == at && out[i].Size > 0 {
			out[i].Size = sum
		}
	}
	return out
}

// lessRegion tries smaller regions, down to one unit.
func (k *shrinker) lessRegion(ctx context.Context) error {
	for cut := k.region / 2; cut >= unit; cut /= 2 {
		for k.region > cut && k.left > 0 && ctx.Err() == nil {
			was := k.region
			k.region = (was - cut) &^ (unit - 1)
			ok, err := k.region > 0, error(nil)
			if ok {
				ok, err = k.try(ctx, k.ops)
			}
			if err != nil {
				return err
			}
			if !ok {
				k.region = was
				break
			}
		}
	}
	return nil
}
