package virtual_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/runtime"
)

const (
	prefetches = 100
	piece      = 16 << 20 // bytes of a prefetch
	chunk      = 4 << 20
)

// takes is how long so many bytes take, in ns.
func takes(bytes uint64) uint64 { return bytes / 10 }

func reached(t *testing.T, e runtime.Event) bool {
	p, err := e.Point()
	require.NoError(t, err)
	return p.Reached()
}

// ahead is a house with a queue for prefetches to device 0, and content for them on the host, or on device 1.
type ahead struct {
	*house
	low  *runtime.Queue
	bufs []*runtime.Buffer // the last is no prefetch's
}

func newAhead(t *testing.T, b *bench, p devices.Priority, onHost bool) *ahead {
	b.devices, b.kernel, b.rate, b.setup = 2, 1000*gig, 10*gig, 1000
	a := &ahead{house: open(t, b, virtual.Options{Stamps: true})}
	var err error
	a.low, err = a.c.NewQueue(a.devs[0], runtime.QueueOptions{Name: "low", Priority: p, OutOfOrder: true})
	require.NoError(t, err)
	for range prefetches + 1 {
		a.bufs = append(a.bufs, a.buffer(piece))
	}
	a.runs(func() {
		for _, b := range a.bufs {
			a.ok(a.qs[1].EnqueueFill(bg, b, []byte{1}, 0, piece))
			if onHost {
				a.ok(a.qs[1].EnqueueMigrate(bg, []*runtime.Buffer{b}, runtime.MigrateToHost|runtime.ContentUndefined))
			}
		}
	})
	return a
}

// reads says how long a fill that needs the first bytes of a buffer on device 0 takes.
func (a *ahead) reads(b *runtime.Buffer, wait ...runtime.Event) uint64 {
	to := a.buffer(1 << 20)
	start := a.w.Time()
	e, err := a.qs[0].EnqueueCopy(bg, b, to, 0, 0, 1<<20, wait...)
	require.NoError(a, err)
	require.NoError(a, e.Wait(bg))
	require.NoError(a, e.Release())
	return a.w.Time() - start
}

func (a *ahead) prefetch() (last runtime.Event) {
	for i, b := range a.bufs[:prefetches] {
		e, err := a.low.EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)
		require.NoError(a, err)
		if last = e; i < prefetches-1 {
			require.NoError(a, e.Release())
		}
	}
	return last
}

// TestADemandCopyBehindAHundredPrefetchesBeginsAfterOneChunk of them, by every way; where all queues have one priority it waits for all of them.
func TestADemandCopyBehindAHundredPrefetchesBeginsAfterOneChunk(t *testing.T) {
	for name, way := range map[string]struct {
		machine bench
		onHost  bool
		fill    uint64 // bytes that a piece's first engine waits for
	}{"from the host": {onHost: true}, "in a ring": {fill: chunk / 8}, "between peers": {machine: bench{peers: 10 * gig}}} {
		m := way.machine
		alone := newAhead(t, &m, devices.PriorityLow, way.onHost)
		least := alone.reads(alone.bufs[prefetches])

		m = way.machine
		a := newAhead(t, &m, devices.PriorityLow, way.onHost)
		last := a.prefetch()
		took := a.reads(a.bufs[prefetches])
		t.Log(name, "alone", least, "ns, behind prefetches", took)
		require.LessOrEqual(t, took, least+takes(chunk+way.fill)+2*1000+10, name)
		require.False(t, reached(t, last), name)

		took = a.reads(a.bufs[prefetches/2]) // a prefetch's own
		require.LessOrEqual(t, took, least+takes(chunk+piece)+20_000, "%s: raised", name)
		require.False(t, reached(t, last), name)
		took = a.reads(a.bufs[prefetches], last) // all of them
		require.Greater(t, took, takes(prefetches/2*piece), name)
		require.NoError(t, last.Release())
		require.EqualValues(t, prefetches, a.c.MoverStats().Yielded)
		require.NoError(t, a.low.Finish(bg))

		m = way.machine
		same := newAhead(t, &m, devices.PriorityNormal, way.onHost)
		require.NoError(t, same.prefetch().Release())
		require.Greater(t, same.reads(same.bufs[prefetches]), takes(prefetches*piece), name)
		require.Zero(t, same.c.MoverStats().Yielded)
		require.NoError(t, same.low.Finish(bg))
	}
}

// TestNothingThatGivesWayStarves beside copies without end that do not.
func TestNothingThatGivesWayStarves(t *testing.T) {
	a := newAhead(t, &bench{}, devices.PriorityLow, true)
	last := a.prefetch()
	demands := 0
	for ; !reached(t, last); demands++ {
		require.Less(t, demands, 10_000)
		a.ok(a.qs[0].EnqueueMigrate(bg, []*runtime.Buffer{a.bufs[prefetches]}, runtime.MigrateToHost))
		a.ok(a.qs[1].EnqueueFill(bg, a.bufs[prefetches], []byte{1}, 0, piece))
		a.reads(a.bufs[prefetches])
	}
	t.Log(demands, "demand copies meanwhile")
	require.NoError(t, last.Release())
}

// TestReadyCommandsOfAQueueOfHigherPriorityBeginFirst, but none is overtaken for ever.
func TestReadyCommandsOfAQueueOfHigherPriorityBeginFirst(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, kernel: gig}, virtual.Options{})
	queue := func(p devices.Priority) *runtime.Queue {
		q, err := h.c.NewQueue(h.devs[0], runtime.QueueOptions{Priority: p, OutOfOrder: true})
		require.NoError(t, err)
		h.qs = append(h.qs, q)
		return q
	}
	low, high := queue(devices.PriorityLow), queue(devices.PriorityHigh)
	fill := func(q *runtime.Queue) runtime.Event {
		e, err := q.EnqueueFill(bg, h.buffer(1000), []byte{1}, 0, 1000)
		require.NoError(t, err)
		return e
	}
	first, patient := fill(h.qs[0]), fill(low)
	normal := fill(h.qs[0])
	var highs []runtime.Event
	for range devices.MostOvertaken {
		highs = append(highs, fill(high))
	}
	require.NoError(t, first.Wait(bg))
	require.NoError(t, highs[devices.MostOvertaken-2].Wait(bg))
	require.False(t, reached(t, patient))
	require.NoError(t, patient.Wait(bg))
	require.NoError(t, normal.Wait(bg))
	for _, e := range append(highs, first, patient, normal) {
		require.NoError(t, e.Release())
	}
	h.runs(func() {})
}

func TestAPriorityThatIsNoneIsRefused(t *testing.T) {
	h := open(t, &bench{devices: 1, rate: gig, kernel: gig}, virtual.Options{})
	_, err := h.c.NewQueue(h.devs[0], runtime.QueueOptions{Priority: 2})
	require.ErrorContains(t, err, "priority 2: -1 to 1")
}
