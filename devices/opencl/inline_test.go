//go:build cgo

package opencl

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

const inlineSource = quietSource + `
kernel void spin(global uint *a, uint n) { uint x = a[0]; for (uint i = 0; i < n; i++) x = x * 1664525 + 1013904223; a[0] = x; }
kernel void until(global volatile uint *a, uint n) { for (ulong i = 0; i < (ulong)n * 8 && !a[0]; i++); a[1] = a[0]; }
`

// patient has launches count as short, however slow the machine is.
func patient(t *testing.T, after int) {
	was := inlineLimits
	inlineLimits = limits{after: after, long: time.Hour, debt: time.Hour}
	t.Cleanup(func() { inlineLimits = was })
}

// inlined opens n devices that have launches run inline, and builds a program for each.
func inlined(t *testing.T, n int, source string) ([]*Device, []devices.Module) {
	devs := open(t, n, nil)
	if devs[0].host.inline == nil {
		t.Skip("no device here runs commands in the thread that enqueues them")
	}
	var ms []devices.Module
	for _, d := range devs {
		m, err := d.Build(context.Background(), &devices.Program{Name: "inline", Source: source})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		ms = append(ms, m)
	}
	return devs, ms
}

// settled launches until a kernel's launches run inline. It returns how often it did.
func settled(t testing.TB, q *Queue, cmd *devices.Command) (n uint32) {
	t.Helper()
	for range 1000 {
		p := run(t, q, cmd)
		left := isLeft(q, p)
		blocked(t, q, p)
		if n++; left {
			return n
		}
		q.dev.host.builds.Wait()
	}
	t.Fatal("the launches do not come to run inline")
	return n
}

// isLeft reports whether p is a launch that is left to who waits for it.
func isLeft(q *Queue, p mem.Point) bool {
	q.dev.host.mu.Lock()
	defer q.dev.host.mu.Unlock()
	return q.here != nil && q.here.point == p
}

// blocked waits as who may block its thread.
func blocked(t testing.TB, q *Queue, p mem.Point) {
	t.Helper()
	require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
}

// eventsOf is how many events f has OpenCL make.
func eventsOf(f func()) int64 {
	before, _ := ocl.Objects()
	f()
	after, _ := ocl.Objects()
	return after.Events - before.Events
}

// A command whose submitter waits for it at once leaves a launch where it is: a queue has room for one.
func TestAQueueHasOneLaunchThatIsLeft(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	q := openQueue(t, devs[0], devices.QueueOptions{Name: "q", OutOfOrder: true})
	a := zeroed(t, devs[0], q)
	settled(t, q, step(t, ms[0], a, 1))
	first := run(t, q, step(t, ms[0], a, 1))
	require.True(t, isLeft(q, first))
	second := step(t, ms[0], a, 1)
	second.Awaited = true
	p := run(t, q, second)
	require.False(t, isLeft(q, p), "the first has its place")
	require.NoError(t, q.Flush())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, q.Wait(ctx, first, devices.Park))
	require.NoError(t, q.Wait(ctx, p, devices.Park))
}

func TestShortLaunchesRunInline(t *testing.T) {
	patient(t, 32)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	for _, outOfOrder := range []bool{false, true} {
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: outOfOrder})
		a := zeroed(t, d, q)
		cmd := step(t, ms[0], a, 1)
		n := settled(t, q, cmd)
		if !outOfOrder {
			require.Greater(t, n, uint32(32), "who launches a few times pays nothing")
		}
		quietened(t, q)
		got := make([]byte, 4*quietWords)
		look := read(d, a, 0, got)
		look.Awaited = true
		require.Zero(t, eventsOf(func() {
			for i := range 50 {
				p := run(t, q, cmd)
				require.False(t, p.Reached())
				if i%2 == 0 {
					blocked(t, q, p)
				} else {
					blocked(t, q, run(t, q, look, mem.Wait{Point: p, Kind: mem.Data}))
				}
				require.True(t, p.Passed())
			}
		}))
		want := uint32(0)
		for range n + 50 {
			want = 3*want + 1
		}
		require.Equal(t, want, contentOf(t, d, q, a))
	}
}

