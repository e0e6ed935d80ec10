// Package devicetest is the conformance suite that every driver passes, and
// what tests need to make drivers fail.
//
// A driver's own test is one call:
//
//	func TestConformance(t *testing.T) {
//		devicetest.Run(t, func(t testing.TB) devices.Device { return open(t) })
//	}
package devicetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/mem"
)

// Option changes what Run expects of a device.
type Option func(*env)

// WithoutContent is for devices that move nothing: content is not checked, and
// kernels are not expected to fault.
func WithoutContent() Option { return func(e *env) { e.content = false } }

// WithoutKernels is for devices that run none: Build must say so.
func WithoutKernels() Option { return func(e *env) { e.kernels = false } }

// Run runs the suite. open opens a fresh device, which the suite closes; it is
// called many times, also twice in one test. Devices with at most 64 MiB of
// memory (Info.GlobalMemory) are also tested for running out of it.
func Run(t *testing.T, open func(t testing.TB) devices.Device, opts ...Option) {
	for _, c := range []struct {
		name string
		test func(*env)
	}{
		{"Info", testInfo},
		{"Alloc/Rules", testAllocRules},
		{"Alloc/FreeAfterPoints", testFreeAfter},
		{"Alloc/Exhaustion", testExhaustion},
		{"Alloc/Random", testAllocRandom},
		{"Alloc/Pinned", testPinned},
		{"Move/Rules", testMoveRules},
		{"Move/ArgumentsAreTheCallersAgain", testOwnership},
		{"Move/Batches", testBatches},
		{"Move/Late", testLate},
		{"Move/Carriers", testCarriers},
		{"Move/Windows", testWindows},
		{"Order/InOrder", testInOrder},
		{"Order/OutOfOrder", testOutOfOrder},
		{"Order/WaitKinds", testWaitKinds},
		{"Order/EndsAfterAllItWaitsFor", testEndsLast},
		{"Order/SubmitNeverBlocks", testSubmitNeverBlocks},
		{"Order/ManyQueues", testManyQueues},
		{"Order/WaitModes", testWaitModes},
		{"Launch/Arguments", testLaunchArguments},
		{"Launch/OverOneBlock", testLaunchesOverOneBlock},
		{"Launch/InPlace", testLaunchesInPlace},
		{"Launch/Runs", testRuns},
		{"Launch/Rules", testLaunchRules},
		{"Launch/WritePromisesHold", testPromises},
		{"Launch/HostCalls", testHostCalls},
		{"Launch/SVM", testSVM},
		{"Histories", testHistories},
		{"Fail/Aborted", testAborted},
		{"Close", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &env{t: t, content: true, kernels: true, open: open, blocks: make(map[devices.Device][]mem.Block)}
			for _, o := range opts {
				o(e)
			}
			started := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, started) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			e.ctx, e.dev = ctx, e.openDevice()
			c.test(e)
		})
	}
}

// env is one test's device and how to use it briefly. Its methods fail the test
// where the device fails.
type env struct {
	t       *testing.T
	open    func(t testing.TB) devices.Device
	content bool
	kernels bool
	dev     devices.Device
	ctx     context.Context
	// blocks are freed when their device's queues have been closed: a test that
	// fails, such as by its deadline, leaves commands that use them.
	blocks map[devices.Device][]mem.Block
}

var errTest = errors.New("devicetest: made to fail")

// openDevice opens a device that is checked and closed after the test.
func (e *env) openDevice() devices.Device {
	d := e.open(e.t)
	free := d.Memory().Stats().LargestFree
	e.t.Cleanup(func() {
		m := d.Memory()
		for _, b := range e.blocks[d] {
			require.NoError(e.t, m.FreeAfter(b, nil))
		}
		require.NoError(e.t, m.Check())
		m.Trim(0)
		require.Equal(e.t, free, m.Stats().LargestFree, "all blocks are freed, and their room is not there again: is there a Pin without an Unpin?")
		require.NoError(e.t, d.Close())
	})
	return d
}

// on returns e for another device.
func (e *env) on(d devices.Device) *env {
	o := *e
	o.dev = d
	return &o
}

