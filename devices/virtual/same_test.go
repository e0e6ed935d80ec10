package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/mover"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// teller writes down what it is told, as text.
type teller struct {
	out   bytes.Buffer
	spans int
	ended map[mem.Point]int64
}

var _ virtual.Observer = (*teller)(nil)

func (l *teller) Span(s *virtual.Span) {
	l.spans++
	if l.ended == nil {
		l.ended = make(map[mem.Point]int64)
	}
	l.ended[s.Point] = s.Ended
	if s.Queued > s.Ready || s.Ready > s.Started || s.Started > s.Ended || l.ended[s.Cause] > s.Ready {
		panic(fmt.Sprintf("the times of %v are not in order", s.Point))
	}
	fmt.Fprintf(&l.out, "%v %v #%d on %d %d>%d %d %d %d %d %d %d by %v behind %v %v\n", s.Point, s.Op, s.Tag, s.On, s.From, s.To, s.Bytes, s.Queued, s.Ready, s.Handed, s.Started, s.Ended, s.Cause, s.Behind, s.Err)
}

func (l *teller) Woke(thread int, slept, woke int64, p mem.Point) {
	fmt.Fprintf(&l.out, "thread %d woke at %d for %v\n", thread, woke, p)
}

// program has two host threads enqueue so many commands, of which some fail, with
// callbacks that enqueue, user events that the other thread sets, host calls and waits.
func program(t *testing.T, commands int, seed uint64, stamps bool, carries *virtual.Carriage) string {
	told := &teller{}
	o := virtual.Options{Observer: told, Seed: seed, Stamps: stamps}
	for i := range commands / 97 {
		o.Fail = append(o.Fail, virtual.Failure{Command: uint64(1 + i*97)})
	}
	for i := range 20 {
		o.Fail = append(o.Fail, virtual.Failure{Memory: 1 + i%4, At: uint64(i) * 1_000_003})
	}
	h := open(t, &bench{devices: 4, rate: 10 * gig, shared: 25 * gig, latency: 1500, setup: 700, kernel: 100 * gig, call: 100, chunk: 16 << 10, carries: carries}, o, func(o *runtime.Options) { o.WholeBelow = 1 })
	p, err := h.c.Build(bg, kernels.Program())
	require.NoError(t, err)
	k, err := p.Kernel("copy")
	require.NoError(t, err)
	const size = 64 << 10
	var bufs, parts []*runtime.Buffer // parts are stored by themselves, and together where they are used together
	for range 12 {
		b := h.buffer(size)
		bufs = append(bufs, b)
		for i := range uint64(3) {
			part, err := b.Sub(i*16<<10, 32<<10, 0)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, part.Release()) })
			parts = append(parts, part)
		}
	}
	gates := make([]runtime.Event, 64)
	for i := range gates {
		gates[i], err = h.c.NewUserEvent()
		require.NoError(t, err)
	}
	gated, err := h.c.NewQueue(h.devs[0], runtime.QueueOptions{OutOfOrder: true})
	require.NoError(t, err)
	data := make([]byte, size)
	called := 0
	thread := func(n int) func() {
		return func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			mine := make([]byte, size)
			for i := range commands / 2 {
				q, x, y := h.qs[r.IntN(4)], bufs[r.IntN(len(bufs))], bufs[r.IntN(len(bufs))]
				var e runtime.Event
				var err error
				switch r.IntN(10) {
				case 0, 1:
					e, err = q.EnqueueWrite(bg, x, 0, data)
				case 2:
					e, err = q.EnqueueRead(bg, parts[r.IntN(len(parts))], 0, mine[:32<<10])
				case 3, 4:
					if x != y {
						e, err = q.EnqueueLaunch(bg, runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Uint64(64)}})
					}
				case 5:
					e, err = q.EnqueueFill(bg, parts[r.IntN(len(parts))], []byte{7}, 0, 32<<10)
				case 6:
					e, err = q.EnqueueHostCall(bg, func(context.Context) error { return nil })
				case 7:
					e, err = q.EnqueueMarker(bg)
				default:
					e, err = q.EnqueueMigrate(bg, []*runtime.Buffer{x}, 0)
				}
				if err != nil {
					require.ErrorIs(t, err, mem.ErrPoisoned)
					_, err = q.EnqueueWrite(bg, x, 0, data)
					require.NoError(t, err)
					_, err = q.EnqueueWrite(bg, y, 0, data)
					require.NoError(t, err)
					continue
				}
				if e.IsZero() {
					continue
				}
				if i%500 == 1 {
					require.NoError(t, e.OnStatus(runtime.Complete, func(e runtime.Event, s runtime.ExecStatus) {
						called++
						_, err := h.qs[called%4].EnqueueMarker(bg)
						require.NoError(t, err)
						fmt.Fprintf(&told.out, "called at %d with %d\n", h.w.Time(), s)
					}))
				}
				if g := i / 1000; n == 0 && i%1000 == 500 && g < len(gates) {
					require.NoError(t, gates[g].SetStatus(runtime.Complete))
				} else if n == 1 && i%1000 == 400 && g < len(gates) {
					_, err := gated.EnqueueMarker(bg, gates[g])
					require.NoError(t, err)
				}
				if i%50 == 49 {
					if err := e.Wait(bg); err != nil {
						fmt.Fprintf(&told.out, "wait: %v\n", err)
					}
				}
				require.NoError(t, e.Release())
			}
		}
	}
	require.NoError(t, h.w.Threads(thread(0), thread(1)))
	for _, g := range gates {
		if err := g.SetStatus(runtime.Complete); err != nil {
			require.ErrorIs(t, err, mem.ErrInvalidOperation)
		}
	}
	for _, q := range h.qs {
		_ = q.Finish(bg)
	}
	require.NoError(t, h.c.Check())
	require.NotZero(t, called)
	require.NotZero(t, h.c.Stats().BytesRegrown)
	require.Greater(t, told.spans, commands)
	fmt.Fprintf(&told.out, "makespan %d, %+v, %+v\n", h.w.Time(), h.w.Counts(), h.c.Stats())
	return told.out.String()
}

