//go:build unix

// Only here can a test take memory away from a process.

package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/eviction"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// lend is memory of the test's, a mapping of its own; back makes any touch of it from then on a
// fault, which ends the process.
func lend(t *testing.T, size int) (lent []byte, back func()) {
	lent, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	return lent, func() { require.NoError(t, unix.Mprotect(lent, unix.PROT_NONE)) }
}

// leaving is a context over a held device, and a buffer over lent memory that is being written
// back there, since another has taken its place: the copy has not begun.
type leaving struct {
	*house
	hold *devicetest.Hold
	b    *runtime.Buffer
	back func()
}

func leave(t *testing.T, d devices.Device) *leaving {
	l := &leaving{hold: devicetest.NewHold(d)}
	l.house = build(t, runtime.Options{Devices: []devices.Device{l.hold}, Policy: eviction.LRU{}}, outOfOrder)
	t.Cleanup(func() { l.hold.Release() })
	lent, back := lend(t, room)
	l.b = must(l.c.CreateBuffer(room, runtime.UseHostPtr, lent))
	l.back = back
	l.ended(l.paint(l.q[0], l.b, 1))
	for range 3 {
		l.ended(l.paint(l.q[0], l.buffer(room, nil), 2))
	}
	return l
}

// press has the buffer leave.
func (l *leaving) press() {
	l.hold.Hold()
	l.paint(l.q[0], l.buffer(room, nil), 3)
	gone := l.evictions()
	require.Len(l.t, gone, 1)
	require.Equal(l.t, l.b.ID(), gone[0].Buffer)
	require.Len(l.t, gone[0].Backs, 1)
}

// untilLetGo tests that f does not return before the device is let go.
func untilLetGo(t *testing.T, hold *devicetest.Hold, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		t.Fatalf("returned before a copy had ended that touches lent memory: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.Positive(t, hold.Release())
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-soon(t).Done():
		t.Fatal("it waits for something else")
	}
}

func TestLentMemoryIsNotTouchedAfterTheCallThatEndsItsBuffer(t *testing.T) { // C13
	for name, ends := range map[string]func(l *leaving) (last func() error){
		"its release": func(l *leaving) func() error {
			l.press()
			return l.b.Release
		},
		"the release of a part": func(l *leaving) func() error {
			part, err := l.b.Sub(0, room/2, 0)
			require.NoError(l.t, err)
			l.press()
			require.NoError(l.t, l.b.Release())
			return part.Release
		},
		"the release of a part with a callback": func(l *leaving) func() error {
			part, err := l.b.Sub(0, room/2, 0)
			require.NoError(l.t, err)
			require.NoError(l.t, part.OnRelease(func() {}))
			l.press()
			require.NoError(l.t, l.b.Release())
			return part.Release
		},
		"a map given up": func(l *leaving) func() error {
			l.press()
			m, _, err := l.q[0].EnqueueMap(soon(l.t), l.b, 0, room/2, runtime.MapRead)
			require.NoError(l.t, err)
			require.NoError(l.t, l.b.Release())
			return m.Abandon
		},
		"the end of what it counts": func(l *leaving) func() error {
			counted := l.buffer(room, nil)
			require.NoError(l.t, counted.SetContentSizeBuffer(l.b))
			l.press()
			require.NoError(l.t, l.b.Release())
			return func() error { return counted.SetContentSizeBuffer(nil) }
		},
		"the end of its context": func(l *leaving) func() error {
			l.press()
			l.closed = true
			return func() error {
				if err := l.c.Close(soon(l.t)); !errors.Is(err, runtime.ErrLeak) {
					return err
				}
				return nil
			}
		},
	} {
		for driver, open := range map[string]func() (devices.Device, error){
			"cpu": func() (devices.Device, error) { return cpu.New(cpu.Options{Memory: 4 * room}) },
			"tce": func() (devices.Device, error) { return tce.New(tce.Options{Memory: 4 * room}) },
		} {
			t.Run(driver+" "+name, func(t *testing.T) {
				d, err := open()
				require.NoError(t, err)
				l := leave(t, d)
				untilLetGo(t, l.hold, ends(l))
				l.back()
				if !l.closed {
					require.NoError(t, l.q[0].Finish(soon(t)))
				}
			})
		}
	}
}

// A part with a callback that was released last is no reason to keep the buffer until the
// callback: a shortage would write it back to memory that is the program's again.
func TestABufferEndsWithItsLastReleaseWhateverCallbacksThereAre(t *testing.T) { // C13
	h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
	lent, _ := lend(t, room)
	b := h.create(room, runtime.UseHostPtr, lent)
	part := must(b.Sub(0, room, 0))
	called := make(chan string, 2)
	require.NoError(t, b.OnRelease(func() { called <- "whole" }))
	require.NoError(t, part.OnRelease(func() { called <- "part" }))
	gate := h.gate()
	h.paint(h.q[0], part, 1, gate)
	require.NoError(t, b.Release())
	require.Empty(t, h.released())
	require.NoError(t, part.Release(), "it waits for no user event")
	require.Equal(t, []mem.BufferID{b.ID()}, h.released())
	require.NoError(t, gate.SetStatus(runtime.Complete))
	for _, want := range []string{"part", "whole"} {
		select {
		case name := <-called:
			require.Equal(t, want, name)
		case <-soon(t).Done():
			t.Fatal("a callback is missing")
		}
	}
}

// released lists the buffers that the planner has forgotten.
func (h *house) released() (ids []mem.BufferID) {
	for _, b := range h.rec.Buffers() {
		if b.Released {
			ids = append(ids, b.Buffer)
		}
	}
	return ids
}

// markerless is a device that can be held and refuses markers while no is set.
type markerless struct {
	*devicetest.Hold
	no atomic.Bool
}