// What is not short, or not known to be, is OpenCL's: and what a launch waits for holds it.
func TestWhatDoesNotRunInline(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	timed := openQueue(t, d, devices.QueueOptions{Name: "timed", Profiling: true})
	a := zeroed(t, d, q)
	cmd := step(t, ms[0], a, 1)
	settled(t, q, cmd)
	of := func(q *Queue, cmd *devices.Command) int64 { return eventsOf(func() { blocked(t, q, run(t, q, cmd)) }) }
	require.Zero(t, of(q, cmd))
	require.Equal(t, int64(1), of(timed, cmd), "its times are OpenCL's")
	_, ok := timed.Times(timed.Timeline().Last())
	require.True(t, ok)
	big := *cmd
	big.Global[0] = 2 * inlineItems
	big.Args = append([]devices.Arg{{Kind: devices.ArgBuffer, Block: alloc(t, d, 8*inlineItems), Size: 8 * inlineItems}}, cmd.Args[1:]...)
	require.Equal(t, int64(1), of(q, &big), "more work-items than one thread should run")

	gate := mem.NewTimeline("gate", true, nil)
	held := gate.Next()
	before := contentOf(t, d, q, a)
	p := run(t, q, cmd, mem.Wait{Point: held, Kind: mem.Data})
	after := run(t, q, cmd)
	require.False(t, isLeft(q, p) || isLeft(q, after), "it comes after the one that is held")
	gate.End(held, errors.New("no"))
	require.Error(t, q.Wait(context.Background(), p, devices.BlockThread))
	blocked(t, q, after)
	require.Equal(t, 3*before+1, contentOf(t, d, q, a), "of two the one that did not need what failed")
	require.Zero(t, of(q, cmd))
}

// A launch that is left goes to OpenCL with whatever may need it to go on, and the next ones then do at once.
func TestWhatGivesALaunchThatIsLeftToOpenCL(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	other := openQueue(t, d, devices.QueueOptions{Name: "other"})
	for name, needs := range map[string]func(q *Queue, a mem.Block, p mem.Point){
		"the next command": func(q *Queue, a mem.Block, _ mem.Point) {
			run(t, q, step(t, ms[0], a, 1))
			run(t, q, step(t, ms[0], a, 1))
			require.NoError(t, q.Flush())
		},
		"a flush":                   func(q *Queue, _ mem.Block, _ mem.Point) { require.NoError(t, q.Flush()) },
		"a look":                    func(q *Queue, _ mem.Block, p mem.Point) { q.Poll(p) },
		"a wait that may not block": func(q *Queue, _ mem.Block, p mem.Point) { finishPoint(t, q, p) },
		"who asks to be told":       func(_ *Queue, _ mem.Block, p mem.Point) { require.NoError(t, p.Wait(context.Background())) },
		"a command of another queue": func(_ *Queue, a mem.Block, p mem.Point) {
			finishPoint(t, other, run(t, other, step(t, ms[0], a, 1), mem.Wait{Point: p, Kind: mem.Data}))
		},
		"a read of another queue that waits": func(_ *Queue, a mem.Block, p mem.Point) {
			look := read(d, a, 0, make([]byte, 4))
			look.Awaited = true
			finishPoint(t, other, run(t, other, look, mem.Wait{Point: p, Kind: mem.Data}))
		},
		"a wait for what has ended": func(q *Queue, _ mem.Block, p mem.Point) { blocked(t, q, mem.Point{Line: p.Line, Seq: 1}) }, // as a flush
		"a close":                   nil,
	} {
		t.Run(name, func(t *testing.T) {
			made, err := d.NewQueue(devices.QueueOptions{Name: "q"})
			require.NoError(t, err)
			q := made.(*Queue)
			a := zeroed(t, d, q)
			cmd := step(t, ms[0], a, 1)
			k := &cmd.Kernel.(*kernel).inline
			d.host.mu.Lock()
			k.wait, k.pause = 0, inlinePause
			d.host.mu.Unlock()
			settled(t, q, cmd)
			p := run(t, q, cmd)
			require.True(t, isLeft(q, p))
			if needs != nil {
				needs(q, a, p)
				require.Eventually(t, p.Passed, 20*time.Second, time.Millisecond)
				d.host.mu.Lock()
				require.Positive(t, k.wait)
				require.Equal(t, inlinePause, k.pause)
				d.host.mu.Unlock()
			}
			require.NoError(t, q.Close())
			require.True(t, p.Passed())
		})
	}
}

