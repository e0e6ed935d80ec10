//go:build cgo

package nvlink

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/internal/nvlink/nvlinktest"
	"godwit/mem"
)

var fake *nvlinktest.Fake

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(exitsEnv) == realGPUs {
		exits(Options{GPUs: installed()}, 64<<20)
	}
	if library := os.Getenv(exitsEnv); library != "" {
		var err error
		if fake, err = nvlinktest.Open(library); err != nil {
			panic(err)
		}
		fake.Slow(time.Millisecond)
		exits(options(2), large)
	}
	dir, err := os.MkdirTemp("", "nvlink")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if fake, err = nvlinktest.Open(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

const (
	tried = "580.159.04" // a driver that is known to be good
	piece = 128 << 10
	large = 1 << 20
)

func options(gpus int) Options {
	o := Options{Library: fake.Library, Piece: piece}
	for i := range gpus {
		o.GPUs = append(o.GPUs, fake.UUID(i))
	}
	return o
}

// rig is an engine with a window on each GPU and the bytes that an importer sees there.
type rig struct {
	*Engine
	t       *testing.T
	sink    *nvlinktest.Sink
	windows []*Window
	bytes   [][]byte
}

func newRig(t *testing.T, gpus int) *rig {
	t.Setenv("GODWIT_FAKE_GPUS", fmt.Sprint(gpus))
	before := fake.Live()
	e, err := Open(context.Background(), options(gpus))
	require.NoError(t, err)
	r := &rig{Engine: e, t: t, sink: fake.NewSink()}
	t.Cleanup(func() {
		fake.Fail(0, 0)
		fake.Slow(0)
		for i := range gpus {
			fake.Revive(i)
		}
		if err := e.Err(); err == nil {
			require.NoError(t, e.Check())
		}
		for _, w := range r.windows {
			w.Release()
		}
		require.NoError(t, e.Close())
		require.Equal(t, before, fake.Live(), "what is left in CUDA")
		require.Empty(t, fake.Violations())
		r.sink.Free()
	})
	for i := range gpus {
		r.window(i, 2*large)
	}
	return r
}

func (r *rig) window(gpu int, size uint64) (*Window, []byte) {
	w, err := r.NewWindow(gpu, size)
	require.NoError(r.t, err)
	r.windows = append(r.windows, w)
	fd, err := w.Export()
	require.NoError(r.t, err)
	b, err := fake.Map(fd, size)
	require.NoError(r.t, err)
	r.bytes = append(r.bytes, b)
	return w, b
}

func (r *rig) connect() {
	for i := range r.windows {
		for j := range i {
			require.NoError(r.t, r.Connect(context.Background(), i, j))
		}
	}
}

func (r *rig) copy(from, to int, size uint64, gates ...Gate) Copy {
	return Copy{Dst: r.windows[to], Src: r.windows[from], Size: size, Gates: gates, Hook: hook(r.sink)}
}

func (r *rig) start(c Copy) { require.NoError(r.t, r.Start(&c)) }

// ended is the end of a copy.
type ended struct {
	ID     uint64
	Status int32
}

func (r *rig) end() (e ended) {
	var ok bool
	e.ID, e.Status, ok = r.sink.Take(time.Minute)
	require.True(r.t, ok, "a copy never ended")
	return e
}

func hook(s *nvlinktest.Sink) Hook {
	f, arg := s.Hook()
	return Hook{f, arg}
}

func gated(g *nvlinktest.Gate) Gate {
	poll, arg := g.Poll()
	return Gate{poll, arg}
}

func random(b []byte, seed uint64) {
	s := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = s.Read(b)
}

func TestCopiesBringTheBytes(t *testing.T) {
	r := newRig(t, 3)
	r.connect()
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		from := draw.IntN(3)
		to := (from + 1 + draw.IntN(2)) % 3
		c := r.copy(from, to, 1+draw.Uint64N(3*piece))
		c.SrcOff, c.DstOff, c.ID = draw.Uint64N(large), draw.Uint64N(large), uint64(i)
		random(r.bytes[from], uint64(i))
		want := bytes.Clone(r.bytes[to])
		copy(want[c.DstOff:c.DstOff+c.Size], r.bytes[from][c.SrcOff:])
		r.start(c)
		e := r.end()
		require.Zero(t, e.Status)
		require.Equal(t, uint64(i), e.ID)
		require.True(t, bytes.Equal(want, r.bytes[to]), "copy %d of %d bytes from %d to %d", i, c.Size, c.SrcOff, c.DstOff)
	}
}

