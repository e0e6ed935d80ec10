package mem_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

var errTest = errors.New("test failure")

type told struct {
	mu  sync.Mutex
	got []mem.Point
	err []error
}

func (w *told) PointReached(p mem.Point, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.err = append(w.got, p), append(w.err, err)
}

// TestATimelineEqualsAListOfOutcomes ends points in any order a queue may, and
// asks about all of them after each.
func TestATimelineEqualsAListOfOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inOrder := rapid.Bool().Draw(t, "in order")
		var failed []mem.Point
		l := mem.NewTimeline("q", inOrder, func(p mem.Point, err error) {
			require.False(t, p.Reached(), "told before it is visible")
			require.ErrorIs(t, err, errTest)
			failed = append(failed, p)
		})
		var (
			points  []mem.Point
			ended   = map[mem.Point]error{}
			waiters = map[mem.Point][]*told{}
			open    []mem.Point
			fails   []mem.Point
		)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch {
			case rapid.IntRange(0, 4).Draw(t, "ended") == 0 && (!inOrder || len(open) == 0):
				p := l.Ended()
				require.Equal(t, p, l.Last())
				points = append(points, p)
				ended[p] = nil
			case rapid.IntRange(0, 4).Draw(t, "list") == 0:
				from := rapid.IntRange(0, len(points)+1).Draw(t, "from")
				var want []mem.Point
				for _, p := range points {
					if _, done := ended[p]; !done && p.Seq >= uint64(from) {
						want = append(want, p)
					}
				}
				require.Equal(t, want, l.Unended(nil, uint64(from)))
			case len(open) == 0 || rapid.IntRange(0, 2).Draw(t, "issue") > 0:
				p := l.Next()
				require.Equal(t, p, l.Last())
				points, open = append(points, p), append(open, p)
				if rapid.Bool().Draw(t, "watch") {
					w := &told{}
					done, _ := p.Notify(w)
					require.False(t, done)
					waiters[p] = append(waiters[p], w)
				}
			default:
				i := 0
				if !inOrder {
					i = rapid.IntRange(0, len(open)-1).Draw(t, "which")
				}
				p, err := open[i], error(nil)
				open = slices.Delete(open, i, i+1)
				if rapid.IntRange(0, 4).Draw(t, "fail") == 0 {
					err, fails = errTest, append(fails, p)
				}
				ended[p] = err
				l.End(p, err)
			}
		}
		require.Equal(t, fails, failed)
		for _, p := range points {
			err, done := ended[p]
			require.Equal(t, done, p.Reached(), "%v", p)
			require.Equal(t, done && err == nil, p.Succeeded(), "%v", p)
			require.Equal(t, err, p.Err(), "%v", p)
			for _, w := range waiters[p] {
				if done {
					require.Equal(t, []mem.Point{p}, w.got)
					require.Equal(t, []error{err}, w.err)
				} else {
					require.Empty(t, w.got)
				}
			}
		}
		for i, p := range points {
			for j, q := range points {
				require.Equal(t, i == j || (inOrder && i <= j), p.Before(q))
			}
		}
	})
}

func TestEndingAPointThatIsNotOpenPanics(t *testing.T) {
	l, other := mem.NewTimeline("q", true, nil), mem.NewTimeline("r", true, nil)
	p := l.Next()
	l.End(p, nil)
	require.Panics(t, func() { l.End(p, nil) }, "twice")
	require.Panics(t, func() { l.End(mem.Point{Line: l, Seq: 2}, nil) }, "never issued")
	require.Panics(t, func() { l.End(other.Next(), nil) }, "of another timeline")
	require.Panics(t, func() { l.End(mem.Point{}, nil) }, "the zero point")
}

func TestTheZeroPointIsReached(t *testing.T) {
	var p mem.Point
	require.True(t, p.Reached() && p.Succeeded() && p.IsZero())
	require.Equal(t, p, mem.NewTimeline("q", true, nil).Last())
	require.NoError(t, p.Err())
	require.NoError(t, p.Wait(context.Background()))
	done, err := p.Notify(&told{})
	require.True(t, done)
	require.NoError(t, err)
	require.False(t, p.Before(mem.NewTimeline("q", true, nil).Next()))
	require.Equal(t, "-", p.String())
}

func TestWhoHasToWaitIsHeardOf(t *testing.T) {
	l, heard := mem.NewTimeline("q", false, nil), 0
	l.OnWait(func() { heard++ })
	p, q := l.Next(), l.Next()
	l.End(p, nil)
	done, err := p.Notify(&told{})
	require.True(t, done)
	require.NoError(t, err)
	require.Zero(t, heard, "nobody has to wait for what has ended")
	done, err = q.Notify(&told{})
	require.False(t, done)
	require.NoError(t, err)
	require.Equal(t, 1, heard)
	l.End(q, nil)
}

func TestWaitReturnsTheFailureOrTheContextsEnd(t *testing.T) {
	l := mem.NewTimeline("q", false, nil)
	p, q := l.Next(), l.Next()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Wait(ctx), context.DeadlineExceeded)
	go l.End(q, errTest)
	require.ErrorIs(t, q.Wait(context.Background()), errTest)
	l.End(p, nil)
	require.NoError(t, p.Wait(context.Background()))
	require.Equal(t, "q#1", p.String())
}

