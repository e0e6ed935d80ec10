package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/mem"
	"godwit/runtime"
)

// faulty is a device of real bytes whose submissions can be refused, or
// accepted and then failed.
type faulty struct {
	*engine.Host
	refuse atomic.Pointer[func(*devices.Command) error]
	fail   atomic.Pointer[func(*devices.Command) error]
	slow   time.Duration // takes the time before it tells of a failure
}

func (f *faulty) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	if tell := o.OnFail; tell != nil {
		o.OnFail = func(p mem.Point, cause error) {
			time.Sleep(f.slow)
			tell(p, cause)
		}
	}
	return devicetest.Tap(f.Host, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if r := f.refuse.Load(); r != nil {
			if err := (*r)(cmd); err != nil {
				return mem.Point{}, err
			}
		}
		if r := f.fail.Load(); r != nil {
			if err := (*r)(cmd); err != nil {
				cmd = &devices.Command{Op: devices.OpHostCall, Tag: cmd.Tag, Call: func(context.Context) error { return err }}
			}
		}
		return q.Submit(cmd, waits)
	})
}

// failing makes n faulty devices.
func failing(n int) ([]devices.Device, []*faulty) {
	var devs []devices.Device
	var fs []*faulty
	for range n {
		f := &faulty{Host: engine.NewHost(engine.HostOptions{})}
		devs, fs = append(devs, f), append(fs, f)
	}
	return devs, fs
}

var errInjected = errors.New("injected")

// stepCopies fails the copies that come from another device.
func stepCopies(cmd *devices.Command) error {
	if cmd.Op == devices.OpCopy && cmd.Src.Device != nil && cmd.Dst.Device != nil && cmd.Src.Device != cmd.Dst.Device {
		return errInjected
	}
	return nil
}

// everything fails all that moves bytes.
func everything(cmd *devices.Command) error {
	if cmd.Op == devices.OpMarker {
		return nil
	}
	return errInjected
}

// gate is a user event that the test opens.
func (h *house) gate() runtime.Event {
	h.t.Helper()
	e, err := h.c.NewUserEvent()
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = e.SetStatus(runtime.Complete) })
	return e
}

// held proves that a command has not ended though everything else had the time
// to: an unrelated command goes through each queue first.
func (h *house) held(e runtime.Event) {
	h.t.Helper()
	for range 3 {
		b := h.buffer(8, nil)
		for _, d := range h.devs {
			q, err := h.c.NewQueue(d, runtime.QueueOptions{})
			require.NoError(h.t, err)
			h.ok(q.EnqueueFill(soon(h.t), b, []byte{1}, 0, 8))
			require.NoError(h.t, q.Finish(soon(h.t)))
			require.NoError(h.t, q.Close())
		}
	}
	s, err := e.Status()
	require.NoError(h.t, err)
	require.Greater(h.t, s, runtime.Complete, "the command ran though it had to wait")
}

func (h *house) done(e runtime.Event) {
	h.t.Helper()
	require.NoError(h.t, e.Wait(soon(h.t)))
}

var outOfOrder = runtime.QueueOptions{OutOfOrder: true}

func TestReadersOfTheSameBytesRunAtOnceAndAWriterWaitsForThem(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, bytes.Repeat([]byte{1}, 64))
	gate := h.gate()
	r1, r2 := make([]byte, 64), make([]byte, 64)
	first := h.ok(q.EnqueueRead(ctx, b, 0, r1, gate))
	second := h.ok(q.EnqueueRead(ctx, b, 0, r2))
	h.done(second)
	h.held(first)
	writer := h.ok(q.EnqueueFill(ctx, b, []byte{2}, 0, 64))
	later := h.ok(q.EnqueueRead(ctx, b, 32, r2[:32]))
	h.held(writer)
	h.held(later)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.done(later)
	h.done(writer)
	require.Equal(t, bytes.Repeat([]byte{1}, 64), r1, "the reader saw a later writer")
	require.Equal(t, bytes.Repeat([]byte{2}, 32), r2[:32])
}

func TestAReaderOfBytesNeverWrittenHoldsBackNoOther(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	a, b := h.buffer(64, bytes.Repeat([]byte{1}, 64)), h.buffer(64, nil)
	gate := h.gate()
	first := h.ok(h.q[0].EnqueueRead(ctx, a, 0, make([]byte, 64), gate))
	second := h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost)) // behind it
	m, err := h.q[1].Map(ctx, b, 0, 64, runtime.MapRead)
	require.NoError(t, err, "the map waits for a reader")
	h.ok(h.q[1].EnqueueUnmap(ctx, m))
	writer := h.ok(h.q[1].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost|runtime.ContentUndefined))
	h.held(first)
	h.held(second)
	h.held(writer)
}

