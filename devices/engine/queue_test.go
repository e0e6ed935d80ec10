package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newHost opens a host device that the test closes, checked.
func newHost(t testing.TB, opts engine.HostOptions) *engine.Host {
	h := engine.NewHost(opts)
	t.Cleanup(func() {
		require.NoError(t, h.Memory().Check())
		require.NoError(t, h.Close())
	})
	return h
}

func newQueue(t testing.TB, d devices.Device, opts devices.QueueOptions) devices.Queue {
	q, err := d.NewQueue(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

func hostCall(f func(context.Context) error) *devices.Command {
	return &devices.Command{Op: devices.OpHostCall, Call: f}
}

var errTest = errors.New("the test says so")

func TestHostCallsMayBlockWithoutHoldingUpOthers(t *testing.T) {
	h := newHost(t, engine.HostOptions{Workers: 1})
	q := newQueue(t, h, devices.QueueOptions{Name: "q", OutOfOrder: true})
	release := make(chan struct{})
	var blocked []mem.Point
	for range 10 {
		p, err := q.Submit(hostCall(func(context.Context) error { <-release; return nil }), nil)
		require.NoError(t, err)
		blocked = append(blocked, p)
	}
	p, err := q.Submit(hostCall(func(context.Context) error { return nil }), nil)
	require.NoError(t, err)
	require.NoError(t, q.Wait(context.Background(), p, devices.Park))
	for _, b := range blocked {
		require.False(t, b.Reached())
	}
	close(release)
	for _, b := range blocked {
		require.NoError(t, q.Wait(context.Background(), b, devices.Park))
	}
}

func TestAPanicFailsTheCommandOnly(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	q := newQueue(t, h, devices.QueueOptions{Name: "q"})
	p, err := q.Submit(hostCall(func(context.Context) error { panic("boom") }), nil)
	require.NoError(t, err)
	err = q.Wait(context.Background(), p, devices.Park)
	require.ErrorIs(t, err, mem.ErrFault)
	require.ErrorContains(t, err, "boom")
	p, err = q.Submit(&devices.Command{Op: devices.OpMarker}, nil)
	require.NoError(t, err)
	require.NoError(t, q.Wait(context.Background(), p, devices.Park))
}

func TestOnFailIsNeverCalledFromWithinSubmitOrEnd(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	var planner sync.Mutex // stands for the runtime's planner lock, held over Submit
	var told atomic.Int32
	q := newQueue(t, h, devices.QueueOptions{Name: "q", OnFail: func(p mem.Point, err error) {
		planner.Lock()
		defer planner.Unlock()
		told.Add(1)
	}})
	user := mem.NewTimeline("user", false, nil)
	failed := user.Next()
	user.End(failed, errTest)
	gate := user.Next()
	planner.Lock()
	var points []mem.Point
	for _, w := range []mem.Point{failed, gate} {
		p, err := q.Submit(&devices.Command{Op: devices.OpMarker}, []mem.Wait{{Point: w, Kind: mem.Data}})
		require.NoError(t, err)
		points = append(points, p)
	}
	user.End(gate, errTest)
	planner.Unlock()
	for _, p := range points {
		err := q.Wait(context.Background(), p, devices.Park)
		require.ErrorIs(t, err, mem.ErrDependency)
		require.ErrorIs(t, err, errTest)
		require.Equal(t, mem.ExecStatusErrorInWaitList, mem.StatusOf(err))
	}
	require.EqualValues(t, 2, told.Load())
}

func TestALongChainOfGatedMarkersNamesItsFirstCause(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	qs := []devices.Queue{
		newQueue(t, h, devices.QueueOptions{Name: "a", OutOfOrder: true}),
		newQueue(t, h, devices.QueueOptions{Name: "b", OutOfOrder: true}),
	}
	user := mem.NewTimeline("user", false, nil)
	gate := user.Next()
	last := gate
	for i := range 20_000 {
		p, err := qs[i%2].Submit(&devices.Command{Op: devices.OpMarker}, []mem.Wait{{Point: last, Kind: mem.Data}})
		require.NoError(t, err)
		last = p
	}
	user.End(gate, errTest)
	err := last.Wait(context.Background())
	require.ErrorIs(t, err, errTest)
	require.Less(t, len(err.Error()), 200)
}

func TestADeviceWithOpenQueuesDoesNotClose(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	q, err := h.NewQueue(devices.QueueOptions{Name: "mine"})
	require.NoError(t, err)
	err = h.Close()
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "mine")
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Close(), mem.ErrClosed)
	_, err = q.Submit(&devices.Command{Op: devices.OpMarker}, nil)
	require.ErrorIs(t, err, mem.ErrClosed)
}

