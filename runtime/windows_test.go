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
	"godwit/devices/tce"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// windowsFrom is the size of the smallest block that lies in a window in these tests.
const windowsFrom = 64 << 10

// linkedHouse is a context over n devices with links between them, which are open.
func linkedHouse(t *testing.T, devs []devices.Device) *house {
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	b := h.buffer(windowsFrom, bytes.Repeat([]byte{7}, windowsFrom))
	h.filled(0, b, 1)
	require.Equal(t, bytes.Repeat([]byte{1}, windowsFrom), h.migrated(b, 1))
	require.NoError(t, h.c.OpenLinks(soon(h.t)))
	return h
}

func windowedDevices(t *testing.T, n int) (devs []devices.Device) {
	for range n {
		d := must(tce.New(tce.Options{Windows: windowsFrom}))
		devs = append(devs, d)
	}
	return devs
}

func (h *house) filled(device int, b *runtime.Buffer, v byte) {
	h.done(h.ok(h.q[device].EnqueueFill(soon(h.t), b, []byte{v}, 0, b.Size())))
}

// migrated is a buffer's content, which is brought to a device and read from there.
func (h *house) migrated(b *runtime.Buffer, device int) []byte {
	h.ok(h.q[device].EnqueueMigrate(soon(h.t), []*runtime.Buffer{b}, 0))
	got := make([]byte, b.Size())
	h.done(h.ok(h.q[device].EnqueueRead(soon(h.t), b, 0, got)))
	return got
}

func TestCopiesBetweenWindowsGoOverTheLinkAndOthersByWindow(t *testing.T) {
	h := linkedHouse(t, windowedDevices(t, 3))
	for _, size := range []uint64{1, 4097, windowsFrom - 1, windowsFrom, 300_001, 8<<20 + 5} {
		b := h.buffer(size, nil)
		for i := range byte(6) {
			from, to := int(i)%3, int(i+1+i/3)%3
			h.filled(from, b, i+1)
			before := h.c.MoverStats()
			require.True(t, bytes.Equal(bytes.Repeat([]byte{i + 1}, int(size)), h.migrated(b, to)), "%d bytes from %d to %d", size, from, to)
			after := h.c.MoverStats()
			require.EqualValues(t, 1, after.Linked-before.Linked, "%d bytes, round %d, %+v", size, i, after)
			require.Equal(t, before.Rings, after.Rings)
			if size >= windowsFrom {
				require.EqualValues(t, 1, after.Legs-before.Legs, "both blocks are windows")
			} else {
				require.EqualValues(t, 3, after.Legs-before.Legs, "into a window, over the link, and out of that there")
			}
		}
		require.NoError(t, b.Release())
	}
	require.NoError(t, h.c.Check())
}

// What is evicted goes to the host until links are open, and has them opened: else a program
// that uses one device of two would never get to the other's memory.
func TestEvictionOpensTheLink(t *testing.T) {
	host := mem.DirectLink(time.Millisecond, 1<<30)
	h := build(t, runtime.Options{
		Devices: windowedDevices(t, 2), Caps: []uint64{0, 4 * windowsFrom}, Links: []runtime.Link{{From: 0, To: 1, Link: host}, {From: 1, To: 0, Link: host}},
	}, runtime.QueueOptions{})
	var all []*runtime.Buffer
	for range 12 {
		all = append(all, h.buffer(windowsFrom, nil))
	}
	sweep := func() bool {
		for i, b := range all {
			h.filled(0, b, byte(i))
		}
		return h.c.MoverStats().Linked > 0
	}
	ctx, over := soon(t), false
	for !over && ctx.Err() == nil {
		over = sweep()
	}
	require.True(t, over, "a block leaves over the link")
	for i, b := range all {
		require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(i)}, windowsFrom), h.migrated(b, 0)))
		require.NoError(t, b.Release())
	}
	require.NoError(t, h.c.Check())
}

func TestSeveralDestinationsGetTheirBytesFromEachOther(t *testing.T) {
	var s devicetest.Submits
	devs := windowedDevices(t, 4)
	for i := range devs {
		devs[i] = devicetest.FailNth(devs[i], &s)
	}
	h := linkedHouse(t, devs)
	for _, size := range []uint64{windowsFrom - 3, 1 << 20} {
		b := h.buffer(size, nil)
		for n := 1; ; n++ {
			h.filled(0, b, byte(n))
			before := h.c.MoverStats()
			s.Fail(n)
			e, err := h.q[0].EnqueueMigrateTo(soon(h.t), []*runtime.Buffer{b}, []mem.MemoryID{2, 3, 4})
			if err == nil {
				_ = e.Wait(soon(h.t)) // its copies may have failed; reads say what there is
				require.NoError(t, e.Release())
			}
			done := s.Count() < n
			s.Fail(0)
			if done && size < windowsFrom {
				require.EqualValues(t, 1, h.c.MoverStats().Linked-before.Linked, "one transfer for all")
			}
			for i := range devs {
				require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(n)}, int(size)), h.migrated(b, i)), "submit %d, device %d", n, i)
			}
			require.NoError(t, h.c.Check())
			if done {
				require.Greater(t, n, 3)
				break
			}
		}
	}
}