func TestManyCopiesAtOnce(t *testing.T) {
	r := newRig(t, 4)
	r.connect()
	fake.Slow(100 * time.Microsecond)
	const each = 64
	step := uint64(large / 4 / each)
	for i := range r.bytes {
		random(r.bytes[i][:large], uint64(i))
	}
	var all sync.WaitGroup
	for from := range 4 {
		all.Go(func() {
			for k := range uint64(each) {
				for hop := 1; hop < 4; hop++ {
					c := r.copy(from, (from+hop)%4, step)
					c.SrcOff, c.DstOff = k*step, large+uint64(from)*large/4+k*step
					if err := r.Start(&c); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for range 4 * 3 * each {
		require.Zero(t, r.end().Status)
	}
	for to := range 4 {
		for from := range 4 {
			if from != to {
				at := large + from*large/4
				require.True(t, bytes.Equal(r.bytes[from][:large/4], r.bytes[to][at:at+large/4]), "from %d to %d", from, to)
			}
		}
	}
}

func TestACopyWaitsForItsGates(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	random(r.bytes[0], 1)
	a, b := fake.NewGate(), fake.NewGate()
	r.start(r.copy(0, 1, large, gated(a), gated(b)))
	b.Set(1)
	_, _, early := r.sink.Take(5 * time.Millisecond)
	require.False(t, early)
	require.False(t, bytes.Equal(r.bytes[0][:large], r.bytes[1][:large]))
	a.Set(1)
	require.Zero(t, r.end().Status)
	require.True(t, bytes.Equal(r.bytes[0][:large], r.bytes[1][:large]))
}

func TestAFailedGateLeavesTheBytesAlone(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	random(r.bytes[0], 1)
	before := bytes.Clone(r.bytes[1])
	a, b := fake.NewGate(), fake.NewGate()
	r.start(r.copy(0, 1, large, gated(a), gated(b)))
	a.Set(1)
	b.Set(-14)
	e := r.end()
	require.Equal(t, int32(-14), e.Status)
	require.Equal(t, before, r.bytes[1])
}

func TestASmallCopyGetsBetweenThePiecesOfALargeOne(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	fake.Slow(20 * time.Millisecond) // a piece takes 2.5 ms, the large copy 40
	big, little := r.copy(0, 1, 2*large), r.copy(0, 1, 4096)
	big.ID, little.ID = 1, 2
	r.start(big)
	time.Sleep(5 * time.Millisecond) // it has what the lane has room for
	r.start(little)
	require.Equal(t, uint64(2), r.end().ID)
	require.Equal(t, uint64(1), r.end().ID)
}

func TestWindowsMadeBeforeAndAfterConnecting(t *testing.T) {
	r := newRig(t, 2)
	random(r.bytes[0], 1)
	c := r.copy(0, 1, large)
	require.ErrorIs(t, r.Start(&c), errNotConnected)
	require.ErrorIs(t, r.Connected(0, 1), errNotConnected)
	r.connect()
	require.NoError(t, r.Connected(0, 1))
	require.Equal(t, int64(2), fake.Live().Contexts)
	w, b := r.window(1, 3*large)
	c.Dst = w
	r.start(c)
	require.Zero(t, r.end().Status)
	require.True(t, bytes.Equal(r.bytes[0][:large], b[:large]))
}

func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	other := newRig(t, 2)
	r := newRig(t, 2)
	r.connect()
	for what, c := range map[string]Copy{
		"no window":     {Src: r.windows[0], Size: 1},
		"no bytes":      r.copy(0, 1, 0),
		"too many":      r.copy(0, 1, 2*large+1),
		"another's":     {Dst: other.windows[1], Src: r.windows[0], Size: 1},
		"one GPU alone": r.copy(0, 0, 1),
	} {
		require.Error(t, r.Start(&c), what)
	}
	c := r.copy(0, 1, large)
	c.SrcOff = ^uint64(0) - 1
	require.ErrorIs(t, r.Start(&c), mem.ErrInvalidValue)
	for _, size := range []uint64{0, Limit, Limit - 1, ^uint64(0)} {
		_, err := r.NewWindow(0, size)
		require.ErrorIs(t, err, mem.ErrInvalidSize, "%d bytes", size)
	}
	_, err := r.NewWindow(2, 1)
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
}

func TestAWindowEndsInsideRelease(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	random(r.bytes[0], 1)
	r.start(r.copy(0, 1, large))
	require.Zero(t, r.end().Status)
	before := fake.Live()
	for i, w := range r.windows {
		w.Release()
		w.Release()
		require.Equal(t, before.Mappings-int64(i+1), fake.Live().Mappings)
		require.Equal(t, before.Memories-int64(i+1), fake.Live().Memories)
	}
	require.True(t, bytes.Equal(r.bytes[0][:large], r.bytes[1][:large]), "who imported it has it still")
	c := r.copy(0, 1, large)
	require.ErrorIs(t, r.Start(&c), mem.ErrInvalidValue)
}

func TestCloseWaitsForCopiesAndNamesWindows(t *testing.T) {
	t.Setenv("GODWIT_FAKE_GPUS", "2")
	e, err := Open(context.Background(), options(2))
	require.NoError(t, err)
	sink := fake.NewSink()
	defer sink.Free()
	r := &rig{Engine: e, t: t, sink: sink}
	r.window(0, large)
	r.window(1, large)
	r.connect()
	fake.Slow(10 * time.Millisecond)
	defer fake.Slow(0)
	r.start(r.copy(0, 1, large))
	require.ErrorContains(t, e.Close(), "2 windows of 2 MiB")
	require.Zero(t, r.end().Status)
	require.Empty(t, fake.Violations())
	require.Zero(t, fake.Live())
	require.ErrorIs(t, e.Close(), mem.ErrClosed)
	c := r.copy(0, 1, large)
	require.ErrorIs(t, e.Start(&c), mem.ErrClosed)
	require.ErrorIs(t, e.Connect(context.Background(), 0, 1), mem.ErrClosed)
	_, err = e.NewWindow(0, 1)
	require.ErrorIs(t, err, mem.ErrClosed)
	r.windows[0].Release()
}

func TestNoThreadOfTheProgramsCallsCUDA(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fake.Forbid(true)
	defer fake.Forbid(false)
	r := newRig(t, 2)
	r.connect()
	r.start(r.copy(0, 1, large))
	require.Zero(t, r.end().Status)
	leg := []Copy{{Dst: r.windows[0], Src: r.windows[1], Size: 1}}
	_, err := r.Time(leg)
	require.NoError(t, err)
	r.windows[1].Release()
	_, err = r.Time(leg)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

func TestConnectingCanBeCancelledAndDoneAgain(t *testing.T) {
	r := newRig(t, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, r.Connect(ctx, 0, 1), context.Canceled)
	require.ErrorIs(t, r.Connected(0, 1), errNotConnected)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := r.Connect(context.Background(), 0, 1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, int64(2), fake.Live().Contexts)
	_, err := Open(ctx, options(2))
	require.ErrorIs(t, err, context.Canceled)
}

func TestTimeIsThatOfTheCopies(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	fake.Slow(10 * time.Millisecond)
	random(r.bytes[0], 3)
	d, err := r.Time([]Copy{r.copy(0, 1, large), r.copy(0, 1, large)})
	require.NoError(t, err)
	require.GreaterOrEqual(t, d, 20*time.Millisecond, "one stream")
	require.True(t, bytes.Equal(r.bytes[0][:large], r.bytes[1][:large]))
	fake.Fail(2, 1)
	_, err = r.Time([]Copy{r.copy(0, 1, large), r.copy(1, 0, large)})
	require.ErrorIs(t, err, errFailed)
	before := bytes.Clone(r.bytes[1])
	random(r.bytes[0], 4)
	time.Sleep(5 * time.Millisecond)
	require.True(t, bytes.Equal(before, r.bytes[1]), "what it gave CUDA has ended")
}

func TestStartingACopyAllocatesNothing(t *testing.T) {
	r := newRig(t, 2)
	r.connect()
	gate := fake.NewGate()
	gate.Set(1)
	c := r.copy(0, 1, 4096, gated(gate))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if r.Start(&c) != nil {
			panic("refused")
		}
		r.sink.Take(time.Minute)
	}))
}

func TestManyHandsAtOnce(t *testing.T) {
	r := newRig(t, 3)
	fake.Slow(time.Millisecond)
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(k), 1))
			sink := fake.NewSink()
			defer sink.Free()
			for range 25 {
				from := draw.IntN(3)
				to := (from + 1) % 3
				a, err := r.NewWindow(from, piece)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := r.NewWindow(to, piece)
				if err != nil {
					t.Error(err)
					return
				}
				if err := r.Connect(context.Background(), from, to); err != nil {
					t.Error(err)
				}
				if err := r.Start(&Copy{Dst: b, Src: a, Size: piece, Hook: hook(sink)}); err != nil {
					t.Error(err)
				}
				if _, status, ok := sink.Take(time.Minute); !ok || status != 0 {
					t.Errorf("status %d", status)
				}
				a.Release()
				b.Release()
				if err := r.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// exitsEnv has this process copy and exit; it names the fake.
const exitsEnv = "GODWIT_TEST_EXITS"

// realGPUs is exitsEnv for the GPUs of this machine.
const realGPUs = "the GPUs of this machine"

// installed are the GPUs of this machine.
func installed() (gpus []UUID) {
	out, err := exec.Command("nvidia-smi", "-L").Output()
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`UUID: GPU-([0-9a-f-]+)`).FindAllStringSubmatch(string(out), -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(m[1], "-", ""))
		if err != nil {
			panic(err)
		}
		gpus = append(gpus, UUID(b))
	}
	return gpus
}