func (d *markerless) Unwrap() devices.Device { return d.Hold }

func (d *markerless) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(d.Hold, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if cmd.Op == devices.OpMarker && d.no.Load() {
			return mem.Point{}, errInjected
		}
		return q.Submit(cmd, waits)
	})
}

// The copy of a command that was refused belongs to no command. Where it hangs on a user event
// no release can wait for it, and whoever waits for the buffer's commands afterwards does.
func TestACopyOfLentMemoryThatHangsIsWaitedForWithItsCommands(t *testing.T) { // C13
	for name, wait := range map[string]func(h *house, e runtime.Event) error{
		"finish": func(h *house, _ runtime.Event) error { return h.q[0].Finish(soon(h.t)) },
		"wait":   func(h *house, e runtime.Event) error { return e.Wait(soon(h.t)) },
		"close":  func(h *house, _ runtime.Event) error { return h.q[0].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inner := must(cpu.New(cpu.Options{Memory: 4 * room}))
			d := &markerless{Hold: devicetest.NewHold(inner)}
			h := build(t, runtime.Options{Devices: []devices.Device{d}}, outOfOrder)
			t.Cleanup(func() { d.Release() })
			q := h.q[0]
			lent, back := lend(t, room)
			b := h.create(room, runtime.UseHostPtr, lent)
			h.ended(h.paint(q, b, 1))
			gate := h.gate()
			hung := h.ok(q.EnqueueRead(soon(t), b, 0, make([]byte, room), gate))
			m := must(q.Map(soon(t), b, 0, room, runtime.MapWrite))
			h.ended(h.ok(q.EnqueueUnmap(soon(t), m)))
			d.Hold.Hold()
			d.no.Store(true)
			_, err := q.EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0)
			require.ErrorIs(t, err, errInjected)
			d.no.Store(false)
			require.EqualValues(t, 1, len(h.rec.Commands()[len(h.rec.Commands())-1].Steps), "its copy was accepted")
			require.NoError(t, b.Release())
			now := must(hung.Status())
			require.Equal(t, runtime.Submitted, now)
			require.NoError(t, gate.SetStatus(runtime.Complete))
			untilLetGo(t, d.Hold, func() error { return wait(h, hung) })
			back()
			require.NoError(t, hung.Release())
		})
	}
}

// lateStriker panics as it is told of a command's end, which is while a buffer is released.
type lateStriker struct {
	c        *runtime.Context
	releases atomic.Bool
	release  chan struct{}
}

func (s *lateStriker) Command(*trace.CommandRecord) {}
func (s *lateStriker) Ends() trace.Ends             { return trace.AllEnds }

func (s *lateStriker) Buffer(r *trace.BufferRecord) {
	if r.Released && s.releases.Load() {
		close(s.release)
		for !s.c.HookPanicIsDue() {
			goruntime.Gosched()
		}
		s.releases.Store(false)
	}
}

func (s *lateStriker) Completed(*trace.CompletionRecord) {
	if s.releases.Load() {
		panic(errStruck)
	}
}

// A call that has done something does not panic with what a sink's Completed panicked with: the
// next does.
func TestAReleaseThatWaitsForACopyDoesNotPanicForASink(t *testing.T) { // C13, C14
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	s := &lateStriker{release: make(chan struct{})}
	hold := devicetest.NewHold(d)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: eviction.LRU{}, Trace: s}, outOfOrder)
	t.Cleanup(func() { hold.Release() })
	lent, back := lend(t, room)
	b := h.create(room, runtime.UseHostPtr, lent)
	h.ended(h.paint(h.q[0], b, 1))
	for range 3 {
		h.ended(h.paint(h.q[0], h.buffer(room, nil), 2))
	}
	on := must(h.c.Device(mem.Host))
	host := h.queue(on, runtime.QueueOptions{})
	_ = must(host.EnqueueHostCall(soon(t), func(context.Context) error { <-s.release; return nil }))
	hold.Hold()
	h.paint(h.q[0], h.buffer(room, nil), 3)
	s.c = h.c
	s.releases.Store(true)
	untilLetGo(t, hold, b.Release)
	back()
	require.Panics(t, func() { _ = host.Finish(soon(t)) })
	require.NoError(t, host.Close())
}

// Shared virtual memory is lent by the context, and its addresses serve nobody else while a
// write-back goes there.
func TestFreedSharedMemoryIsNotGivenAgainWhileItIsWrittenBack(t *testing.T) { // C13
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	hold := devicetest.NewHold(d)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: eviction.LRU{}, SVMSize: 1 << 24}, outOfOrder)
	t.Cleanup(func() { hold.Release() })
	q := h.q[0]
	p := must(h.c.SVMAlloc(room, 0, 0))
	over := must(h.c.SVMBytes(p, room))
	b := h.create(room, runtime.UseHostPtr, over)
	h.ended(h.paint(q, b, 1))
	for range 3 {
		h.ended(h.paint(q, h.buffer(room, nil), 2))
	}
	hold.Hold()
	h.paint(q, h.buffer(room, nil), 3)
	require.Len(t, h.evictions(), 1)
	require.NoError(t, b.Release())
	require.NoError(t, h.c.SVMFree(p))
	other := must(h.c.SVMAlloc(room, 0, 0))
	require.NotEqual(t, p, other)
	hold.Release()
	require.NoError(t, q.Finish(soon(t)))
	require.NoError(t, h.c.SVMFree(other))
	require.Eventually(t, func() bool {
		again, err := h.c.SVMAlloc(room, 0, 0)
		return err == nil && h.c.SVMFree(again) == nil && again == p
	}, 10*time.Second, time.Millisecond, "its addresses are given again once that has ended")
}
