package metamorphic

import (
	"errors"
	"fmt"
	"hash/fnv"
)

// compareMoves replays the commands accepted since the last call on the oracle:
// each must have moved as many bytes as had to move.
func (r *replay) compareMoves() error {
	commands := r.rec.CommandsFrom(r.seen)
	r.seen += len(commands)
	for _, c := range commands {
		if r.mayFail() { // when the planner hears of a failure is a matter of timing
			for _, s := range c.Steps {
				if !s.Point.IsZero() {
					r.result.BytesMoved += s.Range.Size() - s.RideAlong
				}
			}
			continue
		}
		if c.Err != nil {
			return fmt.Errorf("command %d was refused after planning: %w", c.ID, c.Err)
		}
		want, err := r.oracle.Enqueue(c.Accesses)
		if err != nil {
			return fmt.Errorf("command %d: %w", c.ID, err)
		}
		var moved uint64
		for _, s := range c.Steps {
			moved += s.Range.Size() - s.RideAlong
		}
		if moved != want.Bytes {
			return fmt.Errorf("command %d (%s on %s) moved %d bytes, %d had to", c.ID, c.Op, c.Queue, moved, want.Bytes)
		}
		r.result.BytesMoved += moved
	}
	return nil
}

// finish lets everything run and judges it.
func (r *replay) finish() error {
	if err := r.setAll(); err != nil {
		return err
	}
	for _, q := range r.queues {
		if err := r.finishQueue(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name(), err)
		}
	}
	if err := r.readEverything(); err != nil {
		return err
	}
	if err := r.judge(); err != nil {
		return err
	}
	if moved := r.rec.BytesMoved(); moved != r.result.BytesMoved {
		return fmt.Errorf("the trace says that %d bytes moved, the commands' sum is %d", moved, r.result.BytesMoved)
	}
	return r.c.Check()
}

// judge replays the log on one flat memory and compares what was read, and what
// failed.
func (r *replay) judge() error {
	m, digest := newModel(r.h), fnv.New64a()
	for i := range r.log {
		x := &r.log[i]
		failed, err := r.judgeEnd(m, x)
		if err != nil {
			return fmt.Errorf("operation %d (%s, command %d): %w", x.op.ID, x.op.Kind, x.command, err)
		}
		switch {
		case x.refused:
			continue
		case failed:
			r.result.Failed++
			m.lose(x.op)
			continue
		}
		m.apply(x.op)
		if !x.op.reads() {
			continue
		}
		want, known := m.read(x.op)
		for i := range x.got {
			switch {
			case !known[i]:
				x.got[i] = 0
			case x.got[i] != want[i]:
				return fmt.Errorf("read by operation %d (command %d): byte %d of %d is %d, one flat memory has %d", x.op.ID, x.command, i, len(x.got), x.got[i], want[i])
			}
		}
		r.result.BytesRead += len(x.got)
		_, _ = digest.Write(x.got) // never fails
	}
	r.result.Digest = digest.Sum64()
	return nil
}

// judgeEnd decides whether a command had to fail: it waits for a failed one, or
// reads bytes that a failed one was the last to write. One that failed without
// having to must itself have been hit by its device, or rest on a copy that
// failed.
func (r *replay) judgeEnd(m *model, x *entry) (failed bool, err error) {
	lost := m.readsLost(x.op)
	if x.refused {
		if !lost {
			return false, errors.New("refused for lost bytes, but reads none")
		}
		return false, nil
	}
	if x.command == 0 { // a renewal
		return false, nil
	}
	must := lost
	for _, w := range x.waits {
		must = must || w.Err() != nil
	}
	err = x.event.Err()
	switch {
	case err == nil && must:
		return false, fmt.Errorf("succeeded, though it reads lost bytes (%t) or waits for a failed command", lost)
	case err == nil || must:
		return err != nil, nil
	case !r.mayFail():
		return true, fmt.Errorf("failed: %w", err)
	case r.cfg.Flaky != nil && errors.Is(err, r.cfg.Flaky):
		return true, nil
	}
	r.result.Spurious++
	return true, nil
}

// readEverything reads all roots on the first and the last device.
func (r *replay) readEverything() error {
	for _, q := range []int{0, len(r.queues) - 1} {
		for i, v := range r.h.Views {
			if v.Sub {
				continue
			}
			op := &Op{ID: -1 - i, Kind: Read, Queue: q, Dst: i, Size: v.Size}
			if err := r.step(op); err != nil {
				return fmt.Errorf("final read of buffer %d: %w", v.Root, err)
			}
		}
		if err := r.finishQueue(r.queues[q]); err != nil {
			return err
		}
	}
	return nil
}

// tearDown releases everything; whatever is left is an error.
func (r *replay) tearDown() error {
	errs := []error{r.setAll()}
	for root := range r.h.Roots {
		errs = append(errs, r.release(root))
	}
	for _, q := range r.queues {
		if len(r.freed) > 0 {
			_ = q.Finish(r.ctx) // commands that failed were judged before
		}
	}
	for _, p := range r.freed {
		errs = append(errs, r.c.SVMFree(p))
	}
	for _, e := range r.owned {
		errs = append(errs, e.Release())
	}
	return errors.Join(append(errs, r.c.Close(r.ctx))...)
}

// Shrink returns a history with fewer operations that still fails, trying for as
// long as leaving out more may help: halves, quarters, down to single
// operations. As failures may depend on timing, each candidate gets three runs.
func Shrink(h *History, cfg Config) *History {
	fails := func(ops []Op) bool {
		try := *h
		try.Ops = ops
		for range 3 {
			if _, err := Run(&try, cfg); err != nil {
				return true
			}
		}
		return false
	}
	ops := h.Ops
	for size := len(ops) / 2; size > 0; {
		left := false
		for from := 0; from < len(ops); {
			fewer := append(append([]Op(nil), ops[:from]...), ops[min(from+size, len(ops)):]...)
			if fails(fewer) {
				ops, left = fewer, true
			} else {
				from += size
			}
		}
		if !left || size > 1 {
			size /= 2
		}
	}
	small := *h
	small.Ops = ops
	return &small
}
