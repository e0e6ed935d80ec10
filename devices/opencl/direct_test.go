//go:build cgo

package opencl

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// openDirect opens a device whose memory is this process's, or skips.
func openDirect(t *testing.T) *Device {
	t.Helper()
	d := open(t, 1, nil)[0]
	if !d.direct {
		t.Skipf("device %s keeps its buffers to itself", d.name)
	}
	return d
}

// events is how many events OpenCL has made so far.
func events() int64 {
	created, _ := Objects()
	return created.Events
}

// Transfers of any size, by any way, move the same bytes; OpenCL is given those, and
// only those, that are not to be made here.
func TestTransfersThatNeedNoOpenCLGiveItNothing(t *testing.T) {
	d := openDirect(t)
	const room = 3 * directPiece
	b := alloc(t, d, room)
	for _, opts := range []devices.QueueOptions{{}, {OutOfOrder: true}, {Profiling: true}} {
		q := openQueue(t, d, opts)
		for _, c := range []struct {
			name    string
			size    int
			awaited bool
			held    bool
			here    bool
		}{
			{"small", directAtOnce, false, false, true},
			{"larger", directAtOnce + 1, false, false, false},
			{"one byte, awaited", 1, true, false, true},
			{"awaited", 2*directPiece + 17, true, false, true},
			{"held", directHeld, false, true, true},
			{"held and larger", directHeld + 1, false, true, false},
			{"held and awaited", directHeld + 1, true, true, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				want, got := pattern(c.size, byte(c.size)), make([]byte, c.size)
				before := events()
				for _, cmd := range []*devices.Command{write(d, b, 5, want), read(d, b, 5, got)} {
					cmd.Awaited = c.awaited
					var waits []mem.Wait
					gate := mem.NewTimeline("gate", true, nil)
					if c.held {
						waits = []mem.Wait{{Point: gate.Next(), Kind: mem.Data}}
					}
					p := run(t, q, cmd, waits...)
					if c.held {
						require.False(t, p.Reached())
						gate.End(waits[0].Point, nil)
					}
					finishPoint(t, q, p)
				}
				require.Equal(t, want, got)
				require.Equal(t, c.here && !opts.Profiling, events() == before)
				require.NoError(t, d.Memory().Check())
			})
		}
	}
}

// What is left to a Wait is done by who waits for it, whoever that is, and what comes after it,
// on its queue or another, sees its bytes.
func TestWhatIsLeftToAWaitHoldsBackWhatComesAfterIt(t *testing.T) {
	d := openDirect(t)
	q, other := openQueue(t, d, devices.QueueOptions{}), openQueue(t, d, devices.QueueOptions{OutOfOrder: true})
	const n = directAtOnce + 1
	b := alloc(t, d, n)
	want, first, second := pattern(n, 1), make([]byte, n), make([]byte, n)
	w := write(d, b, 0, want)
	w.Awaited = true
	p := run(t, q, w)
	after := []mem.Point{
		run(t, q, read(d, b, 0, first)),
		run(t, other, read(d, b, 0, second), mem.Wait{Point: p, Kind: mem.Data}),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, other.Wait(ctx, after[1], devices.Park), context.DeadlineExceeded)
	require.False(t, p.Reached() || after[0].Reached() || after[1].Reached())
	finishPoint(t, q, p)
	require.True(t, p.Succeeded())
	finishPoint(t, q, after[0])
	finishPoint(t, other, after[1])
	require.Equal(t, want, first)
	require.Equal(t, want, second)
}

// A transfer that is made here fails as any does where what it waits for failed, and
// has then moved nothing.
func TestAFailedWaitLeavesTheBytesAlone(t *testing.T) {
	d := openDirect(t)
	q := openQueue(t, d, devices.QueueOptions{OutOfOrder: true})
	b := alloc(t, d, 64)
	want, got := pattern(64, 1), make([]byte, 64)
	finishPoint(t, q, run(t, q, write(d, b, 0, want)))
	gate := mem.NewTimeline("gate", true, nil)
	g := gate.Next()
	held := run(t, q, write(d, b, 0, make([]byte, 64)), mem.Wait{Point: g, Kind: mem.Data})
	gate.End(g, errors.New("the gate's"))
	late := run(t, q, write(d, b, 0, make([]byte, 64)), mem.Wait{Point: g, Kind: mem.Data})
	for _, p := range []mem.Point{held, late} {
		require.ErrorIs(t, q.Wait(context.Background(), p, devices.Park), mem.ErrDependency)
	}
	finishPoint(t, q, run(t, q, read(d, b, 0, got)))
	require.Equal(t, want, got)
}

// addsOne is a launch that sets out to in and one more, of a kernel that the test closes.
func addsOne(t *testing.T, d *Device, out, in mem.Block) *devices.Command {
	m, err := d.Build(context.Background(), &devices.Program{Name: "direct", Source: source})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	k, err := m.Kernel("add")
	require.NoError(t, err)
	return &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{16, 1, 1}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: out, Size: 64}, {Kind: devices.ArgBuffer, Block: in, Size: 64}, {Kind: devices.ArgValue, Value: []byte{1, 0, 0, 0}},
	}}
}

// A read in an in-order queue comes after the kernel before it, which OpenCL's own
// queue sees to, awaited or not.
func TestWhatOpenCLOrdersIsNotDoneHereBeforeItsTurn(t *testing.T) {
	d := openDirect(t)
	q := openQueue(t, d, devices.QueueOptions{})
	in, out := alloc(t, d, 64), alloc(t, d, 64)
	addOne := addsOne(t, d, out, in)
	for i := range byte(100) {
		values, got := make([]byte, 64), make([]byte, 64)
		values[0] = i
		run(t, q, write(d, in, 0, values))
		run(t, q, addOne)
		r := read(d, out, 0, got)
		r.Awaited = i%2 == 0
		finishPoint(t, q, run(t, q, r))
		require.Equal(t, i+1, got[0])
	}
}