func TestReadersOnSeveralDevicesDoNotWaitForEachOther(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	ctx := soon(t)
	b := h.buffer(64, bytes.Repeat([]byte{1}, 64))
	gate := h.gate()
	got := make([]byte, 64)
	first := h.ok(h.q[0].EnqueueRead(ctx, b, 0, make([]byte, 64), gate))
	h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, got)))
	h.done(h.ok(h.q[1].EnqueueFill(ctx, b, []byte{2}, 0, 64))) // on another memory than the reader's: no need to wait
	h.held(first)
	require.Equal(t, bytes.Repeat([]byte{1}, 64), got)
}

func TestAMigrationRunsWhileUnrelatedCommandsDo(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{}) // in order
	ctx := soon(t)
	a, b := h.buffer(64, nil), h.buffer(64, nil)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, a, []byte{3}, 0, 64)))
	gate := h.gate()
	busy := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{4}, 0, 64, gate)) // holds the whole of device 1's queue
	got := make([]byte, 64)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, a, 0, got))) // needs a copy from device 1
	require.Equal(t, bytes.Repeat([]byte{3}, 64), got)
	h.held(busy)
}

func TestAMigrationStartsBeforeItsCommandMay(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, runtime.QueueOptions{})
	ctx := soon(t)
	a := h.buffer(64, nil)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, a, []byte{3}, 0, 64)))
	gate := h.gate()
	e := h.ok(h.q[1].EnqueueRead(ctx, a, 0, make([]byte, 64), gate))
	step := h.rec.Commands()[1].Steps[0].Point
	require.NoError(t, step.Wait(ctx), "the copy waits for what only the command has to wait for")
	h.held(e)
}

func TestAGatedStepDoesNotHoldUpAnUnrelatedOne(t *testing.T) {
	for _, noPeer := range []bool{false, true} {
		h := build(t, runtime.Options{Devices: memories(2), NoPeer: noPeer}, outOfOrder)
		ctx := soon(t)
		a, b := h.buffer(64, nil), h.buffer(64, nil)
		gate := h.gate()
		h.ok(h.q[0].EnqueueFill(ctx, a, []byte{1}, 0, 64, gate))
		h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{2}, 0, 64)))
		gotA, gotB := make([]byte, 64), make([]byte, 64)
		behind := h.ok(h.q[1].EnqueueRead(ctx, a, 0, gotA)) // its copy waits for the gated fill
		h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, gotB)))   // its copy follows through the same hidden queue
		require.Equal(t, bytes.Repeat([]byte{2}, 64), gotB)
		h.held(behind)
		require.NoError(t, gate.SetStatus(runtime.Complete))
		h.done(behind)
		require.Equal(t, bytes.Repeat([]byte{1}, 64), gotA)
	}
}

func TestAFailedCopyWithdrawsItsPromiseAndNothingElse(t *testing.T) {
	devs, fs := failing(2)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx := soon(t)
	b := h.buffer(64, nil)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, b, []byte{5}, 0, 64)))
	hook := stepCopies
	fs[0].fail.Store(&hook)
	fs[1].fail.Store(&hook)
	got := make([]byte, 64)
	e := h.ok(h.q[1].EnqueueRead(ctx, b, 0, got))
	err := e.Wait(ctx)
	require.ErrorIs(t, err, mem.ErrDependency)
	require.ErrorIs(t, err, errInjected, "the first cause")
	s, err := e.Status()
	require.NoError(t, err)
	require.Equal(t, runtime.ExecStatus(mem.ExecStatusErrorInWaitList), s)
	require.NoError(t, h.c.Check())
	seg, err := b.Segments()
	require.NoError(t, err)
	require.Len(t, seg, 1)
	require.Equal(t, mem.SetOf(1), seg[0].Valid, "only the source is fresh")
	require.Nil(t, seg[0].Poison)

	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{5}, 64), got)
	fs[0].fail.Store(nil)
	fs[1].fail.Store(nil)
	clear(got)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, b, 0, got))) // copies again
	require.Equal(t, bytes.Repeat([]byte{5}, 64), got)
}