// TestDestinationsThatAreStillReadShareATransfer has what several devices are sent be read there when it is sent again.
func TestDestinationsThatAreStillReadShareATransfer(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	stays := &devices.Program{Name: "stays", Go: []devices.GoKernel{{
		Name: "stays", Args: []devices.ArgInfo{{Name: "b", Kind: devices.ArgBuffer, Access: mem.Read}},
		Func: func(*work.Group) { began <- struct{}{}; <-end },
	}}}
	for _, gated := range []bool{false, true} {
		h := linkedHouse(t, windowedDevices(t, 4))
		k := must(must(h.c.Build(soon(t), stays)).Kernel("stays"))
		b, to := h.buffer(windowsFrom-3, nil), []mem.MemoryID{2, 3, 4}
		h.filled(0, b, 1)
		h.done(h.ok(h.q[0].EnqueueMigrateTo(soon(t), []*runtime.Buffer{b}, to)))
		for _, q := range h.q[1:3] {
			h.ok(q.EnqueueLaunch(soon(t), runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.In(b)}}))
			<-began
		}
		if gated {
			h.gate()
		}
		before := h.c.MoverStats().Linked
		h.filled(0, b, 2)
		again := h.ok(h.q[0].EnqueueMigrateTo(soon(t), []*runtime.Buffer{b}, to))
		end <- struct{}{}
		end <- struct{}{}
		h.done(again)
		require.EqualValues(t, map[bool]uint64{false: 1, true: 3}[gated], h.c.MoverStats().Linked-before, "gated: %t", gated)
		for i := range h.q {
			require.True(t, bytes.Equal(bytes.Repeat([]byte{2}, windowsFrom-3), h.migrated(b, i)))
		}
	}
}

// cutOff is a device whose links can be lost, by the next copy over one too.
type cutOff struct {
	*tce.Device
	lost, next *atomic.Bool
}

var errCut = errors.New("somebody has pulled the cable")

func (c *cutOff) Unwrap() devices.Device { return c.Device }

func (c *cutOff) Windows(ctx context.Context, d devices.Device) error {
	return c.Device.Windows(ctx, devicetest.Unwrap(d))
}

func (c *cutOff) Connect(ctx context.Context, d devices.Device) error {
	return c.Device.Connect(ctx, devicetest.Unwrap(d))
}

func (c *cutOff) Connected(d devices.Device) error {
	if c.lost.Load() {
		return errCut
	}
	return c.Device.Connected(devicetest.Unwrap(d))
}

// NewQueue is of queues that refuse what would go over a link that is lost.
func (c *cutOff) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return devicetest.Tap(c.Device, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if d := cmd.Src.Device; d != nil && d != devices.Device(c.Device) && (c.lost.Load() || c.next.Swap(false)) {
			c.lost.Store(true)
			return mem.Point{}, errCut
		}
		return q.Submit(cmd, waits)
	})
}

func TestAfterALinkIsLostCopiesGoThroughTheHost(t *testing.T) {
	for _, how := range []string{"before a copy", "while it is accepted"} {
		t.Run(how, func(t *testing.T) {
			lost, next := new(atomic.Bool), new(atomic.Bool)
			var devs []devices.Device
			for _, d := range windowedDevices(t, 2) {
				devs = append(devs, &cutOff{d.(*tce.Device), lost, next})
			}
			cut := lost
			if how != "before a copy" {
				cut = next
			}
			afterALinkIsLost(t, linkedHouse(t, devs), cut)
		})
	}
}

func afterALinkIsLost(t *testing.T, h *house, cut *atomic.Bool) {
	b := h.buffer(1<<20, nil)
	h.filled(0, b, 1)
	require.Equal(t, bytes.Repeat([]byte{1}, 1<<20), h.migrated(b, 1))
	before := h.c.MoverStats()
	cut.Store(true)
	h.filled(0, b, 2)
	require.Equal(t, bytes.Repeat([]byte{2}, 1<<20), h.migrated(b, 1), "the copy is planned again")
	after := h.c.MoverStats()
	require.Equal(t, before.Linked, after.Linked)
	require.EqualValues(t, 1, after.Rings-before.Rings)
	h.filled(1, b, 3)
	require.Equal(t, bytes.Repeat([]byte{3}, 1<<20), h.migrated(b, 0))
	require.NoError(t, h.c.Check())
}

