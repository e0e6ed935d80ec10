package profile_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/internal/network"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/machine"
	"godwit/study/profile"
)

var bg = context.Background()

const twoGPUs = `
host: {bandwidth: 100 GB/s, enqueue: 1 us, poll: 2 us}
devices: [{name: g, count: 2, copy: 3 us, launch: 5 us, bandwidth: 1 TB/s}]
links:
- {between: [host, g], latency: 4 us, bandwidth: 10 GB/s}
`

const peers = twoGPUs + "- {between: [g, g], latency: 1 us, bandwidth: 20 GB/s}\n"

// carried has threads of the host hand commands over.
var carried = strings.Replace(peers, "copy: 3 us,", `copy: 3 us, classes: {fill: {enqueue: 2 us, submit: 1 us}, up: {by: program, submit: 2 us}, peer: {by: pilot, enqueue: 3 us, hold: 4 us, submit: 1 us}},
  handover: {queue: {delay: 500 ns}, library-pilot: {hold: 1 us, delay: 9 us}, pilot-library: {hold: 5 us, delay: 7 us}, program-pilot: {delay: 3 us}, pilot-pilot: {hold: 1 us}},`, 1)

// bench is a context on a machine, recorded.
type bench struct {
	*testing.T
	w   *virtual.World
	rec *profile.Recorder
	c   *runtime.Context
	q   []*runtime.Queue
}

func open(t *testing.T, text string, seed uint64) *bench {
	m, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
	require.NoError(t, err)
	b := &bench{T: t, rec: profile.New()}
	b.w, err = virtual.New(m, virtual.Options{Observer: b.rec, Seed: seed})
	require.NoError(t, err)
	b.c, err = runtime.NewContext(runtime.Options{Name: t.Name(), Devices: b.w.Devices(), Host: b.w.Host(), Executor: b.w, OwnDevices: true})
	require.NoError(t, err)
	for _, d := range b.w.Devices() {
		q, err := b.c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		b.q = append(b.q, q)
	}
	t.Cleanup(func() { require.NoError(t, b.c.Close(bg)) })
	return b
}

func (b *bench) buffer(size uint64) *runtime.Buffer {
	x, err := b.c.CreateBuffer(size, 0, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, x.Release()) })
	return x
}

func (b *bench) ok(e runtime.Event, err error) {
	require.NoError(b, err)
	if !e.IsZero() {
		require.NoError(b, e.Release())
	}
}

// tiles holds a path against what every path is: a tiling of the time.
func (b *bench) tiles(path []profile.Part, end int64) {
	at := int64(0)
	for i, p := range path {
		require.Equal(b, at, p.From, "part %d of %d begins where the one before ends", i, len(path))
		require.Greater(b, p.To, p.From, "part %d", i)
		if p.Span != nil {
			require.LessOrEqual(b, p.To, p.Span.Ended)
			require.GreaterOrEqual(b, p.From, p.Span.Ready)
		}
		at = p.To
	}
	require.Equal(b, end, at)
}

// A write of 1 MB, and a wait: the host enqueues, the copy goes, the host is woken.
func TestTheCriticalPathOfOneCopy(t *testing.T) {
	b := open(t, twoGPUs, 0)
	x := b.buffer(1e6)
	began := int64(b.w.Time())
	b.ok(b.q[0].EnqueueWrite(bg, x, 0, make([]byte, 1e6)))
	require.NoError(t, b.q[0].Finish(bg))
	end := int64(b.w.Time())
	path := b.rec.Path(0, end, 0, nil)
	b.tiles(path, end)
	require.Len(t, path, 3)
	require.Nil(t, path[0].Span)
	require.Equal(t, began+1000, path[0].To, "the host enqueues")
	require.NotNil(t, path[1].Span)
	require.Equal(t, int64(3000+100_000+4000), path[1].To-path[1].From, "setup, bytes, latency")
	require.Equal(t, profile.Enqueued, path[1].After)
	require.Nil(t, path[2].Span)
	require.Equal(t, int64(2000), path[2].To-path[2].From, "and is woken")
	require.Equal(t, "the end it waited for", path[2].After.String())
}

// Two copies of one engine: the second comes behind the first, and a fill behind both
// waits for the last.
func TestTheCriticalPathLeadsThroughEnginesAndWaits(t *testing.T) {
	b := open(t, twoGPUs, 0)
	x, y := b.buffer(1e6), b.buffer(1e6)
	b.ok(b.q[0].EnqueueWrite(bg, x, 0, make([]byte, 1e6)))
	b.ok(b.q[0].EnqueueWrite(bg, y, 0, make([]byte, 1e6)))
	b.ok(b.q[0].EnqueueFill(bg, y, []byte{1}, 0, 1e6))
	require.NoError(t, b.q[0].Finish(bg))
	end := int64(b.w.Time())
	path := b.rec.Path(0, end, 0, nil)
	b.tiles(path, end)
	var spans []*profile.Span
	for _, part := range path {
		if part.Span != nil {
			spans = append(spans, part.Span)
		}
	}
	require.Len(t, spans, 3, "%+v", path)
	require.Equal(t, uint64(1e6), spans[2].Bytes)
	require.Equal(t, spans[1].Point, spans[2].Cause, "the fill waited for the write")

	engines := b.rec.EngineUse(6)
	require.Equal(t, 2, engines[1].Spans, "copies into the first device")
	require.Equal(t, 1, engines[0].Spans, "its kernels")
	require.Zero(t, engines[3].Spans+engines[4].Spans+engines[5].Spans, "nothing on the other")
	devices := b.rec.MemoryUse(3)
	require.Equal(t, 3, devices[1].Spans)
	require.LessOrEqual(t, devices[1].Busy, end)
}

