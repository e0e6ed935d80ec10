//go:build cgo

package opencl

import (
	"context"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// nativeGate is a command of OpenCL's own that ends when the test says so, well or
// badly: a user event in place of a command of q.
type nativeGate struct {
	r  *record
	ev *cl.Event
	mem.Point
}

func gateOn(t *testing.T, q *Queue) *nativeGate {
	t.Helper()
	h := q.dev.host
	ev, err := clContext(q.dev).CreateUserEvent()
	require.NoError(t, err)
	runtime.SetFinalizer(ev, nil) // the record releases it
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.takeLocked(q, devices.OpMarker, 0)
	r.event, r.callbackDue = *(*ocl.Event)(unsafe.Pointer(ev)), true
	h.acceptLocked(r)
	h.nativeLocked(r)
	return &nativeGate{r, ev, r.point}
}

// end ends it in OpenCL, and after a while, in which OpenCL does what follows,
// tells the driver.
func (g *nativeGate) end(t *testing.T, status mem.Status) {
	t.Helper()
	require.NoError(t, g.ev.SetUserEventStatus(int(status)))
	time.Sleep(50 * time.Millisecond)
	h := g.r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining++
	h.completedByCallbackLocked(g.r, int32(status))
	h.drainUnlocks(mostTrash)
}

// x waits for one command that fails, so that OpenCL ends it at once, and for one
// that does not. What comes behind x in its in-order queue has to wait for both,
// and to run: PoCL ends that too, other platforms start it.
func TestWhatFollowsAFailedCommandWaitsForWhatThatWaitedFor(t *testing.T) {
	for _, steps := range []int{0, 2} {
		d := open(t, 1, map[string]string{"events": "watch"})[0] // PoCL 3.1 calls nobody back about such an end
		other := openQueue(t, d, devices.QueueOptions{Name: "other", OutOfOrder: true})
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		b, got := alloc(t, d, 4096), make([]byte, 4096)
		finishPoint(t, q, run(t, q, write(d, b, 0, pattern(4096, 1))))

		bad, slow := gateOn(t, other), gateOn(t, other)
		reading := run(t, other, read(d, b, 0, got), mem.Wait{Point: slow.Point, Kind: mem.Order})
		x := run(t, q, &devices.Command{Op: devices.OpMarker}, mem.Wait{Point: bad.Point, Kind: mem.Data}, mem.Wait{Point: reading, Kind: mem.Order})
		for range steps { // in between
			run(t, q, &devices.Command{Op: devices.OpMarker})
		}
		overwrites := run(t, q, write(d, b, 0, pattern(4096, 2)))
		require.NoError(t, q.Flush())
		bad.end(t, mem.OutOfResources)
		require.False(t, overwrites.Reached())
		slow.end(t, 0)
		finishPoint(t, other, reading)
		require.Equal(t, pattern(4096, 1), got, "the reader was overtaken")
		require.ErrorIs(t, q.Wait(context.Background(), x, devices.Park), mem.ErrNoResources)
		finishPoint(t, q, overwrites)
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, pattern(4096, 2), got)
	}
}

// second waits for first, which only has to come after a command that fails.
func TestWhatFollowsACommandThatIsRunAgainIsRunAgainToo(t *testing.T) {
	for _, kind := range []mem.WaitKind{mem.Order, mem.Data} {
		d := open(t, 1, map[string]string{"events": "watch"})[0] // PoCL 3.1 calls nobody back about such an end
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
		b, got := alloc(t, d, 4096), make([]byte, 4096)
		bad := gateOn(t, q)
		first := run(t, q, write(d, b, 0, pattern(4096, 3)), mem.Wait{Point: bad.Point, Kind: mem.Order})
		second := run(t, q, read(d, b, 0, got), mem.Wait{Point: first, Kind: kind})
		require.NoError(t, q.Flush())
		bad.end(t, mem.OutOfResources)
		finishPoint(t, q, first)
		finishPoint(t, q, second)
		require.Equal(t, pattern(4096, 3), got)
	}
}