func TestAFailedWritePoisonsItsBytesAndNoNewerOnes(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	ctx := soon(t)
	b := h.buffer(100, bytes.Repeat([]byte{9}, 100))
	gate := h.gate()
	lost := h.ok(h.q[0].EnqueueFill(ctx, b, []byte{1}, 0, 80, gate))
	newer := h.ok(h.q[1].EnqueueFill(ctx, b, []byte{2}, 50, 10))
	read := h.ok(h.q[1].EnqueueRead(ctx, b, 0, make([]byte, 50)))
	require.NoError(t, gate.SetStatus(-42))
	err := lost.Wait(ctx)
	require.ErrorIs(t, err, mem.ErrDependency)
	require.ErrorContains(t, err, "-42")
	h.done(newer)
	require.ErrorIs(t, read.Wait(ctx), mem.ErrDependency, "a reader of what was never written")
	require.NoError(t, h.c.Check())

	got := make([]byte, 20)
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 80, got)))
	require.Equal(t, bytes.Repeat([]byte{9}, 20), got, "bytes that the failed command did not write")
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 50, got[:10])))
	require.Equal(t, bytes.Repeat([]byte{2}, 10), got[:10], "newer bytes")
	for _, r := range []mem.Range{{Start: 0, End: 50}, {Start: 60, End: 80}, {Start: 79, End: 81}} {
		_, err = h.q[1].EnqueueRead(ctx, b, r.Start, make([]byte, r.Size()))
		require.ErrorIs(t, err, mem.ErrPoisoned, r)
		require.Equal(t, mem.ExecStatusErrorInWaitList, mem.StatusOf(err))
	}
	h.done(h.ok(h.q[1].EnqueueFill(ctx, b, []byte{3}, 0, 80))) // a complete write clears it
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 60, got)))
	require.Equal(t, bytes.Repeat([]byte{3}, 20), got)
}

func TestAFullOverwriteBehindAFailedReaderSucceeds(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, bytes.Repeat([]byte{1}, 64))
	gate := h.gate()
	reader := h.ok(q.EnqueueRead(ctx, b, 0, make([]byte, 64), gate))
	over := h.ok(q.EnqueueFill(ctx, b, []byte{2}, 0, 64))
	h.held(over)
	require.NoError(t, gate.SetStatus(-1))
	require.Error(t, reader.Wait(ctx))
	h.done(over)
	got := make([]byte, 64)
	h.done(h.ok(q.EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{2}, 64), got)
}

func TestAFailureThatIsKnownBeforeTheCommitIsSettledAfterIt(t *testing.T) {
	devs, fs := failing(1)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b, err := h.c.CreateNamedBuffer("weights", 64, 0, bytes.Repeat([]byte{1}, 64))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Release()) })
	gate := h.gate()
	require.NoError(t, gate.SetStatus(-7))
	e := h.ok(q.EnqueueFill(ctx, b, []byte{2}, 0, 32, gate)) // fails perhaps inside Submit
	require.Error(t, e.Wait(ctx))
	require.NoError(t, h.c.Check())
	_, err = q.EnqueueRead(ctx, b, 0, make([]byte, 8))
	require.ErrorIs(t, err, mem.ErrPoisoned)
	require.ErrorContains(t, err, "buffer weights: bytes [0,8) hold version 2, lost when")
	hook := everything
	fs[0].fail.Store(&hook)
	e = h.ok(q.EnqueueFill(ctx, b, []byte{2}, 0, 64))
	require.ErrorIs(t, e.Wait(ctx), errInjected)
	fs[0].fail.Store(nil)
	_, err = q.EnqueueRead(ctx, b, 40, make([]byte, 8))
	require.ErrorIs(t, err, mem.ErrPoisoned)
}

func TestABufferReleasedInUseIsFreedAfterItsLastPoint(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2)}, outOfOrder)
	ctx := soon(t)
	b, err := h.c.CreateBuffer(1<<20, 0, bytes.Repeat([]byte{1}, 1<<20))
	require.NoError(t, err)
	sub, err := b.Sub(1<<19, 1<<19, 0)
	require.NoError(t, err)
	gate := h.gate()
	got := make([]byte, 1<<19)
	e := h.ok(h.q[0].EnqueueRead(ctx, sub, 0, got, gate))
	live := func(m mem.MemoryID) int { return h.c.Resource(m).Stats().Blocks }
	require.NoError(t, b.Release())
	require.Equal(t, []int{1, 1, 0}, []int{live(0), live(1), live(2)}, "a sub-buffer keeps its root")
	h.done(h.ok(h.q[1].EnqueueRead(ctx, sub, 0, make([]byte, 1<<19))))
	require.NoError(t, sub.Release())
	require.NoError(t, h.c.Check())
	require.Positive(t, h.c.Resource(1).Stats().Pending, "the block is in use")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.done(e)
	require.Equal(t, bytes.Repeat([]byte{1}, 1<<19), got)
	for m := range mem.MemoryID(3) {
		require.Eventually(t, func() bool { s := h.c.Resource(m).Stats(); return s.Pending == 0 && s.Blocks == 0 }, 10*time.Second, time.Millisecond, m)
	}
}
