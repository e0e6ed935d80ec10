//go:build cgo

package opencl_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

// leg is a copy between a block and bytes of this process, as a driver was given it.
type leg struct {
	off, at, size uint64 // into the block; the address of the bytes
	in            bool   // into the block
	locked        bool   // the bytes are page-locked for the device across the bus
}

// tap notes the copies that the queues of a device are given.
type tap struct {
	device devices.Device // as the context knows it
	inner  devices.Device // as the driver does
	locked func(addr, size uint64) bool

	mu   sync.Mutex
	legs []leg // protected by mu
}

// note notes a copy.
func (t *tap) note(dst, src *devices.Loc, size uint64) {
	l, bytes := leg{off: dst.Off, size: size, in: true}, src.Bytes
	if dst.Device == nil {
		l.off, l.in, bytes = src.Off, false, dst.Bytes
	}
	l.at = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bytes))))
	l.locked = t.locked(l.at, size)
	t.mu.Lock()
	t.legs = append(t.legs, l)
	t.mu.Unlock()
}

// unwrap names the device as its driver knows it.
func (t *tap) unwrap(locs ...*devices.Loc) {
	for _, loc := range locs {
		if loc.Device == t.device {
			loc.Device = t.inner
		}
	}
}

func (t *tap) taken() []leg {
	t.mu.Lock()
	defer t.mu.Unlock()
	legs := t.legs
	t.legs = nil
	slices.SortFunc(legs, func(a, b leg) int { return int(a.off) - int(b.off) })
	return legs
}

func (t *tap) submit(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	c := *cmd
	if c.Op == devices.OpCopy {
		t.note(&c.Dst, &c.Src, c.Size)
	}
	t.unwrap(&c.Dst, &c.Src)
	return q.Submit(&c, waits)
}

// The two devices keep what else they are (devices.PageLocker and so on).
type (
	tappedTCE struct {
		*tce.Device
		tap
	}
	tappedTCEQueue struct {
		devices.Queue
		tap *tap
	}
	tappedCL struct {
		*opencl.Device
		tap
	}
	tappedCLQueue struct {
		*opencl.Queue
		tap *tap
	}
)

func (d *tappedTCE) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	return &tappedTCEQueue{q, &d.tap}, err
}

func (q *tappedTCEQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	return q.tap.submit(q.Queue, cmd, waits)
}

func (d *tappedCL) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	q, err := d.Device.NewQueue(o)
	if err != nil {
		return nil, err
	}
	return &tappedCLQueue{q.(*opencl.Queue), &d.tap}, nil
}

func (q *tappedCLQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	return q.tap.submit(q.Queue, cmd, waits)
}

func (q *tappedCLQueue) Start(dst, src devices.Loc, size uint64) (devices.Ticket, error) {
	q.tap.note(&dst, &src, size)
	q.tap.unwrap(&dst, &src)
	return q.Queue.Start(dst, src, size)
}

// openTapped opens a simulated accelerator and a device of PoCL's that counts as across a bus.
func openTapped(t *testing.T) (*tappedTCE, *tappedCL) {
	devs, err := devices.Open(context.Background(), "opencl", devices.Config{Params: map[string]string{"bus": "on", "count": "1"}})
	if err != nil {
		t.Skipf("no OpenCL here: %v", err)
	}
	x, err := tce.New(tce.Options{Name: "tce", Memory: 16 << 20})
	require.NoError(t, err)
	a, b := &tappedTCE{Device: x}, &tappedCL{Device: devs[0].(*opencl.Device)}
	a.tap.device, a.tap.inner, a.tap.locked = a, x, b.Locked
	b.tap.device, b.tap.inner, b.tap.locked = b, b.Device, b.Locked
	return a, b
}

// TestBetweenTCEAndADiscreteDeviceBytesAreStagedOnce: each byte goes into page-locked memory by one
// leg and out of the same place by another, in both directions, and by no other.
func TestBetweenTCEAndADiscreteDeviceBytesAreStagedOnce(t *testing.T) {
	bg := context.Background()
	accelerator, gpu := openTapped(t)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{accelerator, gpu}, OwnDevices: true})
	require.NoError(t, err)
	var qs []*runtime.Queue
	for _, d := range []devices.Device{accelerator, gpu} {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		qs = append(qs, q)
	}
	const n = 3<<20 + 20
	b, err := c.CreateBuffer(n, 0, nil)
	require.NoError(t, err)
	taps := []*tap{&accelerator.tap, &gpu.tap}
	var got []byte
	for round := range 4 {
		from, to := round%2, 1-round%2
		_, err := qs[from].EnqueueFill(bg, b, []byte{byte(round), 1, 2, 3}, 0, n)
		require.NoError(t, err)
		require.NoError(t, qs[from].Finish(bg))
		taps[0].taken()
		taps[1].taken()
		moved := c.Stats().BytesMoved
		e, err := qs[to].EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)
		require.NoError(t, err)
		require.NoError(t, e.Wait(bg))
		require.EqualValues(t, n, c.Stats().BytesMoved-moved)
		stagedOnce(t, taps[from].taken(), taps[to].taken(), n)

		got = make([]byte, n)
		e, err = qs[to].EnqueueRead(bg, b, 0, got)
		require.NoError(t, err)
		require.NoError(t, e.Wait(bg))
		require.True(t, bytes.Equal(bytes.Repeat([]byte{byte(round), 1, 2, 3}, n/4), got))
	}
	require.Zero(t, c.MoverStats().Unlocked)
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(bg))
}

// stagedOnce tests that the legs out of one device and into another move n bytes through
// page-locked memory: the reads tile them, and each write takes what one read has brought.
func stagedOnce(t *testing.T, reads, writes []leg, n uint64) {
	require.Len(t, writes, len(reads))
	at := uint64(0)
	for i := range reads {
		r, w := reads[i], writes[i]
		require.Equal(t, leg{off: at, at: r.at, size: r.size, locked: true}, r)
		require.Equal(t, leg{off: at, at: r.at, size: r.size, in: true, locked: true}, w)
		at += r.size
	}
	require.Equal(t, n, at)
}
