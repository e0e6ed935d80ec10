package history

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
				if !s.Point.IsZero() && !s.Late {
					r.result.BytesMoved += s.Range.Size() - s.RideAlong
				}
			}
			continue
		}
		if c.Err != nil {
			return fmt.Errorf("command %d was refused after planning: %w", c.ID, c.Err)
		}
		accs, known := r.needs[c.ID]
		if !known {
			return fmt.Errorf("command %d (%s on %s): nobody enqueued it", c.ID, c.Op, c.Queue)
		}
		want, err := r.expected(&c, accs)
		if err != nil {
			return fmt.Errorf("command %d (%s on %s): %w", c.ID, c.Op, c.Queue, err)
		}
		if tell := r.thens[c.ID]; tell != nil {
			tell()
		}
		moved, late := uint64(0), false
		for _, s := range c.Steps {
			moved += s.Range.Size() - s.RideAlong
			late = late || s.Late
		}
		if late { // how much of it moves shows when it has moved
			moved = want.Bytes
		}
		if moved != want.Bytes {
			return fmt.Errorf("command %d (%s on %s) moved %d bytes, %d had to; it says %v, the history %v", c.ID, c.Op, c.Queue, moved, want.Bytes, c.Accesses, accs)
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
	for i, m := range r.maps {
		if err := r.unmapOf(m.q, &Op{ID: -100 - i}, m); err != nil {
			return fmt.Errorf("last unmap of operation %d: %w", m.op.ID, err)
		}
	}
	r.maps = nil
	if err := r.compareMoves(); err != nil {
		return err
	}
	if err := r.finishAll(); err != nil {
		return err
	}
	if err := r.readEverything(); err != nil {
		return err
	}
	if err := r.judge(); err != nil {
		return err
	}
	late, err := r.lateMoved()
	if err != nil {
		return err
	}
	if r.mayFail() {
		r.result.BytesMoved += late
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
			continue // nothing was done
		case x.op.Kind == Unmap && x.mapped.Err() != nil: // nor here
			if failed {
				r.result.Failed++
				r.result.Ops["unmap failed with its map"]++
			}
			continue
		case failed:
			r.result.Failed++
			m.lose(x.op)
			continue
		}
		if x.op.reads() { // before the host writes, where it does both
			if err := x.compare(m); err != nil {
				return fmt.Errorf("read by operation %d (command %d): %w", x.op.ID, x.command, err)
			}
			r.result.BytesRead += len(x.got)
			_, _ = digest.Write(x.got) // never fails
		}
		m.apply(x.op)
	}
	r.result.Digest = digest.Sum64()
	return nil
}

// compare tests what was read, and clears what is unknown of it.
func (x *entry) compare(m *model) error {
	want, known := m.read(x.op)
	for i := range x.got {
		switch {
		case !known[i]:
			x.got[i] = 0
		case x.got[i] != want[i]:
			return fmt.Errorf("byte %d of %d is %d, one flat memory has %d", i, len(x.got), x.got[i], want[i])
		}
	}
	return nil
}

// judgeEnd decides whether a command had to fail: it waits for a failed one, or
// reads bytes that a failed one was the last to write. One that failed without
// having to must itself have been hit by its device, or rest on a copy that
// failed.
func (r *replay) judgeEnd(m *model, x *entry) (failed bool, err error) {
	lost := m.readsLost(x.op)
	if x.refused {
		if !lost && !m.countLost(x.op) {
			return false, errors.New("refused for lost bytes, but reads none")
		}
		return false, nil
	}
	if x.command == 0 { // a renewal
		return false, nil
	}
	must := lost && !x.around || x.op.Kind == Fail
	if x.op.Kind == Unmap && x.mapped.Err() != nil { // known when the unmap was enqueued, or the unmap's failure too
		if err = x.event.Err(); err == nil && x.op.mapWrites() && !x.void {
			err = fmt.Errorf("succeeded, though its map failed later: %w", x.mapped.Err())
		} else {
			failed, err = err != nil, nil
		}
		return failed, err
	}
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
		if err := r.finishAll(); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) finishAll() error {
	for _, q := range r.queues {
		if err := r.finishQueue(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name(), err)
		}
	}
	return nil
}

// tearDown releases everything; whatever is left is an error.
func (r *replay) tearDown() error {
	errs := []error{r.setAll(), r.releaseSizes()}
	for root := range r.h.Roots {
		errs = append(errs, r.release(nil, root))
	}
	if r.tableBuf != nil {
		errs = append(errs, r.tableBuf.Release())
		r.freed = append(r.freed, r.table)
	}
	for _, m := range r.maps { // of a run that was given up
		if !m.byPtr && !m.mapping.IsZero() {
			_, err := m.q.EnqueueUnmap(r.ctx, m.mapping)
			errs = append(errs, err)
		}
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