func TestTheSameCallsGiveTheSameTimesHoweverManyProcessorsThereAre(t *testing.T) {
	commands := 100_000
	if testing.Short() || raceEnabled {
		commands = 10_000
	}
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	one := program(t, commands, 3, false, nil)
	goruntime.GOMAXPROCS(2)
	two := program(t, commands, 3, false, nil)
	require.Contains(t, one, "failure asked for")
	same(t, one, two)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(one))
	t.Logf("%d commands, %d bytes of text, twice the same (%#x)", commands, len(one), sum.Sum64())
}

// TestWhatThreadsOweIsTheSameEachTime has all carriers at work.
func TestWhatThreadsOweIsTheSameEachTime(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	for _, seed := range []uint64{0, 3} {
		goruntime.GOMAXPROCS(1)
		one := program(t, 3000, seed, false, busyHost(4))
		goruntime.GOMAXPROCS(2)
		same(t, one, program(t, 3000, seed, false, busyHost(4)))
	}
}

// same compares what is too long to print.
func same(t *testing.T, one, two string) {
	if one == two {
		return
	}
	a, b := []byte(one), []byte(two)
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	lo := max(0, i-300)
	t.Fatalf("they differ at byte %d:\n%s\n--\n%s", i, a[lo:min(len(a), i+300)], b[lo:min(len(b), i+300)])
}

func TestDevicesThatKeepNoBytesTakeTheSameTimes(t *testing.T) {
	for _, seed := range []uint64{0, 5} {
		same(t, program(t, 600, seed, false, nil), program(t, 600, seed, true, nil))
		same(t, program(t, 600, seed, false, busyHost(4)), program(t, 600, seed, true, busyHost(4)))
	}
}

// A launch may write what it reads, by another argument, and looks again at its end at what it reads.
func TestALaunchInPlaceIsNotSeenToReadWhatItWrites(t *testing.T) {
	for seed := range uint64(6) {
		h := open(t, &bench{devices: 1, rate: gig, kernel: gig}, virtual.Options{Seed: seed, Stamps: true})
		p, err := h.c.Build(bg, kernels.Program())
		require.NoError(t, err)
		k, err := p.Kernel("copy")
		require.NoError(t, err)
		x := h.buffer(4096)
		h.runs(func() {
			h.write(0, x, make([]byte, 4096))
			h.ok(h.qs[0].EnqueueLaunch(bg, runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.In(x), runtime.Out(x), runtime.Uint64(64)}}))
		})
		seen := h.w.Seen(2)
		require.NotEmpty(t, seen)
		for _, s := range seen {
			require.EqualValues(t, 1, s.First.By, "seed %d: %+v", seed, s)
		}
	}
}

// Else the host says, when it is closed, what is still in use.
func TestWhatAMappingFoundWithoutBytesIsGivenBack(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig}, virtual.Options{Stamps: true})
	x, err := h.c.CreateBuffer(1<<20, 0, nil)
	require.NoError(t, err)
	h.runs(func() {
		m, e, err := h.qs[0].EnqueueMap(bg, x, 0, 1<<20, runtime.MapRead|runtime.MapWrite)
		h.ok(e, err)
		h.ok(h.qs[0].EnqueueUnmap(bg, m))
	})
	require.NoError(t, x.Release())
}

