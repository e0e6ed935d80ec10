package history

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"godwit/runtime"
)

// errStopped is why a context of Config.StopAfter is closed.
var errStopped = errors.New("the history is told to stop")

// stop replays the first operations, in which nothing may fail, and closes the context under a ctx
// that has ended, whatever is under way. Close must return, after which every command and user
// event has ended: well, or with that ctx's cause. Nothing is left on the devices. Every other
// queue is closed beside it. Of the result, Commands and Failed are set.
func (r *replay) stop() error {
	if err := r.all(min(r.cfg.StopAfter, len(r.h.Ops))); err != nil {
		return errors.Join(err, r.tearDown())
	}
	if err := r.closeAtOnce(); err != nil {
		return err
	}
	if err := r.endLent(); err != nil {
		return err
	}
	for _, e := range r.owned {
		switch st, err := e.Status(); {
		case err != nil:
			return err
		case st > runtime.Complete:
			return fmt.Errorf("an event has status %d when its context is closed", st)
		case st == runtime.Complete:
			continue
		}
		r.result.Failed++
		if !errors.Is(e.Err(), errStopped) {
			return fmt.Errorf("a command failed for another reason than that its context was closed: %w", e.Err())
		}
	}
	return nil
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
