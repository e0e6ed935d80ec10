//go:build !race

package graphs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
	_ "godwit/devices/cpu"
	_ "godwit/devices/null"
	_ "godwit/devices/opencl"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// four is the kernel of a made-up training step: three buffers and a value, and next to no work.
var four = &devices.Program{Name: "four", Go: []devices.GoKernel{{
	Name: "four",
	Args: []devices.ArgInfo{
		{Name: "c", Kind: devices.ArgBuffer, Access: mem.ReadWrite},
		{Name: "a", Kind: devices.ArgBuffer, Access: mem.Read},
		{Name: "b", Kind: devices.ArgBuffer, Access: mem.Read},
		{Name: "n", Kind: devices.ArgValue, Size: 4},
	},
	Func: func(*work.Group) {},
}}, Source: `kernel void four(global float *c, global const float *a, global const float *b, uint n) {}`}

const (
	stepDevices  = 4
	stepCommands = 1000
	stepBuffers  = 8  // of each device
	stepSlots    = 2  // of these
	stepFar      = 25 // of so many launches one reads what another device has written
)

// step is such a step: launches by turns on its devices. The first buffers of each are slots.
type step struct {
	c      *runtime.Context
	q      []*runtime.Queue
	k      *runtime.Kernel
	bufs   [][]*runtime.Buffer // by device
	used   [][]*runtime.Buffer // likewise, or slots
	graph  *runtime.Graph
	bound  [2][]runtime.Binding
	values []runtime.Value
	round  uint32
}

func newStep(b testing.TB, driver string) *step {
	ctx := context.Background()
	s := new(step)
	var devs []devices.Device
	for len(devs) < stepDevices {
		some, err := devices.Open(ctx, driver, devices.Config{Name: fmt.Sprint("d", len(devs))})
		if err != nil {
			b.Skipf("not here: %v", err)
		}
		devs = append(devs, some...)
	}
	s.c = must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))
	s.k = must(must(s.c.Build(ctx, four)).Kernel("four"))
	for _, d := range devs[:stepDevices] {
		s.q = append(s.q, must(s.c.NewQueue(d, runtime.QueueOptions{})))
		s.bufs = append(s.bufs, nil)
		for range stepBuffers + stepSlots {
			s.bufs[len(s.q)-1] = append(s.bufs[len(s.q)-1], must(s.c.CreateBuffer(4096, 0, nil)))
		}
		for _, buf := range s.bufs[len(s.q)-1] {
			require.NoError(b, must(s.q[len(s.q)-1].EnqueueFill(ctx, buf, []byte{1}, 0, 4096)).Wait(ctx))
		}
	}
	s.used = s.bufs
	s.record(b)
	return s
}

// record makes the graph. A replay binds each device's slots to its first buffers, or to its last.
func (s *step) record(b testing.TB) {
	ctx := context.Background()
	rec := must(s.c.Record(s.q...))
	s.used = nil
	for d, bufs := range s.bufs {
		used := slices.Clone(bufs)
		for i := range stepSlots {
			used[i] = must(rec.Slot(fmt.Sprintf("d%d/%d", d, i), 4096, 0))
			for k, at := range [2]int{i, stepBuffers + i} {
				s.bound[k] = append(s.bound[k], runtime.Binding{Slot: used[i], Buffer: bufs[at]})
			}
		}
		s.used = append(s.used, used)
	}
	require.NoError(b, s.enqueue(ctx, func(i int, e runtime.Event) error {
		if i%100 < stepDevices {
			s.values = append(s.values, must(rec.Value(e, 3)))
		}
		return e.Release()
	}))
	s.graph = must(rec.Finish(ctx))
	s.used = s.bufs
}