// exits exits as a C program does, with copies under way.
func exits(o Options, size uint64) {
	e, err := Open(context.Background(), o)
	if err != nil {
		panic(err)
	}
	var windows [2]*Window
	for i := range windows {
		if windows[i], err = e.NewWindow(i, size); err != nil {
			panic(err)
		}
	}
	connected := make(chan struct{})
	go func() {
		if rand.IntN(4) > 0 {
			_ = e.Connect(context.Background(), 0, 1)
		}
		close(connected)
		sink := fake.NewSink()
		for {
			if e.Start(&Copy{Dst: windows[1], Src: windows[0], Size: size, Hook: hook(sink)}) != nil {
				return
			}
			sink.Take(time.Minute)
		}
	}()
	if rand.IntN(4) > 0 {
		<-connected
	}
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	fake.Exit()
}

// TestAProgramMayExitWithCopiesUnderWay has programs exit, on the fake or, with
// GODWIT_TEST_NVIDIA=1, on real GPUs.
func TestAProgramMayExitWithCopiesUnderWay(t *testing.T) {
	hands, until := 1, time.Now().Add(time.Hour)
	if os.Getenv("GODWIT_TEST_NVIDIA") != "" {
		hands, until = 8, time.Now().Add(30*time.Second) // each starts CUDA
		t.Setenv(exitsEnv, realGPUs)
	} else {
		t.Setenv(exitsEnv, fake.Library)
		t.Setenv("GODWIT_FAKE_GPUS", "2")
	}
	var begun, ended atomic.Int64
	var all sync.WaitGroup
	for range hands {
		all.Go(func() {
			for begun.Add(1) <= exitRuns() && time.Now().Before(until) {
				if out, err := exec.Command(os.Args[0]).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				ended.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d exits", ended.Load())
}

func exitRuns() int64 {
	if os.Getenv("GODWIT_SOAK") != "" || os.Getenv("GODWIT_TEST_NVIDIA") != "" {
		return 1000
	}
	return 20
}
