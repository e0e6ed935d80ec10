package mem

import (
	"context"
	"fmt"
	"slices"
)

// Point is a place on a timeline: a command that some queue has accepted, or a
// user event. A plain, comparable value. The zero Point is no point, and counts
// as reached.
type Point struct {
	Line *Timeline
	Seq  uint64 // from 1
}

// IsZero reports whether p is no point.
func (p Point) IsZero() bool { return p.Line == nil }

// Reached reports whether p has ended, well or badly. It never blocks.
func (p Point) Reached() bool { return p.Line == nil || p.Line.reached(p.Seq) }

// Succeeded reports whether p has ended well.
func (p Point) Succeeded() bool {
	return p.Line == nil || (p.Line.reached(p.Seq) && (!p.Line.failing.Load() || p.Line.failure(p.Seq) == nil))
}

// Passed reports whether p and every point issued before it on its timeline
// have ended. On an in-order timeline it is Reached. It never blocks.
func (p Point) Passed() bool { return p.Line == nil || p.Seq <= p.Line.mark.Load() }

// WaitPassed blocks until p and every point issued before it on its timeline have
// ended, however they did, or ctx has, whose error it then returns. It looks at p first: with
// that most before it have ended, so that it is told seldom, however many they are.
func (p Point) WaitPassed(ctx context.Context) error {
	if p.Line != nil && p.Line.sleeper != nil && !p.Passed() {
		return p.Line.sleeper.SleepUntil(ctx, p, p.Passed)
	}
	for last := p; !p.Passed(); last = p.Line.Oldest() {
		if err := WaitAny(ctx, []Point{last}); err != nil {
			return err
		}
	}
	return nil
}

// Err is why p ended badly; nil while it has not ended, and where it ended well.
// It is ErrFailed where the cause was given up (Timeline.DropCause).
func (p Point) Err() error {
	if p.Line == nil || !p.Line.failing.Load() {
		return nil
	}
	return p.Line.failure(p.Seq)
}

// Before reports whether reaching q implies that p was reached: both are on
// one in-order timeline, and p is not the later of them.
func (p Point) Before(q Point) bool {
	return p == q || (p.Line != nil && p.Line == q.Line && p.Line.inOrder && p.Seq <= q.Seq)
}

// Wait blocks until p has ended or ctx has, and returns p's error or ctx's.
func (p Point) Wait(ctx context.Context) error {
	if p.Reached() {
		return p.Err()
	}
	if s := p.Line.sleeper; s != nil {
		if err := s.SleepUntil(ctx, p, p.Reached); err != nil {
			return err
		}
		return p.Err()
	}
	w := chanWaiter(make(chan error, 1))
	if done, err := p.Notify(w); done {
		return err
	}
	select {
	case err := <-w:
		return err
	case <-ctx.Done():
		p.Line.forget(p.Seq, w)
		return ctx.Err()
	}
}

// Sleeper puts those to sleep who wait for points, in the place of Go's scheduler.
type Sleeper interface {
	// SleepUntil returns once done says so, which is about p, or when ctx has ended,
	// with its error.
	SleepUntil(ctx context.Context, p Point, done func() bool) error
}

// WaitAny blocks until one of the points has been reached, however it ended, or ctx has
// ended, whose error it then returns. There must be one.
func WaitAny(ctx context.Context, points []Point) error {
	reached := func() bool { return slices.ContainsFunc(points, Point.Reached) }
	if reached() {
		return nil
	}
	if s := points[0].Line.sleeper; s != nil {
		return s.SleepUntil(ctx, points[0], reached)
	}
	w := anyWaiter(make(chan struct{}, len(points)))
	for _, p := range points {
		if done, _ := p.Notify(w); done {
			w.PointReached(p, nil)
		}
		defer p.Line.forget(p.Seq, w)
	}
	select {
	case <-w:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type anyWaiter chan struct{}

func (c anyWaiter) PointReached(Point, error) { c <- struct{}{} }

type chanWaiter chan error

func (c chanWaiter) PointReached(_ Point, err error) { c <- err }

// Notify asks that w be told when p ends. Where p has ended already, w is not
// called: done is true and err is p's error.
func (p Point) Notify(w Waiter) (done bool, err error) {
	if p.Line == nil {
		return true, nil
	}
	done, err = p.Line.register(p.Seq, w)
	if !done && p.Line.onWait != nil {
		p.Line.onWait()
	}
	return done, err
}

// String is the timeline's name and the sequence number, as in "q0#12".
func (p Point) String() string {
	if p.Line == nil {
		return "-"
	}
	return fmt.Sprintf("%s#%d", p.Line.name, p.Seq)
}

// Waiter is told that a point has ended. The call comes from the goroutine
// that ended the point, without locks held: it must be short and must not block.
type Waiter interface {
	PointReached(p Point, err error)
}

// WaitKind says what the failure of a point means for what waits for it.
type WaitKind uint8

// Data waits pass a failure on: what waits needs the result (read after write,
// the user's wait list). Order waits only delay (write after read, write after
// write, in-order queues).
const (
	Order WaitKind = iota
	Data
)

// String is "order" or "data".
func (k WaitKind) String() string {
	if k == Data {
		return "data"
	}
	return "order"
}

// Wait is a point and what its failure means.
type Wait struct {
	Point Point
	Kind  WaitKind
}