// TestAfterALinkIsLostCopiesThatGiveWayGoThroughTheHost, at once or, where a piece has found it out, but for the copy that it was of.
func TestAfterALinkIsLostCopiesThatGiveWayGoThroughTheHost(t *testing.T) {
	for _, during := range []bool{false, true} {
		lost, next := new(atomic.Bool), new(atomic.Bool)
		var devs []devices.Device
		for _, d := range windowedDevices(t, 2) {
			devs = append(devs, &cutOff{d.(*tce.Device), lost, next})
		}
		h := linkedHouse(t, devs)
		h.q[1] = h.queue(devs[1], runtime.QueueOptions{Priority: devices.PriorityLow})
		b := h.buffer(1<<20, nil)
		if during {
			h.filled(0, b, 1)
			next.Store(true)
			e := h.ok(h.q[1].EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0))
			require.ErrorIs(t, e.Wait(soon(t)), errCut)
			require.NoError(t, e.Release())
		}
		lost.Store(true)
		h.filled(0, b, 2)
		require.Equal(t, bytes.Repeat([]byte{2}, 1<<20), h.migrated(b, 1))
		require.NotZero(t, h.c.MoverStats().Yielded)
		require.NoError(t, h.c.Check())
	}
}

// slowLink is a device whose links take their time.
type slowLink struct {
	*cutOff
	connect func(ctx context.Context) error // called first
}

func (d *slowLink) Connect(ctx context.Context, o devices.Device) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	return d.cutOff.Connect(ctx, o)
}

// worthIt is the size of a copy that waits for its link.
const worthIt = 64 << 20

// slowlyLinked is a context over two devices whose links take their time, and a buffer on the first that is worth to wait.
func slowlyLinked(t *testing.T, connect func(context.Context) error) (*house, *runtime.Buffer) {
	var devs []devices.Device
	for _, d := range windowedDevices(t, 2) {
		devs = append(devs, &slowLink{&cutOff{d.(*tce.Device), new(atomic.Bool), new(atomic.Bool)}, connect})
	}
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	b := h.buffer(worthIt, nil)
	h.filled(0, b, 1)
	return h, b
}

func never(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestTheFirstLargeCopyWaitsForItsLinkAndHoldsNoLock(t *testing.T) {
	var h *house
	h, b := slowlyLinked(t, func(context.Context) error {
		h.filled(0, h.buffer(64, nil), 1) // while somebody waits
		return nil
	})
	require.True(t, bytes.Equal(bytes.Repeat([]byte{1}, worthIt), h.migrated(b, 1)))
	require.Zero(t, h.c.MoverStats().Rings)
	require.EqualValues(t, 1, h.c.MoverStats().Linked)
	require.NoError(t, h.c.Check())
}

func TestCopiesWaitForLinksOnceAndNotForLong(t *testing.T) {
	h, b := slowlyLinked(t, never)
	brief, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	_, err := h.q[1].EnqueueMigrate(brief, []*runtime.Buffer{b}, 0)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded, "it would wait")
	require.True(t, bytes.Equal(bytes.Repeat([]byte{1}, worthIt), h.migrated(b, 1)))
	require.EqualValues(t, 1, h.c.MoverStats().Rings)
	h.filled(1, b, 2)
	h.ok(h.q[0].EnqueueMigrate(context.Background(), []*runtime.Buffer{b}, 0)) // nobody waits any more
	require.EqualValues(t, 2, h.c.MoverStats().Rings)
	require.NoError(t, h.c.Check())
}

func TestCloseEndsTheWaitForALink(t *testing.T) {
	var h *house
	closed := make(chan error)
	h, b := slowlyLinked(t, func(ctx context.Context) error {
		go func() { closed <- h.c.Close(context.Background()) }()
		return never(ctx)
	})
	_, err := h.q[1].EnqueueMigrate(soon(t), []*runtime.Buffer{b}, 0)
	require.ErrorIs(t, err, mem.ErrInvalidContext)
	require.ErrorIs(t, <-closed, runtime.ErrLeak, "the buffer")
	h.closed = true
}

func TestAContextClosesWhileItsLinksAreBeingOpened(t *testing.T) {
	for range 20 {
		h := build(t, runtime.Options{Devices: windowedDevices(t, 2)}, runtime.QueueOptions{})
		b := h.buffer(1<<20, nil)
		h.filled(0, b, 1)
		h.ok(h.q[1].EnqueueMigrate(soon(h.t), []*runtime.Buffer{b}, 0))
		require.NoError(t, b.Release())
		require.NoError(t, h.c.Close(soon(t)))
		h.closed = true
	}
}

func TestWithoutPeersThereAreNoLinks(t *testing.T) {
	h := build(t, runtime.Options{Devices: windowedDevices(t, 2), NoPeer: true}, runtime.QueueOptions{})
	b := h.buffer(1<<20, nil)
	h.filled(0, b, 1)
	require.Equal(t, bytes.Repeat([]byte{1}, 1<<20), h.migrated(b, 1))
	require.ErrorIs(t, h.c.OpenLinks(soon(h.t)), mem.ErrInvalidOperation)
	require.Zero(t, h.c.MoverStats().Linked)
}