func (s *step) enqueue(ctx context.Context, each func(i int, e runtime.Event) error) error {
	for i := range stepCommands {
		d, k := i%stepDevices, i/stepDevices
		at := s.used[d]
		args := [4]runtime.Arg{runtime.InOut(at[k%stepBuffers]), runtime.In(at[(k+1)%stepBuffers]), runtime.In(at[(k+3)%stepBuffers]), runtime.Uint32(s.round)}
		if k%stepFar == stepFar-1 {
			args[2] = runtime.In(s.used[(d+1)%stepDevices][(k+3)%stepBuffers])
		}
		e, err := s.q[d].EnqueueLaunch(ctx, runtime.Launch{Kernel: s.k, Global: []uint64{16}, Args: args[:]})
		if err == nil {
			err = each(i, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replay replays the graph: as the last time, or with all slots and some values changed.
func (s *step) replay(changed bool) error {
	var in runtime.Bindings
	if changed {
		s.round++
		var values [stepCommands / 100 * stepDevices]runtime.NewValue
		for i, v := range s.values {
			values[i] = runtime.NewValue{Value: v, Arg: runtime.Uint32(s.round)}
		}
		in.Values = values[:]
	}
	in.Slots = s.bound[s.round%2]
	e, err := s.graph.Replay(context.Background(), s.q[0], in)
	if err != nil {
		return err
	}
	return e.Release()
}

func (s *step) finish(b testing.TB) {
	for _, q := range s.q {
		require.NoError(b, q.Finish(context.Background()))
	}
}

func (s *step) close(b testing.TB) {
	s.finish(b)
	for _, bufs := range s.bufs {
		for _, buf := range bufs {
			require.NoError(b, buf.Release())
		}
	}
	require.NoError(b, s.c.Close(context.Background()))
}

// threadTime is the processor time of this thread in nanoseconds.
func threadTime(b *testing.B) float64 {
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return float64(t.Nano())
}

// BenchmarkGraph is what a command of 1,000 launches over four devices costs the calling thread, in processor
// time: enqueued; replayed; and replayed with all slots and 40 values changed. The three take turns; each
// has the median of its rounds and, since neighbours empty the caches, the tenth part's (p10). What workers and libraries' threads do is beside it; a library's own
// calls are in it. To set them apart take a library of which calls return at once:
//
//	gcc -O2 -pthread -shared -fPIC -o /tmp/libinstant.so tests/icd/testdata/instant*.c
//	OCL_ICD_VENDORS=/tmp/libinstant.so OCL_ICD_FILENAMES=/tmp/libinstant.so go test ./tests/graphs -run - -bench Graph/opencl
func BenchmarkGraph(b *testing.B) {
	for _, driver := range []string{"null", "cpu", "opencl"} {
		b.Run(driver, func(b *testing.B) {
			s := newStep(b, driver)
			defer s.close(b)
			ways := []struct {
				name string
				call func() error
			}{
				{"enqueued", func() error {
					return s.enqueue(context.Background(), func(_ int, e runtime.Event) error { return e.Release() })
				}},
				{"replayed", func() error { return s.replay(false) }},
				{"changed", func() error { return s.replay(true) }},
			}
			times := make([][]float64, len(ways))
			goruntime.LockOSThread()
			defer goruntime.UnlockOSThread()
			for b.Loop() {
				for i, w := range ways {
					start := threadTime(b)
					err := w.call()
					times[i] = append(times[i], (threadTime(b)-start)/stepCommands)
					require.NoError(b, err)
					s.finish(b)
				}
			}
			for i, w := range ways {
				slices.Sort(times[i])
				b.ReportMetric(times[i][len(times[i])/2], "ns/"+w.name)
				b.ReportMetric(times[i][len(times[i])/10], "p10-ns/"+w.name)
			}
			b.ReportMetric(float64(s.allocs(b, 20))/20, "allocs/changed")
			b.ReportMetric(float64(s.graph.Figures().Runs), "runs")
			require.Zero(b, s.graph.Figures().Plain, s.graph.Figures().Why)
		})
	}
}

// allocs is how many objects come about in the process during so many replays with all slots and some values changed.
func (s *step) allocs(b testing.TB, replays int) (n uint64) {
	var was, is goruntime.MemStats
	for range replays {
		goruntime.ReadMemStats(&was)
		err := s.replay(true)
		goruntime.ReadMemStats(&is)
		require.NoError(b, err)
		s.finish(b)
		n += is.Mallocs - was.Mallocs
	}
	return n
}

// TestASteadyReplayAllocatesNothing, slots and values changed, on all drivers; of OpenCL on the machine's and on a library of which calls return
// at once. What pools and workers take grows until it suffices: so the test looks for 50 replays in a row without. (Under the race detector
// pools give things away.)
func TestASteadyReplayAllocatesNothing(t *testing.T) {
	for _, driver := range []string{"null", "cpu", "opencl"} {
		t.Run(driver, func(t *testing.T) {
			s := newStep(t, driver)
			defer s.close(t)
			for i := 0; s.allocs(t, 50) > 0; i++ {
				require.Less(t, i, 20, "1,000 replays, and none is steady")
			}
			require.Zero(t, s.graph.Figures().Plain, s.graph.Figures().Why)
		})
	}
	if os.Getenv("OCL_ICD_FILENAMES") == "" && !testing.Short() {
		lib := filepath.Join(t.TempDir(), "libinstant.so")
		text, err := exec.Command("sh", "-c", "gcc -O2 -pthread -shared -fPIC -o "+lib+" ../icd/testdata/instant*.c").CombinedOutput()
		if err != nil {
			t.Skipf("no gcc: %v: %s", err, text)
		}
		again := exec.Command(os.Args[0], "-test.run", t.Name()+"/opencl")
		again.Env = append(os.Environ(), "OCL_ICD_VENDORS="+lib, "OCL_ICD_FILENAMES="+lib)
		text, err = again.CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