// A hop behind a fill: the time between is the host's, and its pilot is busy with it.
func TestAHandOverIsTheHosts(t *testing.T) {
	b := open(t, carried, 0)
	x := b.buffer(1e6)
	b.ok(b.q[0].EnqueueFill(bg, x, []byte{1}, 0, 1e6))
	b.ok(b.q[1].EnqueueMigrate(bg, []*runtime.Buffer{x}, 0))
	require.NoError(t, b.q[1].Finish(bg))
	end := int64(b.w.Time())
	path := b.rec.Path(0, end, 0, nil)
	b.tiles(path, end)
	var took []int64
	var after []string
	for _, p := range path {
		took, after = append(took, p.To-p.From), append(after, p.After.String())
	}
	require.Equal(t, []int64{3000, 1000, 5000 + 1000, 9000 + 5000 + 1000, 3000 + 50_000 + 1000, 2000}, took, "enqueued, submitted, the fill, handed over, the hop, woken")
	require.Equal(t, []string{"the start", "the host", "its hand-over", "what it waited for", "its hand-over", "the end it waited for"}, after)
	pilot := b.rec.EngineUse(8)[1]
	require.Equal(t, 1, pilot.Spans)
	require.Equal(t, int64(5000), pilot.Busy)
}

// Whatever ran, the parts of the path tile the time, and each but the first follows from
// what it says: nothing begins before its cause has ended.
func TestThePathsOfRandomRunsTileTheTime(t *testing.T) {
	for seed := range uint64(30) {
		b := open(t, []string{twoGPUs, peers, carried}[seed%3], seed/3)
		r := rand.New(rand.NewPCG(seed, 17))
		var buffers []*runtime.Buffer
		for range 4 {
			buffers = append(buffers, b.buffer(64<<10))
		}
		data := make([]byte, 64<<10)
		for range 60 {
			q, x := b.q[r.IntN(2)], buffers[r.IntN(4)]
			switch r.IntN(4) {
			case 0:
				b.ok(q.EnqueueWrite(bg, x, 0, data[:1+r.IntN(len(data))]))
			case 1:
				b.ok(q.EnqueueFill(bg, x, []byte{byte(r.IntN(256))}, 0, 64<<10))
			case 2:
				b.ok(q.EnqueueMigrate(bg, []*runtime.Buffer{x}, 0))
			default:
				require.NoError(t, q.Finish(bg))
			}
		}
		for _, q := range b.q {
			require.NoError(t, q.Finish(bg))
		}
		end := int64(b.w.Time())
		b.tiles(b.rec.Path(0, end, 0, nil), end)
		for _, s := range b.rec.Spans() {
			if c := b.rec.Of(s.Cause); c != nil {
				require.LessOrEqual(t, c.Ended, s.Started)
			}
			require.Equal(t, &b.rec.Spans()[s.Index], b.rec.Of(s.Point))
		}
	}
	require.Nil(t, profile.New().Of(mem.Point{}))
	require.Empty(t, profile.New().Path(0, 0, 0, nil))
}

func TestHowLongASpanWouldHaveTakenAlone(t *testing.T) {
	bandwidths := []uint64{2e9, 1e9, 1e9}
	for _, c := range []struct {
		path []network.Channel
		want int64
	}{
		{[]network.Channel{0}, 501},
		{[]network.Channel{0, 1}, 1001},
		{[]network.Channel{0, 1, 2, 2}, 2002},
	} {
		s := &profile.Span{Span: virtual.Span{Bytes: 1001, Path: c.path}}
		got, known := profile.Alone(s, bandwidths)
		require.True(t, known)
		require.Equal(t, c.want, got)
	}
	_, known := profile.Alone(&profile.Span{}, bandwidths)
	require.False(t, known)
}

// Two writes to two devices share the host's memory: each is beside the other, and a fill beside none.
func TestWhatIsBesideOnALink(t *testing.T) {
	b := open(t, strings.Replace(twoGPUs, "bandwidth: 100 GB/s", "bandwidth: 12 GB/s", 1), 0)
	x, y := b.buffer(1e6), b.buffer(1e6)
	b.ok(b.q[0].EnqueueWrite(bg, x, 0, make([]byte, 1e6)))
	b.ok(b.q[1].EnqueueWrite(bg, y, 0, make([]byte, 1e6)))
	require.NoError(t, b.q[0].Finish(bg))
	require.NoError(t, b.q[1].Finish(bg))
	path := b.rec.Path(0, int64(b.w.Time()), 0, nil)
	shared := 0
	for i, x := range b.rec.Beside(path) {
		if x.All == 0 {
			require.Empty(t, x.Longest)
			continue
		}
		shared++
		require.Len(t, x.Longest, 1)
		require.NotSame(t, path[i].Span, x.Longest[0])
		require.Less(t, x.Longest[0].Started, path[i].To)
		require.Greater(t, x.Longest[0].Ended, path[i].From)
	}
	require.Positive(t, shared)
}