// Kernels that take long go back to OpenCL, for longer each time; a little longer now and then does not matter.
func TestLongLaunchesEndInlineRuns(t *testing.T) {
	patient(t, 0)
	inlineLimits.long, inlineLimits.debt = 25*time.Microsecond, 200*time.Microsecond
	k := newInlineKernel(nil)
	for range 100 * inlineCalm {
		k.ran(time.Microsecond)
		k.ran(45 * time.Microsecond) // an interrupt
	}
	require.Zero(t, k.wait)
	require.Equal(t, inlinePause, k.pause)
	for i := range 10 {
		k.wait = 0
		k.ran(226 * time.Microsecond)
		require.Equal(t, inlinePause<<i, k.wait, "one is enough")
	}
	k.wait = 0
	for range inlineCalm {
		k.ran(time.Microsecond)
	}
	require.Equal(t, inlinePause, k.pause, "that is forgotten")
	for range 8 {
		k.ran(50 * time.Microsecond)
	}
	require.Zero(t, k.wait)
	k.ran(50 * time.Microsecond)
	require.Equal(t, inlinePause, k.wait, "so are several that are a little long")
	for range 60 {
		k.backOff()
	}
	require.Equal(t, inlineMost, k.pause)
}

// A kernel that has turned long holds nobody but who waits for it.
func TestALongKernelKeepsNobodyOut(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	other := openQueue(t, d, devices.QueueOptions{Name: "other"})
	a := zeroed(t, d, q)
	until := func(n uint32) *devices.Command {
		cmd := step(t, ms[0], a, n)
		cmd.Kernel, cmd.Global = kernelNamed(t, ms[0], "until"), [3]uint64{1}
		return cmd
	}
	settled(t, q, until(0))
	settled(t, other, step(t, ms[0], zeroed(t, d, other), 1))
	p := run(t, q, until(1<<32-1)) // it ends when a is written to, or after seconds
	require.True(t, isLeft(q, p), "Submit does not run it")
	ended := make(chan error)
	go func() { ended <- q.Wait(context.Background(), p, devices.BlockThread) }()
	require.Eventually(t, func() bool { return !d.host.inline.mu.TryLock() || unlock(&d.host.inline.mu) }, 10*time.Second, time.Millisecond)
	whole, st := d.host.context.NewBuffer(1 << 16)
	require.Zero(t, st)
	part, st := whole.SubBuffer(0, 1<<12)
	require.Zero(t, st)
	ocl.ReleaseMems(part, whole)
	blocked(t, other, run(t, other, step(t, ms[0], zeroed(t, d, other), 1))) // it was left, and is run by OpenCL
	finishPoint(t, other, run(t, other, write(d, a, 0, word(1))))
	require.NoError(t, <-ended)
	got := make([]byte, 8)
	finishPoint(t, q, run(t, q, read(d, a, 0, got)))
	require.Equal(t, append(word(1), word(1)...), got)
}

func unlock(mu *sync.Mutex) bool {
	mu.Unlock()
	return false
}

// A launch that ran does not run again, whatever OpenCL says then.
func TestALaunchThatFailsInlineHasRunOnce(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	cmd := step(t, ms[0], a, 1)
	settled(t, q, cmd)
	quietened(t, q)
	before := contentOf(t, d, q, a)
	p := run(t, q, cmd)
	require.True(t, isLeft(q, p))
	ocl.Inject(ocl.FaultEnd, 1, int32(mem.OutOfResources))
	err := q.Wait(context.Background(), p, devices.BlockThread)
	require.ErrorIs(t, err, mem.ErrNoResources)
	require.NotContains(t, err.Error(), "argument", "all were set")
	require.Equal(t, 3*before+1, contentOf(t, d, q, a))
}

