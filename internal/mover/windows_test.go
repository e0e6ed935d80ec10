package mover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/internal/mover"
	"godwit/mem"
)

// linkedFabric is n devices with links, which are open, and a block each of which half
// lies in windows: that is enough for tests, which say the way.
type linkedFabric struct {
	m       *mover.Mover
	devs    []devices.Device
	ends    []mover.End
	queues  []devices.Queue
	submits devicetest.Submits
	topo    *mem.Topology
	apart   []int
	fails   chan struct{}
}

// partner is a device with windows, but for those that are apart.
type partner struct {
	devices.Windowed
	i     int
	apart []int
	fails chan struct{} // not nil: its links cannot be opened, which it finds out once this is closed
}

func (p *partner) Connect(ctx context.Context, other devices.Device) error {
	if p.fails != nil {
		<-p.fails
		return errTest
	}
	return p.Windowed.Connect(ctx, other)
}

func (p *partner) Unwrap() devices.Device { return devicetest.Unwrap(p.Windowed) }

func (p *partner) Windows(ctx context.Context, other devices.Device) error {
	if o, ok := other.(*partner); ok && slices.Contains(p.apart, p.i) && slices.Contains(p.apart, o.i) {
		return fmt.Errorf("%d and %d are apart: %w", p.i, o.i, mem.ErrInvalidOperation)
	}
	return p.Windowed.Windows(ctx, other)
}

func newLinkedFabric(t *testing.T, n int, o mover.Options) *linkedFabric {
	// Little memory, so that rings have a few slots only.
	f := fabricOf(t, n, o, tce.Options{Windows: 1, Memory: 16 << 20}, blockSize)
	require.NoError(t, f.m.OpenLinks(ctx))
	require.True(t, f.adopt())
	return f
}

// fabricOf is one whose links nobody has asked for.
func fabricOf(t *testing.T, n int, o mover.Options, kind tce.Options, size uint64) *linkedFabric {
	return fabricApart(t, n, o, kind, size, nil)
}

// fabricApart is one of which two devices, by their numbers, have no link.
func fabricApart(t *testing.T, n int, o mover.Options, kind tce.Options, size uint64, two []int) *linkedFabric {
	return (&linkedFabric{topo: mem.NewTopology("1", "2", "3", "4"), apart: two}).open(t, n, o, kind, size)
}

// open opens n devices and a mover over them.
func (f *linkedFabric) open(t *testing.T, n int, o mover.Options, kind tce.Options, size uint64) *linkedFabric {
	host, err := tce.New(tce.Options{Name: "host"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close()) })
	o.Memories = []mover.Memory{{Device: host, Name: "host"}}
	for i := range n {
		kind.Name = fmt.Sprint("tce", i)
		d, err := tce.New(kind)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		q, err := d.NewQueue(devices.QueueOptions{Name: "test"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, q.Close()) })
		f.queues, f.devs = append(f.queues, q), append(f.devs, d)
		f.ends = append(f.ends, mover.End{Memory: mem.MemoryID(i + 1), Block: alloc(t, d, size)})
		o.Memories = append(o.Memories, mover.Memory{Device: &partner{devicetest.FailNth(d, &f.submits).(devices.Windowed), i, f.apart, f.fails}, Name: fmt.Sprint(i)})
	}
	f.m, err = mover.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, f.m.Check())
		require.NoError(t, f.m.Close())
	})
	require.NoError(t, f.m.Measure(ctx, f.topo, new(mover.Figures)))
	return f
}

// adopt tells the topology what is open, and reports whether that is news.
func (f *linkedFabric) adopt() bool {
	return f.m.Adopt(f.topo, func(_, _ mem.MemoryID) bool { return false })
}

func (f *linkedFabric) copy(t *testing.T, i int, b []byte, into bool) {
	at, by := devices.Loc{Device: f.devs[i], Block: f.ends[i].Block}, devices.Loc{Bytes: b}
	cmd := devices.Command{Op: devices.OpCopy, Size: uint64(len(b)), Dst: by, Src: at}
	if into {
		cmd.Dst, cmd.Src = at, by
	}
	p, err := f.queues[i].Submit(&cmd, nil)
	require.NoError(t, err)
	require.NoError(t, p.Wait(ctx))
}

func (f *linkedFabric) read(t *testing.T, i int) []byte {
	b := make([]byte, f.ends[i].Block.Size)
	f.copy(t, i, b, false)
	return b
}

// move is a transfer from the first memory to the others, once waits are reached.
func (f *linkedFabric) move(way mem.Way, size uint64, waits ...mem.Wait) ([]mem.Point, error) {
	t := mover.Transfer{Way: way, From: f.ends[0], To: f.ends[1:], Size: size, Waits: waits, Points: make([]mem.Point, len(f.ends)-1)}
	err := f.m.Move(&t)
	return t.Points, err
}

