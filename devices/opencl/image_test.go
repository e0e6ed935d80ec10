//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
	"godwit/runtime"
)

// addSource has a kernel that writes the first three rows of an image alone.
const addSource = `kernel void add(read_only image2d_t a, write_only image2d_t b, uint n) {
	int2 p = (int2)(get_global_id(0), get_global_id(1));
	write_imageui(b, p, read_imageui(a, p) + n);
}`

// imageLab is a context with an image that add reads, one that it writes, and a buffer that it does not know.
type imageLab struct {
	*testing.T
	c           *runtime.Context
	q           *runtime.Queue
	k           *runtime.Kernel
	a, b        *runtime.Image
	x           *runtime.Buffer
	wantA, want []byte
}

// imageLabs runs a test with images over their bytes and beside them, with and without bytes between rows.
func imageLabs(t *testing.T, test func(l *imageLab, copies int)) {
	for _, params := range []map[string]string{{"carve": "off"}, {"carve": "off", "direct": "off"}, {"carve": "on", "direct": "off"}} {
		for _, ooo := range []bool{false, true} {
			for _, row := range []uint64{32, 64} {
				t.Run(fmt.Sprint(params, ooo, row), func(t *testing.T) {
					d := open(t, 1, params)[0]
					c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}})
					require.NoError(t, err)
					p, err := c.Build(t.Context(), &devices.Program{Name: "add", Source: addSource})
					require.NoError(t, err)
					l := &imageLab{T: t, c: c}
					l.k, err = p.Kernel("add")
					require.NoError(t, err)
					l.q, err = c.NewQueue(d, runtime.QueueOptions{OutOfOrder: ooo})
					require.NoError(t, err)
					shape := devices.Image{Type: devices.Image2D, Order: 0x10B5, Format: 0x10DA, Pixel: 4, Sides: [3]uint64{8, 8}, Row: row} // CL_RGBA, CL_UNSIGNED_INT8
					l.wantA, l.want = bytes.Repeat([]byte{5}, int(8*row)), bytes.Repeat([]byte{7}, int(8*row))
					l.a, err = c.CreateImage("a", shape, 0, l.wantA)
					require.NoError(t, err)
					l.b, err = c.CreateImage("b", shape, 0, l.want)
					require.NoError(t, err)
					l.x, err = c.CreateBuffer(8*row, 0, l.wantA)
					require.NoError(t, err)
					copies := 0
					if params["direct"] == "off" {
						if copies = 1; row > 32 {
							copies = 8
						}
					}
					test(l, copies)
					for _, b := range []*runtime.Buffer{l.a.Buffer, l.b.Buffer, l.x} {
						require.NoError(t, b.Release())
					}
					require.NoError(t, c.Check())
					require.NoError(t, p.Close())
					require.NoError(t, c.Close(context.Background()))
				})
			}
		}
	}
}

// add enqueues the launch.
func (l *imageLab) add(wait ...runtime.Event) (runtime.Event, error) {
	return l.q.EnqueueLaunch(context.Background(), runtime.Launch{Kernel: l.k, Global: []uint64{8, 3}, Args: []runtime.Arg{runtime.Img(l.a), runtime.Img(l.b), runtime.Uint32(3)}}, wait...)
}

// added is what the launch leaves.
func (l *imageLab) added() {
	for y := range 3 {
		copy(l.want[y*len(l.want)/8:], bytes.Repeat([]byte{8}, 32))
	}
}

// holds tests what is in a buffer.
func (l *imageLab) holds(b *runtime.Buffer, want []byte) {
	l.Helper()
	got := make([]byte, len(want))
	require.NoError(l, l.q.Read(context.Background(), b, 0, got))
	require.Equal(l, want, got)
}

// TestALaunchWithImagesOfWhichOpenCLRefusesACall strikes each call of a launch, at once and held by a gate: the copies into caches, the launch, the copies
// back. Where none ran the kernel an enqueue is refused, and nothing has changed; else the launch fails, and what it was to write is poisoned, until it is written.
// Nothing else is.
func TestALaunchWithImagesOfWhichOpenCLRefusesACall(t *testing.T) {
	ctx := context.Background()
	imageLabs(t, func(l *imageLab, copies int) {
		for _, gated := range []bool{false, true} {
			for nth := 1; nth <= 3*copies+2; nth++ {
				l.fill(l.a.Buffer, l.wantA, 5)
				l.fill(l.b.Buffer, l.want, byte(nth))
				gate, err := l.c.NewUserEvent()
				require.NoError(l, err)
				if !gated {
					require.NoError(l, gate.SetStatus(0))
					inject(l.T, ocl.FaultEnqueue, nth, mem.OutOfResources)
				}
				e, err := l.add(gate)
				refused := err != nil
				require.Equal(l, !gated && nth <= 2*copies+1, refused, "call %d", nth)
				if gated {
					inject(l.T, ocl.FaultEnqueue, nth, mem.OutOfResources)
					require.NoError(l, gate.SetStatus(0))
				}
				if !refused {
					err = e.Wait(ctx)
				}
				ocl.Inject(ocl.FaultEnqueue, 0, 0)
				switch {
				case nth > 3*copies+1:
					require.NoError(l, err)
					l.added()
				case !refused:
					require.ErrorIs(l, l.q.Read(ctx, l.b.Buffer, 0, make([]byte, 4)), mem.ErrNoResources)
					require.NoError(l, l.q.Write(ctx, l.b.Buffer, 0, l.want))
					fallthrough
				default:
					require.Equal(l, mem.OutOfResources, mem.StatusOf(err), "call %d: %v", nth, err)
				}
				l.holds(l.a.Buffer, l.wantA)
				l.holds(l.b.Buffer, l.want)
				l.holds(l.x, l.wantA)
				require.NoError(l, l.c.Check())
			}
		}
	})
}

// TestACacheTakesThePlaceOfOneThatNothingUses: where the library has no memory for one it is asked again, when those that nothing uses have gone.
func TestACacheTakesThePlaceOfOneThatNothingUses(t *testing.T) {
	imageLabs(t, func(l *imageLab, copies int) {
		l.fill(l.a.Buffer, l.wantA, 5)
		l.fill(l.b.Buffer, l.want, 7)
		inject(l.T, ocl.FaultCreate, 1, mem.MemObjectAllocationFailure)
		_, err := l.add()
		require.ErrorIs(l, err, mem.ErrNoMemory)
		l.launched()
		a := l.a
		var was error
		l.a, was = l.c.CreateImage("another", a.Shape(), 0, l.wantA)
		require.NoError(l, was)
		l.fill(l.a.Buffer, l.wantA, 5)
		inject(l.T, ocl.FaultCreate, 1, mem.MemObjectAllocationFailure)
		if copies > 0 {
			l.launched()
		} else {
			_, err = l.add()
			require.ErrorIs(l, err, mem.ErrNoMemory)
		}
		l.holds(l.b.Buffer, l.want)
		require.NoError(l, a.Release())
	})
}

// launched does the launch.
func (l *imageLab) launched() {
	l.Helper()
	e, err := l.add()
	require.NoError(l, err)
	require.NoError(l, e.Wait(context.Background()))
	l.added()
}

// fill has a buffer hold a byte throughout, on the device.
func (l *imageLab) fill(b *runtime.Buffer, want []byte, with byte) {
	l.Helper()
	copy(want, bytes.Repeat([]byte{with}, len(want)))
	e, err := l.q.EnqueueFill(context.Background(), b, []byte{with}, 0, b.Size())
	require.NoError(l, err)
	require.NoError(l, e.Wait(context.Background()))
}