// What OpenCL alone refuses it refuses within Submit: a launch is left only where OpenCL has taken one like it.
func TestWhatOpenCLRefusesIsRefusedWithinSubmit(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	cmd := step(t, ms[0], a, 1)
	settled(t, q, cmd)
	for n := range uint64(3) {
		other := *cmd
		other.Global[0] = 1 + n
		for range 2 { // what was refused is not known as taken
			ocl.Inject(ocl.FaultEnqueue, 1, int32(mem.OutOfResources))
			_, err := q.Submit(&other, nil)
			require.ErrorIs(t, err, mem.ErrNoResources)
		}
		p := run(t, q, &other)
		require.False(t, isLeft(q, p))
		blocked(t, q, p)
		p = run(t, q, &other)
		require.True(t, isLeft(q, p))
		blocked(t, q, p)
	}
	before := contentOf(t, d, q, a)
	p := run(t, q, cmd)
	require.True(t, isLeft(q, p), "the kernel remembers several")
	ocl.Inject(ocl.FaultEnqueue, 1, int32(mem.OutOfResources)) // of the other device: it goes to OpenCL's own
	blocked(t, q, p)
	require.Equal(t, 3*before+1, contentOf(t, d, q, a))
}

func TestVariablesOfAProgramAreThereOnce(t *testing.T) {
	patient(t, 0)
	devs := open(t, 1, nil)
	d := devs[0]
	if d.host.inline == nil {
		t.Skip("nothing runs inline here")
	}
	m, err := d.Build(context.Background(), &devices.Program{Name: "count", Options: "-cl-std=CL3.0",
		Source: "global uint calls = 0;\nkernel void count(global uint *a) { a[63] = ++calls; }"})
	if err != nil {
		t.Skipf("no variables at program scope here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	cmd := &devices.Command{Op: devices.OpLaunch, Kernel: kernelNamed(t, m, "count"), Dims: 1, Quiet: true, Global: [3]uint64{1},
		Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: a, Size: 4 * quietWords}}}
	for range 50 {
		p := run(t, q, cmd)
		require.False(t, isLeft(q, p))
		blocked(t, q, p)
		d.host.builds.Wait()
	}
	require.Equal(t, uint32(50), contentOf(t, d, q, a))
}

// A header is read when the program is built, and not once more for the twin, when it may be another one.
func TestAProgramWithHeadersHasNoTwin(t *testing.T) {
	patient(t, 0)
	devs := open(t, 1, nil)
	d := devs[0]
	if d.host.inline == nil {
		t.Skip("nothing runs inline here")
	}
	dir := t.TempDir()
	write := func(value string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "value.h"), []byte("#define VALUE "+value), 0o600))
	}
	for _, directive := range []string{"#include", "#inc\\\nlude"} {
		write("1")
		m, err := d.Build(context.Background(), &devices.Program{Name: "value", Options: "-I" + dir,
			Source: directive + " \"value.h\"\nkernel void value(global uint *a) { a[63] = VALUE; }"})
		require.NoError(t, err)
		write("2")
		q := openQueue(t, d, devices.QueueOptions{Name: "q"})
		a := zeroed(t, d, q)
		cmd := &devices.Command{Op: devices.OpLaunch, Kernel: kernelNamed(t, m, "value"), Dims: 1, Global: [3]uint64{1},
			Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: a, Size: 4 * quietWords}}}
		for range 20 {
			p := run(t, q, cmd)
			require.False(t, isLeft(q, p))
			blocked(t, q, p)
			d.host.builds.Wait()
		}
		require.Equal(t, uint32(1), contentOf(t, d, q, a))
		require.NoError(t, m.Close())
	}
}

// Which work-items are a group is left to OpenCL, and its devices do not agree. Where a kernel may see it, it is the same each time.
func TestWorkGroupsAreTheSameEachTime(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, "kernel void groups(global uint *a) { a[63] = get_num_groups(0); }")
	d := devs[0]
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	cmd := &devices.Command{Op: devices.OpLaunch, Kernel: kernelNamed(t, ms[0], "groups"), Dims: 1, Global: [3]uint64{inlineItems},
		Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: a, Size: 4 * quietWords}}}
	blocked(t, q, run(t, q, cmd))
	groups := contentOf(t, d, q, a)
	for range 20 {
		p := run(t, q, cmd)
		require.False(t, isLeft(q, p))
		blocked(t, q, p)
		d.host.builds.Wait()
		require.Equal(t, groups, contentOf(t, d, q, a))
	}
	cmd.Local = [3]uint64{inlineItems / 4}
	settled(t, q, cmd)
	require.Equal(t, uint32(4), contentOf(t, d, q, a))
}