// Who gives up waiting for links does not look at why they fail meanwhile.
func TestWaitingForLinksMayBeGivenUpWhileTheyFail(t *testing.T) {
	f := &linkedFabric{topo: mem.NewTopology("1", "2"), fails: make(chan struct{})}
	f.open(t, 2, mover.Options{}, tce.Options{Windows: 1, Memory: 16 << 20}, blockSize)
	over, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, f.m.OpenLinks(over), context.Canceled)
	close(f.fails)
	for err := context.Canceled; err != nil && !errors.Is(err, errTest); {
		err = f.m.OpenLinks(over)
	}
	require.ErrorIs(t, f.m.OpenLinks(ctx), errTest)
	require.False(t, f.m.Wants(&f.ends[0], &f.ends[1], 1<<30), "they have failed for good")
	require.False(t, f.adopt())
}

func TestChunksGoFromDeviceToDeviceByWindow(t *testing.T) {
	for _, way := range []mem.Way{mem.Windows, mem.Linked} {
		for n := 2; n <= 4; n++ {
			f := newLinkedFabric(t, n, mover.Options{Chunk: 8 << 10})
			for k, size := range []uint64{1, 4096, 8192, 8193, 100_001, blockSize} {
				want := pattern(byte(k))
				f.copy(t, 0, want, true)
				line := mem.NewTimeline("gate", false, nil)
				gate := line.Next()
				points, err := f.move(way, size, mem.Wait{Point: gate, Kind: mem.Data})
				require.NoError(t, err)
				for _, p := range points {
					require.False(t, p.Reached())
				}
				line.End(gate, nil)
				for i, p := range points {
					require.NoError(t, f.m.Wait(ctx, p))
					require.True(t, bytes.Equal(want[:size], f.read(t, i+1)[:size]), "%v, %d bytes to device %d of %d", way, size, i+1, n)
				}
				require.NoError(t, f.m.Check())
			}
			gate := mem.NewTimeline("gate", false, nil)
			p := gate.Next()
			points, err := f.move(way, blockSize, mem.Wait{Point: p, Kind: mem.Data})
			require.NoError(t, err)
			gate.End(p, errTest)
			for _, p := range points {
				require.ErrorIs(t, f.m.Wait(ctx, p), errTest)
			}
		}
	}
}

// Bytes go from one destination to the next only where these have a link, else from the source.
func TestByWindowTheNextDestinationHasALinkOrIsTheSources(t *testing.T) {
	f := fabricApart(t, 4, mover.Options{Chunk: 8 << 10}, tce.Options{Windows: 1, Memory: 16 << 20}, blockSize, []int{1, 2})
	require.NoError(t, f.m.OpenLinks(ctx))
	require.True(t, f.adopt())
	want := pattern(3)
	f.copy(t, 0, want, true)
	points, err := f.move(mem.Windows, blockSize)
	require.NoError(t, err)
	for i, p := range points {
		require.NoError(t, f.m.Wait(ctx, p), "device %d", i+1)
		require.True(t, bytes.Equal(want, f.read(t, i+1)), "device %d", i+1)
	}
}

// TestALegByWindowThatIsRefusedFailsWhoNeedsIt for every leg in turn: what lies before a
// device in the chain can have its bytes.
func TestALegByWindowThatIsRefusedFailsWhoNeedsIt(t *testing.T) {
	for _, devs := range []int{2, 4} { // to one destination chunks are pushed and pulled
		f := newLinkedFabric(t, devs, mover.Options{Chunk: 32 << 10})
		partly := 0
		for n := 1; ; n++ {
			want := pattern(byte(n))
			f.copy(t, 0, want, true)
			f.submits.Fail(n)
			points, err := f.move(mem.Windows, blockSize)
			good := 0
			if err == nil {
				for i, p := range points {
					if f.m.Wait(ctx, p) == nil {
						require.True(t, bytes.Equal(want, f.read(t, i+1)), "leg %d, device %d", n, i+1)
						good++
					}
				}
			}
			done := f.submits.Count() < n
			f.submits.Fail(0)
			require.NoError(t, f.m.Check())
			if done {
				require.Equal(t, devs-1, good)
				break
			}
			require.Less(t, good, devs-1, "leg %d", n)
			if good > 0 {
				partly++
			}
		}
		require.Equal(t, devs > 2, partly > 0)
	}
}

