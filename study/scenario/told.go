package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/runtime"
)

// What events tell: callbacks, and the times of commands.

// firing is what the callbacks of one command said, in the order in which they
// came.
type firing struct {
	mu  sync.Mutex
	got []runtime.ExecStatus // protected by mu
}

// calls counts the callbacks to come.
type calls struct {
	mu   sync.Mutex
	left int           // protected by mu
	done chan struct{} // protected by mu: not nil once somebody waits
}

func (c *calls) String() string { return "the callbacks" }

func (c *calls) expect() {
	c.mu.Lock()
	c.left++
	c.mu.Unlock()
}

func (c *calls) came() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 && c.done != nil {
		close(c.done)
	}
}

// all is closed once all have come. None is to be expected any more.
func (c *calls) all() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = make(chan struct{})
	if c.left == 0 {
		close(c.done)
	}
	return c.done
}

// listen asks for a command's callbacks, in the order in which they will come
// where it has ended already.
func (r *runner) listen(i int, e runtime.Event) error {
	for _, s := range inOrder(r.s.Commands[i].Callbacks) {
		if r.fired[i] == nil {
			r.fired[i] = &firing{}
		}
		f := r.fired[i]
		r.calls.expect()
		if err := e.OnStatus(s, func(_ runtime.Event, got runtime.ExecStatus) {
			defer r.calls.came()
			f.mu.Lock()
			defer f.mu.Unlock()
			f.got = append(f.got, got)
		}); err != nil {
			r.calls.came()
			return err
		}
	}
	return nil
}

// toldAll waits for the callbacks, which come after the ends of commands, and
// puts what they and the clocks said into the result.
func (r *runner) toldAll(ctx context.Context, res *Result) error {
	if err := r.ctx.Await(ctx, &r.calls, r.calls.all()); err != nil {
		return err
	}
	if r.opt.Plain {
		return nil
	}
	for i := range r.s.Commands {
		c, out := &r.s.Commands[i], &res.Commands[i]
		if len(c.Callbacks) > 0 {
			r.checkCallbacks(i, out, res)
		}
		if (c.Profile || r.opt.Profile) && c.queued() {
			if err := r.times(i, out, res); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCallbacks holds the callbacks of a command against OpenCL's rule: each is
// called once, and submitted comes before running and that before complete; those
// that come after a failure are given its status.
func (r *runner) checkCallbacks(i int, out *commandResult, res *Result) {
	want := inOrder(r.s.Commands[i].Callbacks)
	got := r.fired[i].got // nobody calls any more
	for _, s := range got {
		out.Callbacks = append(out.Callbacks, stateName(s))
	}
	right := len(got) == len(want)
	for k := range min(len(got), len(want)) {
		right = right && (got[k] == want[k] || (r.failed[i] != nil && got[k] < 0))
	}
	if !right {
		res.Mismatches = append(res.Mismatches, fmt.Sprintf("#%d %s: callbacks came as %v, not as %v", i+1, out.Text, got, want))
	}
}

// inOrder returns states in the order in which a command goes through them.
func inOrder(states []runtime.ExecStatus) []runtime.ExecStatus {
	return slices.SortedFunc(slices.Values(states), func(a, b runtime.ExecStatus) int { return int(b - a) })
}

func stateName(s runtime.ExecStatus) string {
	for name, status := range callbackStates {
		if status == s {
			return name
		}
	}
	return fmt.Sprintf("failed with status %d", s)
}

// commandTimes are when a command changed state, in nanoseconds since the run's context was
// made, by one clock for all commands of the run (Result.Clock), as timelines have it.
type commandTimes struct {
	Queued    uint64 `json:"queued_at_ns"`
	Submitted uint64 `json:"submitted_at_ns"`
	Started   uint64 `json:"started_at_ns"`
	Ended     uint64 `json:"ended_at_ns"`
	Error     uint64 `json:"error_ns"` // by which each of these may be wrong, where the device has a clock of its own

	SubmittedAfter uint64 `json:"submitted_ns"` // since it was queued
	StartedAfter   uint64 `json:"started_ns"`   // since it was queued
	EndedAfter     uint64 `json:"ended_ns"`     // since it was queued
}

// times asks for a command's times.
func (r *runner) times(i int, out *commandResult, res *Result) error {
	t, err := r.events[i].Times()
	if errors.Is(err, runtime.ErrProfiling) {
		return nil // the driver keeps none
	}
	if err != nil {
		return err
	}
	if t.Submitted < t.Queued || t.Started < t.Submitted || t.Ended < t.Started {
		res.Mismatches = append(res.Mismatches, fmt.Sprintf("#%d %s: queued at %d ns, submitted at %d, started at %d, ended at %d: they must not go back", i+1, out.Text, t.Queued, t.Submitted, t.Started, t.Ended))
		return nil
	}
	out.Times = &commandTimes{t.Queued, t.Submitted, t.Started, t.Ended, t.Error, t.Submitted - t.Queued, t.Started - t.Queued, t.Ended - t.Queued}
	return nil
}