// Programs come and go while their twins are built.
func TestATwinIsGivenUpWithItsProgram(t *testing.T) {
	patient(t, 0)
	devs := open(t, 1, nil)
	d := devs[0]
	if d.host.inline == nil {
		t.Skip("nothing runs inline here")
	}
	created, released := ocl.Objects()
	for i := range 6 {
		p, err := d.NewSourceProgram([]byte(inlineSource))
		require.NoError(t, err)
		require.NoError(t, p.Build(BuildCall{On: devs}))
		m, err := p.Module(d, "m")
		require.NoError(t, err)
		q, err := d.NewQueue(devices.QueueOptions{Name: "q"})
		require.NoError(t, err)
		a := zeroed(t, d, q.(*Queue))
		if cmd := step(t, m, a, 1); i%2 == 0 {
			settled(t, q.(*Queue), cmd)
		} else {
			run(t, q.(*Queue), cmd) // the twin is being built when all goes
		}
		require.NoError(t, q.Close())
		require.NoError(t, m.Close())
		require.NoError(t, p.Close())
	}
	d.host.builds.Wait()
	c, r := ocl.Objects()
	require.Equal(t, c.Programs-created.Programs, r.Programs-released.Programs)
	require.Equal(t, c.Kernels-created.Kernels, r.Kernels-released.Kernels)
}

// Launches inline and not, transfers, gates and failures, on two devices and queues of both
// kinds, leave what a program would that ran them one by one.
func TestInlineLaunchesAmongOthersComputeTheSame(t *testing.T) {
	patient(t, 2)
	devs, ms := inlined(t, 2, inlineSource)
	rapid.Check(t, func(rt *rapid.T) {
		type ended struct {
			p  mem.Point
			ok bool
		}
		var queues []*Queue
		for i := range 4 {
			q, err := devs[i%2].NewQueue(devices.QueueOptions{Name: "q", OutOfOrder: i >= 2})
			require.NoError(t, err)
			queues = append(queues, q.(*Queue))
		}
		var blocks [2]mem.Block
		var content [2]uint32
		var last [2]ended // of the block's commands
		for i := range blocks {
			blocks[i] = zeroed(t, devs[i], queues[i])
		}
		gate := mem.NewTimeline("gate", true, nil)
		var open []mem.Point
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			i := rapid.IntRange(0, 1).Draw(rt, "device")
			q := queues[i+2*rapid.IntRange(0, 1).Draw(rt, "queue")]
			var waits []mem.Wait
			if !last[i].p.IsZero() {
				waits = append(waits, mem.Wait{Point: last[i].p, Kind: mem.Order})
			}
			fails := false
			if rapid.IntRange(0, 9).Draw(rt, "gate") == 0 {
				p := gate.Next()
				open = append(open, p)
				waits = append(waits, mem.Wait{Point: p, Kind: mem.Data})
				fails = p.Seq%3 == 0
			}
			var cmd *devices.Command
			var then func(uint32) uint32
			switch n := rapid.Uint32Range(0, 7).Draw(rt, "what"); {
			case n < 5:
				cmd, then = step(t, ms[i], blocks[i], n), func(c uint32) uint32 { return 3*c + n }
			case n == 5:
				v := rapid.Uint32().Draw(rt, "value")
				cmd, then = write(devs[i], blocks[i], 4*(quietWords-1), word(v)), func(uint32) uint32 { return v }
			default:
				cmd = &devices.Command{Op: devices.OpCopy, Size: 4 * quietWords, Dst: devices.Loc{Device: devs[i], Block: blocks[i]},
					Src: devices.Loc{Device: devs[1-i], Block: blocks[1-i]}}
				if other := last[1-i].p; !other.IsZero() {
					waits = append(waits, mem.Wait{Point: other, Kind: mem.Order})
				}
				c := content[1-i]
				then = func(uint32) uint32 { return c }
			}
			waitsForIt := len(open) == 0 && rapid.IntRange(0, 2).Draw(rt, "waits") > 0
			cmd.Awaited = waitsForIt && cmd.Op == devices.OpCopy && cmd.Src.Device == nil
			p := run(t, q, cmd, waits...)
			if waitsForIt {
				require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
			}
			if !fails {
				content[i] = then(content[i])
			}
			last[i] = ended{p, !fails}
			if n := len(cmd.Args); n == 0 && cmd.Src.Device != nil { // the other block is not written before
				last[1-i].p = p
			}
			for len(open) > 0 && rapid.Bool().Draw(rt, "opens") {
				endGate(gate, open[0])
				open = open[1:]
			}
		}
		for _, p := range open {
			endGate(gate, p)
		}
		for i := range blocks {
			if p := last[i].p; !p.IsZero() {
				_ = p.Wait(context.Background())
			}
			require.Equal(t, content[i], contentOf(t, devs[i], queues[i], blocks[i]), "block %d", i)
		}
		for _, q := range queues {
			require.NoError(t, q.Close())
		}
	})
}

