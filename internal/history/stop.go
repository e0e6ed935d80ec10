package history

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/runtime"
)

// errStopped is why a context of Stop is closed.
var errStopped = errors.New("the history is told to stop")

// Stop replays the first operations of h, in which nothing may fail, and closes the context
// under a ctx that has ended, whatever is under way. Close must return, after which every
// command and user event has ended: well, or with that ctx's cause. Nothing is left on the
// devices. Every other queue is closed beside it. Of the result, Commands and Failed are set.
func Stop(h *History, cfg Config, operations int) (Result, error) {
	ctx, cancel := cfg.patience()
	defer cancel()
	r := newReplay(ctx, h, cfg)
	if err := r.setUp(); err != nil {
		return Result{}, err
	}
	for i := range h.Ops[:operations] {
		if err := r.step(&h.Ops[i]); err != nil {
			return r.result, errors.Join(fmt.Errorf("operation %d (%s): %w", h.Ops[i].ID, h.Ops[i].Kind, err), r.tearDown())
		}
	}
	if err := r.closeAtOnce(); err != nil {
		return r.result, err
	}
	if err := r.endLent(); err != nil {
		return r.result, err
	}
	for _, e := range r.owned {
		switch st, err := e.Status(); {
		case err != nil:
			return r.result, err
		case st > runtime.Complete:
			return r.result, fmt.Errorf("an event has status %d when its context is closed", st)
		case st == runtime.Complete:
			continue
		}
		r.result.Failed++
		if !errors.Is(e.Err(), errStopped) {
			return r.result, fmt.Errorf("a command failed for another reason than that its context was closed: %w", e.Err())
		}
	}
	return r.result, nil
}

// closeAtOnce closes the context; what nobody has released is its to say.
func (r *replay) closeAtOnce() error {
	ended, end := context.WithCancelCause(r.ctx)
	end(errStopped)
	var queues sync.WaitGroup
	closed := make(chan error, 1)
	for i, q := range r.queues {
		if i%2 == int(r.h.Seed%2) {
			queues.Go(func() { _ = q.Close() }) // what failed on it is told below
		}
	}
	go func() {
		err := r.c.Close(ended)
		queues.Wait()
		closed <- err
	}()
	select {
	case <-r.ctx.Done():
		return fmt.Errorf("closing a context under a ctx that has ended hangs: %w", r.ctx.Err())
	case err := <-closed:
		return notALeak(err)
	}
}

// notALeak is err without runtime.ErrLeak.
func notALeak(err error) error {
	all, joined := err.(interface{ Unwrap() []error })
	if !joined {
		if errors.Is(err, runtime.ErrLeak) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range all.Unwrap() {
		errs = append(errs, notALeak(e))
	}
	return errors.Join(errs...)
}