func TestAWaitThatNothingCanEndFailsAndNamesWhatIsMissing(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig}, virtual.Options{})
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	e, err := h.qs[0].EnqueueMarker(bg, gate)
	require.NoError(t, err)
	err = e.Wait(bg)
	require.ErrorIs(t, err, devices.ErrStuck)
	require.ErrorContains(t, err, "user#1")
	require.ErrorIs(t, h.qs[0].Finish(bg), devices.ErrStuck)
	require.ErrorIs(t, h.qs[0].Close(), devices.ErrStuck, "a queue that cannot be drained")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, e.Wait(bg))
	require.NoError(t, h.qs[0].Finish(bg))
	var stuck *virtual.StuckError
	require.False(t, errors.As(e.Wait(bg), &stuck))
}

func TestThreadsGoInTheOrderOfTheirClocks(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, call: 1000}, virtual.Options{})
	var order []string
	at := func(who string, n int) func() {
		return func() {
			for range n {
				require.NoError(t, h.w.Pause(bg, 0))
				e, err := h.c.NewUserEvent()
				require.NoError(t, err)
				order = append(order, fmt.Sprintf("%s%d", who, h.w.Time()))
				require.NoError(t, e.SetStatus(0))
				require.NoError(t, e.Release())
			}
		}
	}
	start := h.w.Time()
	require.Zero(t, start-h.w.Time())
	require.NoError(t, h.w.Threads(at("a", 2), at("b", 2)))
	base := start + 1000
	require.Equal(t, []string{fmt.Sprintf("a%d", base), fmt.Sprintf("b%d", base), fmt.Sprintf("a%d", base+2000), fmt.Sprintf("b%d", base+2000)}, order)
}

// What is still under way when the program ends is waited for in the same order each time.
func TestClosingWithWorkUnderWayTakesTheSameTimeEachTime(t *testing.T) {
	ends := func() string {
		told := &teller{}
		b := &bench{devices: 8, rate: gig, latency: 1500, setup: 700, kernel: 100 * gig, call: 1000}
		w, err := virtual.New(b, virtual.Options{Observer: told})
		require.NoError(t, err)
		c, err := runtime.NewContext(runtime.Options{Devices: w.Devices(), Host: w.Host(), Executor: w, OwnDevices: true})
		require.NoError(t, err)
		for i, d := range w.Devices() {
			q, err := c.NewQueue(d, runtime.QueueOptions{})
			require.NoError(t, err)
			x, err := c.CreateBuffer(1<<20, 0, nil)
			require.NoError(t, err)
			e, err := q.EnqueueWrite(bg, x, 0, make([]byte, 1000*((i*5)%8+1)))
			require.NoError(t, err)
			gate, err := c.NewUserEvent()
			require.NoError(t, err)
			require.NoError(t, gate.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) { fmt.Fprintln(&told.out, "gate", i) }))
			require.NoError(t, gate.Release())
			require.NoError(t, e.Release())
		}
		require.ErrorIs(t, c.Close(bg), runtime.ErrLeak)
		return fmt.Sprint(told.out.String(), "end ", w.Time())
	}
	first := ends()
	for range 5 {
		require.Equal(t, first, ends())
	}
}

func TestAMoverThatCannotCloseStaysOpenUntilItCan(t *testing.T) {
	for _, way := range []mem.Way{mem.Direct, mem.Ring} {
		w, err := virtual.New(&bench{devices: 2, rate: gig, peers: gig}, virtual.Options{})
		require.NoError(t, err)
		devs := []devices.Device{w.Host(), w.Devices()[0], w.Devices()[1]}
		o := mover.Options{Executor: w}
		var ends [3]mover.End
		for i, d := range devs {
			block := make([]mem.Block, 1)
			got, err := d.Memory().AllocAll([]mem.Request{{Size: 1 << 20}}, block, nil)
			require.NoError(t, err)
			require.Equal(t, mem.Ready, got)
			ends[i] = mover.End{Memory: mem.MemoryID(i), Block: block[0]}
			o.Memories = append(o.Memories, mover.Memory{Device: d, Name: d.Info().Name})
		}
		m, err := mover.Open(o)
		require.NoError(t, err)
		gates := mem.NewTimeline("gates", false, nil)
		gate := gates.Next()
		x := mover.Transfer{Way: way, From: ends[1], To: ends[2:], Size: 1 << 20, Waits: []mem.Wait{{Point: gate}}, Points: make([]mem.Point, 1)}
		require.NoError(t, m.Move(&x))
		require.ErrorIs(t, m.Close(), devices.ErrStuck)
		require.ErrorIs(t, m.Close(), devices.ErrStuck)
		gates.End(gate, nil)
		require.NoError(t, m.Close())
		require.NoError(t, x.Points[0].Err())
		require.ErrorIs(t, m.Close(), mem.ErrClosed)
		for i, d := range devs {
			require.NoError(t, d.Memory().FreeAfter(ends[i].Block, nil))
			require.NoError(t, d.Close(), "no queue is open")
		}
	}
}