// queue opens a queue that is closed after the test.
func (e *env) queue(o devices.QueueOptions) devices.Queue {
	q, err := e.dev.NewQueue(o)
	require.NoError(e.t, err)
	require.Equal(e.t, !o.OutOfOrder, q.Timeline().InOrder())
	e.t.Cleanup(func() { require.NoError(e.t, q.Close()) })
	return q
}

func (e *env) inOrder() devices.Queue { return e.queue(devices.QueueOptions{Name: "in-order"}) }
func (e *env) outOfOrder() devices.Queue {
	return e.queue(devices.QueueOptions{Name: "out-of-order", OutOfOrder: true})
}

// alloc gives a block that is freed after the test. The device is of openDevice.
func (e *env) alloc(size uint64) mem.Block {
	out := make([]mem.Block, 1)
	got, err := e.dev.Memory().AllocAll([]mem.Request{{Size: size}}, out, nil)
	require.NoError(e.t, err)
	require.Equal(e.t, mem.Ready, got)
	d := Unwrap(e.dev)
	e.blocks[d] = append(e.blocks[d], out[0])
	return out[0]
}

func (e *env) at(b mem.Block, off uint64) devices.Loc {
	return devices.Loc{Device: e.dev, Block: b, Off: off}
}

// submit submits a command that must be accepted.
func (e *env) submit(q devices.Queue, cmd *devices.Command, waits ...mem.Wait) mem.Point {
	p, err := q.Submit(cmd, waits)
	require.NoError(e.t, err)
	require.Same(e.t, q.Timeline(), p.Line)
	require.NoError(e.t, q.Flush())
	return p
}

// write and read copy between a block and host bytes.
func (e *env) write(q devices.Queue, b mem.Block, off uint64, bytes []byte, waits ...mem.Wait) mem.Point {
	return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: uint64(len(bytes)), Dst: e.at(b, off), Src: devices.Loc{Bytes: bytes}}, waits...)
}

func (e *env) read(q devices.Queue, b mem.Block, off uint64, bytes []byte, waits ...mem.Wait) mem.Point {
	return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: uint64(len(bytes)), Src: e.at(b, off), Dst: devices.Loc{Bytes: bytes}}, waits...)
}

func (e *env) fill(q devices.Queue, b mem.Block, off, size uint64, pattern []byte, waits ...mem.Wait) mem.Point {
	return e.submit(q, &devices.Command{Op: devices.OpFill, Size: size, Dst: e.at(b, off), Pattern: pattern}, waits...)
}

// wait waits for points of the queue and requires that they succeed.
func (e *env) wait(q devices.Queue, points ...mem.Point) {
	for _, p := range points {
		require.NoError(e.t, q.Wait(e.context(), p, devices.Park))
	}
}

// failed waits for a point and returns why it failed.
func (e *env) failed(p mem.Point) error {
	err := p.Wait(e.context())
	require.Error(e.t, err)
	require.NotErrorIs(e.t, err, context.DeadlineExceeded)
	require.Equal(e.t, err, p.Err())
	return err
}

// context ends a test that hangs.
func (e *env) context() context.Context { return e.ctx }

// equal compares content, on devices that have any.
func (e *env) equal(want, got []byte, what string) {
	if !e.content {
		return
	}
	if i := firstDifference(want, got); i >= 0 {
		e.t.Fatalf("%s: byte %d of %d is %#x, must be %#x", what, i, len(want), got[i], want[i])
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// users is a timeline of user events.
func users() *mem.Timeline { return mem.NewTimeline("user", false, nil) }

func noise(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

func testInfo(e *env) {
	info := e.dev.Info()
	require.NotEmpty(e.t, info.Driver)
	require.NotEmpty(e.t, info.Name)
	require.NotEmpty(e.t, info.Type)
	require.True(e.t, mem.IsPow2(info.BaseAlign), "base alignment %d", info.BaseAlign)
	require.Equal(e.t, info, e.dev.Info())
	for i, s := range info.Spaces {
		r, err := mem.Span(s.Base, s.Size)
		require.NoError(e.t, err)
		for _, other := range info.Spaces[:i] {
			require.False(e.t, r.Overlaps(mem.Range{Start: other.Base, End: other.Base + other.Size}))
		}
	}
}