func endGate(gate *mem.Timeline, p mem.Point) {
	if p.Seq%3 == 0 {
		gate.End(p, errors.New("no"))
	} else {
		gate.End(p, nil)
	}
}

// Threads that leave launches, and have others' given to OpenCL, run each once, and before what waits for it.
func TestLaunchesThatManyThreadsLeaveRunOnce(t *testing.T) {
	patient(t, 0)
	devs, ms := inlined(t, 1, inlineSource)
	d := devs[0]
	advance := kernelNamed(t, ms[0], "advance")
	k := &advance.(*kernel).inline
	by := func(a mem.Block, n uint32) *devices.Command {
		cmd := step(t, ms[0], a, n)
		cmd.Kernel = advance
		return cmd
	}
	var queues [2]struct {
		sync.Mutex // over Submit
		*Queue
		a        mem.Block
		launches uint32 // protected by the Mutex
	}
	for i := range queues {
		q := &queues[i]
		q.Queue = openQueue(t, d, devices.QueueOptions{Name: "q"})
		q.a = zeroed(t, d, q.Queue)
		settled(t, q.Queue, by(q.a, 0)) // 3 times 0
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(1, uint64(g)))
			for range 200 {
				q, other, n := &queues[draw.IntN(2)], &queues[draw.IntN(2)], draw.IntN(6)
				d.host.mu.Lock()
				k.wait = 0
				d.host.mu.Unlock()
				q.Lock()
				p, err := q.Submit(by(q.a, 1), nil)
				q.launches++
				q.Unlock()
				if !assert.NoError(t, err) {
					return
				}
				ctx := context.Background()
				switch n {
				case 0, 1:
					err = q.Wait(ctx, p, devices.WaitMode(n))
				case 2:
					err = q.Flush()
				case 3:
					q.Poll(p)
				case 4:
					err = p.Wait(ctx)
				default:
					look := read(d, q.a, 0, make([]byte, 4))
					look.Awaited = true
					other.Lock()
					r, refused := other.Submit(look, []mem.Wait{{Point: p, Kind: mem.Data}})
					other.Unlock()
					if err = refused; err == nil {
						err = other.Wait(ctx, r, devices.BlockThread)
						assert.True(t, p.Succeeded())
					}
				}
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	for i := range queues {
		q, want := &queues[i], uint32(0)
		for range q.launches {
			want = 3*want + 1
		}
		require.Equal(t, want, contentOf(t, d, q.Queue, q.a))
	}
}

// The device for that is asked for and not shown.
func TestNobodyIsShownTheInlineDevice(t *testing.T) {
	found, err := Select(Selection{})
	if err != nil {
		t.Skip(err)
	}
	if !hasInline {
		t.Skip("none was asked for")
	}
	next := make(map[int]int) // index, by platform
	for _, f := range found {
		require.NotContains(t, f.Info.Name, "basic-")
		require.Equal(t, next[f.Platform], f.Index)
		next[f.Platform]++
		if quirksOf(f.Info.Platform).inline != "" {
			require.NotContains(t, f.Info.Name, "cpu-minimal-")
			require.Equal(t, !strings.HasPrefix(f.Info.Name, "cpu-"), f.inline != nil, f.Info.Name) // later versions' names
		}
	}
}