// Each function's own wait fails, not that for all of them, so that none is left behind.
func TestThreadsReturnsWhenAllHaveEndedThoughTheirWaitsAreStuck(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, call: 1000}, virtual.Options{})
	gate, err := h.c.NewUserEvent()
	require.NoError(t, err)
	e, err := h.qs[0].EnqueueMarker(bg, gate)
	require.NoError(t, err)
	var errs []error
	wait := func() { errs = append(errs, e.Wait(bg)) }
	require.NoError(t, h.w.Threads(wait, func() {
		require.NoError(t, h.w.Pause(bg, 1000))
		require.NoError(t, h.w.Threads(wait, wait))
	}))
	require.Len(t, errs, 3)
	for _, err := range errs {
		require.ErrorIs(t, err, devices.ErrStuck)
	}
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, e.Wait(bg))
}

// Closing waits for callbacks, whose waits fail before its own.
func TestCloseWaitsForACallbackThatIsStuck(t *testing.T) {
	w, err := virtual.New(&bench{devices: 1, rate: gig}, virtual.Options{})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: w.Devices(), Host: w.Host(), Executor: w, OwnDevices: true})
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	var stuck error
	require.NoError(t, gate.OnStatus(runtime.Complete, func(runtime.Event, runtime.ExecStatus) {
		require.NoError(t, w.Pause(bg, time.Millisecond)) // so that its clock is not the first
		stuck = w.Sleep(bg, words("what nobody does"), make(chan struct{}))
	}))
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, gate.Release())
	require.NoError(t, c.Close(bg))
	require.ErrorIs(t, stuck, devices.ErrStuck)
	require.ErrorContains(t, stuck, "what nobody does")
}

type words string

func (s words) String() string { return string(s) }

func TestCloseWithinEndsThoughACommandWaitsForTheProgram(t *testing.T) {
	w, err := virtual.New(&bench{devices: 1, rate: gig}, virtual.Options{})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: w.Devices(), Host: w.Host(), Executor: w, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(w.Devices()[0], runtime.QueueOptions{})
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	_, err = q.EnqueueMarker(bg, gate)
	require.NoError(t, err)
	require.NoError(t, c.CloseWithin(bg))
}

func TestTimeStopsAtItsEndInsteadOfBeginningAgain(t *testing.T) {
	const end = uint64(math.MaxInt64)
	for name, b := range map[string]*bench{
		"setup":   {setup: math.MaxUint64},
		"both":    {setup: end / 2, latency: end/2 + 10},
		"latency": {latency: math.MaxUint64},
		"calls":   {call: end / 2},
		"kernel":  {},
	} {
		b.devices, b.rate, b.chunk = 2, gig, 4096
		h := open(t, b, virtual.Options{Fail: []virtual.Failure{{Memory: 2, At: math.MaxUint64}}})
		p, err := h.c.Build(bg, kernels.Program())
		require.NoError(t, err)
		k, err := p.Kernel("copy")
		require.NoError(t, err)
		last := h.w.Time()
		goesOn := func() {
			t.Helper()
			require.GreaterOrEqual(t, h.w.Time(), last, name)
			last = h.w.Time()
		}
		x, z := h.buffer(1<<16), h.buffer(1<<16)
		for range 3 {
			h.write(0, x, make([]byte, 1<<16))
			e, err := h.qs[0].EnqueueLaunch(bg, runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.In(x), runtime.Out(z), runtime.Uint64(0)}, Takes: math.MaxInt64 / 2})
			h.ok(e, err)
			h.migrate(1, x)
			for _, q := range h.qs {
				if err := q.Finish(bg); err != nil {
					require.ErrorIs(t, err, virtual.ErrInjected)
				}
				goesOn()
			}
			require.NoError(t, h.w.Pause(bg, math.MaxInt64/2))
			goesOn()
		}
		require.Equal(t, end, h.w.Time(), name)
	}
}