// TestRingsByWindowUseTheirSlotsInTurn has rings with many more chunks than slots, both ways at once, hold their bytes.
func TestRingsByWindowUseTheirSlotsInTurn(t *testing.T) {
	f := newLinkedFabric(t, 2, mover.Options{Chunk: 8 << 10})
	const half = blockSize / 2
	for round := range byte(20) {
		first, second := pattern(round), pattern(round+100)
		f.copy(t, 0, first, true)
		f.copy(t, 1, second, true)
		there := mover.Transfer{Way: mem.Windows, From: f.ends[0], To: f.ends[1:], Size: half, Points: make([]mem.Point, 1)}
		back := mover.Transfer{Way: mem.Windows, From: f.ends[1], To: []mover.End{f.ends[0]}, Size: half, Points: make([]mem.Point, 1)}
		back.From.Off, back.To[0].Off = half, half
		before := f.m.Stats()
		require.NoError(t, f.m.Move(&there))
		require.NoError(t, f.m.Move(&back))
		require.NoError(t, f.m.Wait(ctx, there.Points[0]))
		require.NoError(t, f.m.Wait(ctx, back.Points[0]))
		want := append(first[:half:half], second[half:]...)
		require.True(t, bytes.Equal(want, f.read(t, 0)))
		require.True(t, bytes.Equal(want, f.read(t, 1)))
		require.EqualValues(t, 2*3*20, f.m.Stats().Legs-before.Legs, "three legs for each of 20 chunks, each way")
		require.NoError(t, f.m.Check())
	}
}

func TestAWayOverLinksThatAreNotThereIsRefused(t *testing.T) {
	f := newLinkedFabric(t, 2, mover.Options{})
	tr := mover.Transfer{Way: mem.Linked, From: mover.End{Memory: 0}, To: f.ends[1:], Size: 1, Points: make([]mem.Point, 1)}
	require.ErrorIs(t, f.m.Move(&tr), mem.ErrInvalidOperation)
	require.False(t, f.adopt(), "nothing has changed")
	l := f.topo.Link(1, 2)
	require.True(t, l.Linked.There && l.Windows.There)
	require.LessOrEqual(t, l.Linked.Latency, l.Windows.Latency)
}

// TestArenasComeWithTheFirstRingOutsideWindows that is worth them: whose blocks are windows needs none.
func TestArenasComeWithTheFirstRingOutsideWindows(t *testing.T) {
	const size, windows, arena = 4 << 20, 6 << 20, 8 << 20
	f := fabricOf(t, 2, mover.Options{}, tce.Options{Windows: windows, Memory: arena * 64}, size)
	allocs := func() (n uint64) {
		for _, d := range f.devs {
			n += d.Memory().Stats().Allocs
		}
		return n
	}
	move := func(from, to mover.End, n uint64) {
		tr := mover.Transfer{Way: mem.Ring, From: from, To: []mover.End{to}, Size: n, Points: make([]mem.Point, 1)}
		require.False(t, f.m.Wants(&from, &to, n), "it is too small to wait")
		require.NoError(t, f.m.Move(&tr))
		require.NoError(t, f.m.Wait(ctx, tr.Points[0]))
	}
	adopted := func() {
		require.Eventually(t, f.adopt, 20*time.Second, time.Millisecond)
	}
	move(f.ends[0], f.ends[1], size)
	adopted()
	require.True(t, f.topo.Link(1, 2).Linked.There)
	require.False(t, f.topo.Link(1, 2).Windows.There)
	var inside []mover.End
	for i, d := range f.devs {
		inside = append(inside, mover.End{Memory: mem.MemoryID(i + 1), Block: alloc(t, d, windows)})
	}
	before := allocs()
	move(inside[0], inside[1], windows)
	move(f.ends[1], f.ends[0], size-1)
	tr := mover.Transfer{Way: mem.Windows, From: f.ends[0], To: f.ends[1:], Size: size, Points: make([]mem.Point, 1)}
	require.ErrorIs(t, f.m.Move(&tr), mem.ErrInvalidOperation, "nothing has opened arenas")
	require.Equal(t, before, allocs())
	move(f.ends[1], f.ends[0], size)
	adopted()
	require.True(t, f.topo.Link(2, 1).Windows.There)
	require.Equal(t, before+2, allocs())
}

// TestWhatIsLargeGoesFromOneDestinationToTheNext in pieces, and what is smaller to each from the source.
func TestWhatIsLargeGoesFromOneDestinationToTheNext(t *testing.T) {
	const large = 32 << 20
	f := fabricOf(t, 3, mover.Options{}, tce.Options{Windows: 1, Memory: 2 * large}, large)
	require.NoError(t, f.m.OpenLinks(ctx))
	want := make([]byte, large)
	for _, c := range []struct{ size, transfers, least uint64 }{{large - 1, 2, 2}, {large, 1, 4}} {
		for i := range want {
			want[i] = byte(i>>12) + byte(c.transfers)
		}
		f.copy(t, 0, want, true)
		before := f.m.Stats()
		points, err := f.move(mem.Linked, c.size)
		require.NoError(t, err)
		for i, p := range points {
			require.NoError(t, f.m.Wait(ctx, p))
			require.True(t, bytes.Equal(want[:c.size], f.read(t, i+1)[:c.size]))
		}
		after := f.m.Stats()
		require.Equal(t, c.transfers, after.Linked-before.Linked)
		require.GreaterOrEqual(t, after.Legs-before.Legs, c.least)
	}
}