// Kernels and what is copied here see each other's bytes at once.
func TestKernelsSeeWhatIsCopiedHereAndTheOtherWayRound(t *testing.T) {
	d := openDirect(t)
	q := openQueue(t, d, devices.QueueOptions{})
	in, out := alloc(t, d, 64), alloc(t, d, 64)
	addOne := addsOne(t, d, out, in)
	for i := range byte(50) {
		values, got := make([]byte, 64), make([]byte, 64)
		values[0] = i
		finishPoint(t, q, run(t, q, write(d, in, 0, values)))
		finishPoint(t, q, run(t, q, addOne))
		before := events()
		finishPoint(t, q, run(t, q, read(d, out, 0, got)))
		require.Equal(t, i+1, got[0])
		require.Equal(t, before, events())
	}
}

// Of a launch and a read that is waited for at once OpenCL is given the launch only, whose end who
// waits sees by himself; who may not block has OpenCL do both.
func TestAReadBehindALaunchIsLeftToWhoWaits(t *testing.T) {
	d := openDirect(t)
	for _, opts := range []devices.QueueOptions{{}, {OutOfOrder: true}} {
		q, other := openQueue(t, d, opts), openQueue(t, d, devices.QueueOptions{})
		in, out := alloc(t, d, 64), alloc(t, d, 64)
		addOne := addsOne(t, d, out, in)
		for i := range byte(20) {
			values, got, later := make([]byte, 64), make([]byte, 64), make([]byte, 64)
			values[0] = i
			finishPoint(t, q, run(t, q, write(d, in, 0, values)))
			mode, more := devices.BlockThread, int64(0)
			if i%2 == 0 {
				mode, more = devices.Park, 1
			}
			before := events()
			launched := mem.Wait{Point: run(t, other, addOne), Kind: mem.Data}
			r := read(d, out, 0, got)
			r.Awaited = true
			p := run(t, q, r, launched)
			after := run(t, other, read(d, out, 0, later), mem.Wait{Point: p, Kind: mem.Order})
			require.NoError(t, q.Flush(), "it does not wait")
			require.NoError(t, q.Wait(context.Background(), p, mode))
			require.Equal(t, i+1, got[0])
			finishPoint(t, other, after)
			require.Equal(t, i+1, later[0])
			require.LessOrEqual(t, events()-before, 1+more+1, "the launch's; perhaps the later read's")
		}
	}
}

// What a read that is left to who waits for it follows may fail, also after it was accepted; and
// a queue may be closed before anybody waits.
func TestWhatIsLeftToWhoWaitsFailsAsAnyAndEndsWithItsQueue(t *testing.T) {
	d := openDirect(t)
	q, other := openQueue(t, d, devices.QueueOptions{}), openQueue(t, d, devices.QueueOptions{OutOfOrder: true})
	in, out := alloc(t, d, 64), alloc(t, d, 64)
	finishPoint(t, q, run(t, q, write(d, out, 0, pattern(64, 1))))
	finishPoint(t, q, run(t, q, write(d, in, 0, make([]byte, 64))))
	gate := mem.NewTimeline("gate", true, nil)
	g := gate.Next()
	held := run(t, other, addsOne(t, d, out, in), mem.Wait{Point: g, Kind: mem.Data})
	got := make([]byte, 64)
	r := read(d, out, 0, got)
	r.Awaited = true
	p := run(t, q, r, mem.Wait{Point: held, Kind: mem.Data})
	gate.End(g, errors.New("the gate's"))
	require.ErrorIs(t, q.Wait(context.Background(), p, devices.BlockThread), mem.ErrDependency)
	require.Equal(t, make([]byte, 64), got)

	made, err := d.NewQueue(devices.QueueOptions{Name: "closing"})
	require.NoError(t, err)
	closing := made.(*Queue)
	launched := run(t, other, addsOne(t, d, out, in))
	p = run(t, closing, r, mem.Wait{Point: launched, Kind: mem.Data})
	require.NoError(t, closing.Close())
	require.True(t, p.Succeeded())
	require.Equal(t, byte(1), got[0])
}

// Devices whose memory is this process's copy from one to another here, where nothing is to be
// waited for.
func TestSmallCopiesBetweenDevicesGiveOpenCLNothing(t *testing.T) {
	both := open(t, 2, nil)
	if !both[0].direct || !both[1].direct {
		t.Skip("devices that keep their buffers to themselves")
	}
	q := openQueue(t, both[1], devices.QueueOptions{OutOfOrder: true})
	for _, n := range []int{1, 4, directLocked + 1, directAtOnce, directAtOnce + 1} {
		from, to := alloc(t, both[0], uint64(n)+8), alloc(t, both[1], uint64(n)+8)
		want, got := pattern(n, 3), make([]byte, n)
		first := openQueue(t, both[0], devices.QueueOptions{})
		finishPoint(t, first, run(t, first, write(both[0], from, 5, want)))
		before := events()
		finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpCopy, Size: uint64(n),
			Src: devices.Loc{Device: both[0], Block: from, Off: 5}, Dst: devices.Loc{Device: both[1], Block: to, Off: 3}}))
		require.Equal(t, n <= directAtOnce, events() == before, "%d bytes", n)
		finishPoint(t, q, run(t, q, read(both[1], to, 3, got)))
		require.Equal(t, want, got)
	}
}
