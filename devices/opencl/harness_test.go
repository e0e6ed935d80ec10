//go:build cgo

package opencl

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"
	"time"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// What the tests of this package share: devices, queues and blocks that are given
// back and checked, commands in a line each, and the ways memory can be laid out.

func TestMain(m *testing.M) {
	if d := os.Getenv("POCL_DEVICES"); os.Getenv("GODWIT_CUDA_LIBRARY") == "" && (d == "" || d == "pthread pthread") { // batches of several destinations take three
		_ = os.Setenv("POCL_DEVICES", "pthread pthread pthread")
	}
	goleak.VerifyTestMain(m)
}

// openSmall opens one device with 64 MiB, which the caller closes.
func openSmall(t testing.TB, params map[string]string) *Device {
	t.Helper()
	if _, err := Select(Selection{}); errors.Is(err, ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
	devs, err := devices.Open(context.Background(), "opencl", devices.Config{Memory: 64 << 20, Params: onPlatform(params)})
	require.NoError(t, err)
	return devs[0].(*Device)
}

// keep has a chosen platform's cl_context stay until the end of a test that opens devices with params again and
// again: with GPUs each one takes a second.
func keep(t *testing.T, params map[string]string) {
	if os.Getenv("GODWIT_TEST_PLATFORM") == "" {
		return
	}
	d := openSmall(t, params)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
}

// onPlatform adds the platform to test on (a part of its name), where one is
// chosen.
func onPlatform(params map[string]string) map[string]string {
	platform := os.Getenv("GODWIT_TEST_PLATFORM")
	if platform == "" {
		return params
	}
	out := map[string]string{"platform": platform}
	maps.Copy(out, params)
	return out
}

// open opens n devices, which the test closes, checked, with all queues closed
// before. It skips the test where there is no OpenCL.
func open(t testing.TB, n int, params map[string]string) []*Device {
	t.Helper()
	if _, err := Select(Selection{}); errors.Is(err, ErrMissing) {
		t.Skipf("no OpenCL here: %v", err)
	}
	devs, err := devices.Open(context.Background(), "opencl", devices.Config{Params: onPlatform(params)})
	require.NoError(t, err)
	if len(devs) < n {
		for _, d := range devs {
			require.NoError(t, d.Close())
		}
		t.Skipf("%d OpenCL devices here, %d needed", len(devs), n)
	}
	var out []*Device
	for i, d := range devs {
		if i >= n {
			require.NoError(t, d.Close())
			continue
		}
		out = append(out, d.(*Device))
		t.Cleanup(func() {
			for _, b := range allocated[d.(*Device)] {
				require.NoError(t, d.Memory().FreeAfter(b, nil))
			}
			delete(allocated, d.(*Device))
			require.NoError(t, d.Memory().Check())
			require.NoError(t, d.Close())
		})
	}
	return out
}

// clContext is the device's context for calls of go-opencl's that the driver does not
// make. It has no finalizer.
func clContext(d *Device) *cl.Context {
	c := new(cl.Context)
	*(*ocl.ContextID)(unsafe.Pointer(c)) = d.host.context.ID
	return c
}

// clDevice is the same for the device.
func clDevice(d *Device) *cl.Device {
	dev := new(cl.Device)
	*(*ocl.DeviceID)(unsafe.Pointer(dev)) = d.id
	return dev
}

func openQueue(t testing.TB, d *Device, opts devices.QueueOptions) *Queue {
	t.Helper()
	q, err := d.NewQueue(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q.(*Queue)
}

// allocated are blocks of alloc's. They are freed when their device's queues have been
// closed: a test that fails leaves commands that use them, and OpenCL, given a cl_mem
// that was released, crashes.
var allocated = map[*Device][]mem.Block{}

// alloc gives a block of a device of open's.
func alloc(t testing.TB, d *Device, size uint64) mem.Block {
	t.Helper()
	var b [1]mem.Block
	out, err := d.Memory().AllocAll([]mem.Request{{Size: size}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	allocated[d] = append(allocated[d], b[0])
	return b[0]
}

func run(t testing.TB, q *Queue, cmd *devices.Command, waits ...mem.Wait) mem.Point {
	t.Helper()
	p, err := q.Submit(cmd, waits)
	require.NoError(t, err)
	return p
}

func finishPoint(t testing.TB, q *Queue, p mem.Point) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, q.Wait(ctx, p, devices.Park))
}

func write(d *Device, b mem.Block, off uint64, data []byte) *devices.Command {
	return &devices.Command{Op: devices.OpCopy, Size: uint64(len(data)),
		Dst: devices.Loc{Device: d, Block: b, Off: off}, Src: devices.Loc{Bytes: data}}
}

func read(d *Device, b mem.Block, off uint64, data []byte) *devices.Command {
	return &devices.Command{Op: devices.OpCopy, Size: uint64(len(data)),
		Src: devices.Loc{Device: d, Block: b, Off: off}, Dst: devices.Loc{Bytes: data}}
}

// pattern is content. Commands read it: the race detector has to see it written, which it does as a whole.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	copy(b, drawn(n, seed))
	return b
}

// drawn makes a pattern; the race detector need not watch each byte.
//
//go:norace
func drawn(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) + seed
	}
	return b
}

const source = `
kernel void add(global int *out, const global int *in, int n) {
	out[get_global_id(0)] = in[get_global_id(0)] + n;
}
kernel void sum(global int *out, local int *tmp, float4 unused) {
	tmp[get_local_id(0)] = get_global_id(0);
	barrier(CLK_LOCAL_MEM_FENCE);
	if (get_local_id(0) == 0) { int s = 0; for (int i = 0; i < get_local_size(0); i++) s += tmp[i]; out[get_group_id(0)] = s; }
}
`

// modes runs a test with memory of this process's, where the device has that, and as
// nativeModes does.
func modes(t *testing.T, f func(t *testing.T, params map[string]string)) {
	t.Run("direct", func(t *testing.T) { f(t, map[string]string{"carve": "off"}) })
	nativeModes(t, f)
}

// nativeModes runs a test with whole and with carved memory, of which only OpenCL knows
// where it is.
func nativeModes(t *testing.T, f func(t *testing.T, params map[string]string)) {
	for _, carve := range []string{"off", "on"} {
		t.Run("carve="+carve, func(t *testing.T) { f(t, map[string]string{"carve": carve, "direct": "off", "slab": "4194304"}) })
	}
}
