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
	e := must(h.c.NewUserEvent())
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
			q := h.queue(d, runtime.QueueOptions{})
			h.ok(q.EnqueueFill(soon(h.t), b, []byte{1}, 0, 8))
			require.NoError(h.t, q.Finish(soon(h.t)))
			require.NoError(h.t, q.Close())
		}
	}
	s := must(e.Status())
	require.Greater(h.t, s, runtime.Complete, "the command ran though it had to wait")
}

func (h *house) done(e runtime.Event) {
	h.t.Helper()
	require.NoError(h.t, e.Wait(soon(h.t)))
}

var outOfOrder = runtime.QueueOptions{OutOfOrder: true}

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

func TestAFailureThatIsKnownBeforeTheCommitIsSettledAfterIt(t *testing.T) {
	devs, fs := failing(1)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx, q := soon(t), h.q[0]
	b := must(h.c.CreateNamedBuffer("weights", 64, 0, bytes.Repeat([]byte{1}, 64)))
	t.Cleanup(func() { require.NoError(t, b.Release()) })
	gate := h.gate()
	require.NoError(t, gate.SetStatus(-7))
	e := h.ok(q.EnqueueFill(ctx, b, []byte{2}, 0, 32, gate)) // fails perhaps inside Submit
	require.Error(t, e.Wait(ctx))
	require.NoError(t, h.c.Check())
	_, err := q.EnqueueRead(ctx, b, 0, make([]byte, 8))
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
	b := h.create(1<<20, 0, bytes.Repeat([]byte{1}, 1<<20))
	sub := must(b.Sub(1<<19, 1<<19, 0))
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

func TestARefusedCommandGivesItsNewBlocksBack(t *testing.T) {
	devs, fs := failing(2)
	h := build(t, runtime.Options{Devices: devs}, outOfOrder)
	ctx := soon(t)
	blocks := func() [2]int { return [2]int{h.c.Resource(1).Stats().Blocks, h.c.Resource(2).Stats().Blocks} }
	a, b := h.buffer(64, nil), h.buffer(64, nil)
	h.done(h.ok(h.q[0].EnqueueFill(ctx, a, []byte{4}, 0, 64)))
	require.Equal(t, [2]int{1, 0}, blocks())
	refuse := func(cmd *devices.Command) error {
		if stepCopies(cmd) != nil {
			return nil
		}
		return errInjected
	}
	fs[1].refuse.Store(&refuse)
	_, err := h.q[1].EnqueueCopy(ctx, a, b, 0, 0, 64) // the copy of a is accepted, the command is not
	require.ErrorIs(t, err, errInjected)
	require.NoError(t, h.c.Check())
	require.Equal(t, [2]int{1, 1}, blocks(), "a is copied, nobody needs b there")
	seg := must(a.Segments())
	require.Equal(t, mem.SetOf(1, 2), seg[0].Valid, "a good copy")
	_, err = h.q[1].EnqueueFill(ctx, b, []byte{1}, 0, 64)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, [2]int{1, 1}, blocks())
	fs[1].refuse.Store(nil)
	got := make([]byte, 64)
	h.done(h.ok(h.q[1].EnqueueRead(ctx, a, 0, got)))
	require.Equal(t, bytes.Repeat([]byte{4}, 64), got)
	require.Equal(t, uint64(64), h.c.Stats().BytesMoved)
}