// once is an executor whose commands fail, and which counts them.
type once struct{ executed atomic.Int32 }

func (o *once) Execute(*devices.Command) error {
	o.executed.Add(1)
	return errTest
}

func TestACommandThatFailsInsideSubmitIsExecutedOnce(t *testing.T) {
	exec := new(once)
	d := new(engine.Device)
	d.Init(devices.Info{Name: "e"}, engine.NewHostBlocks("e", 1, 0), exec, engine.EngineOptions{Instant: true})
	var told atomic.Int32
	for _, ooo := range []bool{false, true} {
		q, err := d.NewQueue(devices.QueueOptions{Name: "q", OutOfOrder: ooo, OnFail: func(mem.Point, error) { told.Add(1) }})
		require.NoError(t, err)
		exec.executed.Store(0)
		p, err := q.Submit(&devices.Command{Op: devices.OpFill, Dst: devices.Loc{Bytes: []byte{1}}, Pattern: []byte{2}, Size: 1}, nil)
		require.NoError(t, err)
		require.ErrorIs(t, q.Wait(context.Background(), p, devices.Park), errTest)
		require.EqualValues(t, 1, exec.executed.Load())
		p, err = q.Submit(&devices.Command{Op: devices.OpMarker}, []mem.Wait{{Point: p, Kind: mem.Order}})
		require.NoError(t, err)
		require.NoError(t, q.Wait(context.Background(), p, devices.Park), "the record was cleared")
		p, err = q.Submit(hostCall(func(context.Context) error { return nil }), nil)
		require.NoError(t, err)
		require.NoError(t, q.Wait(context.Background(), p, devices.Park), "and so was its work")
		require.NoError(t, q.Close())
	}
	require.EqualValues(t, 2, told.Load())
	require.NoError(t, d.Close())
}

// quick is an executor that does nothing.
type quick struct{}

func (quick) Execute(*devices.Command) error { return nil }

func TestTimesOfWhatEndsInsideSubmitAreKeptWhereAsked(t *testing.T) {
	d := new(engine.Device)
	d.Init(devices.Info{Name: "e"}, engine.NewHostBlocks("e", 1, 0), quick{}, engine.EngineOptions{Instant: true})
	for _, profiling := range []bool{false, true} {
		q, err := d.NewQueue(devices.QueueOptions{Name: "q", Profiling: profiling})
		require.NoError(t, err)
		p, err := q.Submit(&devices.Command{Op: devices.OpFill, Dst: devices.Loc{Bytes: []byte{1}}, Pattern: []byte{2}, Size: 1}, nil)
		require.NoError(t, err)
		require.True(t, p.Succeeded())
		times, ok := q.Times(p, devices.DeviceClock)
		require.Equal(t, profiling, ok)
		require.Equal(t, profiling, times.Ended > 0)
		require.NoError(t, q.Close())
	}
	require.NoError(t, d.Close())
}

func TestTimesAreOrderedAndKeptOnlyWhereAsked(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	q := newQueue(t, h, devices.QueueOptions{Name: "q", Profiling: true})
	p, err := q.Submit(hostCall(func(context.Context) error { return nil }), nil)
	require.NoError(t, err)
	require.NoError(t, q.Wait(context.Background(), p, devices.Park))
	times, ok := q.Times(p, devices.DeviceClock)
	require.True(t, ok)
	require.LessOrEqual(t, times.Queued, times.Submitted)
	require.LessOrEqual(t, times.Submitted, times.Started)
	require.LessOrEqual(t, times.Started, times.Ended)
	plain := newQueue(t, h, devices.QueueOptions{Name: "plain"})
	p, err = plain.Submit(hostCall(func(context.Context) error { return nil }), nil)
	require.NoError(t, err)
	require.NoError(t, plain.Wait(context.Background(), p, devices.Park))
	_, ok = plain.Times(p, devices.DeviceClock)
	require.False(t, ok)
}