func TestManyGoroutinesWaitWhileOthersEndPoints(t *testing.T) {
	l := mem.NewTimeline("q", false, nil)
	const n = 500
	points := make([]mem.Point, n)
	for i := range points {
		points[i] = l.Next()
	}
	var wg sync.WaitGroup
	for _, p := range points {
		wg.Go(func() {
			err := p.Wait(context.Background())
			if want := p.Seq%7 == 0; (err != nil) != want {
				t.Errorf("%v: %v", p, err)
			}
		})
		wg.Go(func() {
			if p.Seq%7 == 0 {
				l.End(p, errTest)
			} else {
				l.End(p, nil)
			}
		})
	}
	wg.Wait()
	for _, p := range points {
		require.True(t, p.Reached())
	}
}

// Points end in random order; who waits for one and all before it returns when that
// is so, never earlier, and is no waiter any more.
func TestWaitPassedReturnsWhenThePointAndAllBeforeHaveEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := mem.NewTimeline("q", false, nil)
		n := rapid.IntRange(1, 150).Draw(t, "points")
		points := make([]mem.Point, n)
		for i := range points {
			points[i] = l.Next()
		}
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 5).Draw(t, "waiters") {
			p := points[rapid.IntRange(0, n-1).Draw(t, "which")]
			wg.Go(func() {
				if err := p.WaitPassed(context.Background()); err != nil || !p.Passed() {
					t.Errorf("%v: %v, passed: %v", p, err, p.Passed())
				}
			})
		}
		for i, p := range rapid.Permutation(points).Draw(t, "order") {
			if i%5 == 0 {
				l.End(p, errTest) // however they end
			} else {
				l.End(p, nil)
			}
		}
		wg.Wait()
		require.Zero(t, l.Waiters())
		more := []mem.Point{l.Next(), l.Next(), l.Next()}
		wg.Go(func() {
			if err := more[1].WaitPassed(context.Background()); err != nil || !more[1].Passed() {
				t.Errorf("%v: %v", more[1], err)
			}
		})
		for _, p := range more {
			l.End(p, nil)
		}
		wg.Wait()
		require.NoError(t, points[n-1].WaitPassed(context.Background()))
		require.NoError(t, mem.Point{}.WaitPassed(context.Background()))
	})
}

func TestWaitPassedReturnsTheContextsEnd(t *testing.T) {
	l := mem.NewTimeline("q", false, nil)
	asked := 0
	l.OnWait(func() { asked++ })
	p, q := l.Next(), l.Next()
	l.End(q, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, q.WaitPassed(ctx), context.Canceled)
	require.Zero(t, l.Waiters())
	require.Equal(t, 1, asked)
	l.End(p, nil)
	require.NoError(t, q.WaitPassed(ctx))
}

func TestATimelineInSteadyStateAllocatesNothing(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		l := mem.NewTimeline("q", inOrder, nil)
		w := &told{got: make([]mem.Point, 0, 1<<16), err: make([]error, 0, 1<<16)}
		round := func() {
			p, q := l.Next(), l.Next()
			_, _ = p.Notify(w)
			if !inOrder {
				p, q = q, p
			}
			l.End(p, nil)
			l.End(q, nil)
		}
		round()
		require.Zero(t, testing.AllocsPerRun(1000, round))
	}
}

// namedWaiter notes its name in a list, all in one goroutine.
type namedWaiter struct {
	name int
	told *[]int
}

func (w *namedWaiter) PointReached(mem.Point, error) { *w.told = append(*w.told, w.name) }

// Who waits for a point is told of its end in the order in which they came, wherever among them somebody
// gave up.
func TestWaitersAreToldInTheOrderInWhichTheyCame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, asked := mem.NewTimeline("q", false, nil), make(chan struct{}, 1)
		l.OnWait(func() { asked <- struct{}{} })
		points := []mem.Point{l.Next(), l.Next()}
		want, told := make([][]int, len(points)), []int{}
		var giveUp []func() // of those who may yet
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			k := rapid.IntRange(0, len(points)-1).Draw(t, "point")
			before := l.Waiters()
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				done, _ := points[k].Notify(&namedWaiter{i, &told})
				require.False(t, done)
				want[k] = append(want[k], i)
				<-asked
				require.Equal(t, before+1, l.Waiters())
			case 1:
				ctx, cancel := context.WithCancel(context.Background())
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_ = points[k].Wait(ctx)
				}()
				giveUp = append(giveUp, func() { cancel(); <-gone })
				<-asked
				require.Equal(t, before+1, l.Waiters())
			case 2:
				if n := len(giveUp); n > 0 {
					x := rapid.IntRange(0, n-1).Draw(t, "who")
					giveUp[x]()
					giveUp = slices.Delete(giveUp, x, x+1)
					require.Equal(t, before-1, l.Waiters())
				}
			}
		}
		for _, k := range rapid.Permutation([]int{0, 1}).Draw(t, "ends") {
			told = told[:0]
			l.End(points[k], nil)
			require.Equal(t, append([]int{}, want[k]...), told)
		}
		require.Zero(t, l.Waiters())
		for _, f := range giveUp {
			f()
		}
	})
}
