package devicetest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/mover"
	"godwit/mem"
)

// testOverLinks has a mover bring bytes over the link of two devices, there and back at once: from window
// to window, and by window between blocks that lie in none, where the device has such; in chunks and
// whole, behind a gate and behind one that fails.
func testOverLinks(e *env) {
	other := e.on(e.openDevice())
	a, ok := e.dev.(devices.Windowed)
	_, also := other.dev.(devices.Windowed)
	if !ok || !also {
		e.t.Skip("the device has no windows")
	}
	const size = 1<<20 + 12345
	if n := e.dev.Info().GlobalMemory; n != 0 && n < 4*size {
		e.t.Skip("memory too small")
	}
	sides := []*env{e, other}
	var plain, windows [2]mem.Block
	for i, s := range sides { // before there are windows, and after
		plain[i] = s.alloc(size)
	}
	if err := a.Windows(e.ctx, other.dev); err != nil {
		e.t.Skip("the devices have no link: ", err)
	}
	for i, s := range sides {
		windows[i] = s.alloc(size)
	}
	host := engine.NewHost(engine.HostOptions{})
	e.t.Cleanup(func() { require.NoError(e.t, host.Close()) })
	m, topo := e.mover(4<<20, host, e.dev, other.dev), mem.NewTopology("0", "1")
	require.NoError(e.t, m.Measure(e.ctx, topo, new(mover.Figures)))
	require.NoError(e.t, m.OpenLinks(e.ctx))
	require.True(e.t, m.Adopt(topo, func(_, _ mem.MemoryID) bool { return false }))
	l := &overLinks{m: m, sides: sides}
	for i, s := range sides {
		l.queues[i] = s.inOrder()
	}
	l.all(mem.Linked, windows)
	l.all(mem.Windows, windows)
	l.all(mem.Windows, plain)
	require.NoError(e.t, m.Check())
}

// overLinks is two devices with a link that is open, and a queue each.
type overLinks struct {
	m      *mover.Mover
	sides  []*env
	queues [2]devices.Queue
	round  uint64
}

// all moves ranges of several sizes between two blocks, each of which has room for one of either direction.
func (l *overLinks) all(way mem.Way, blocks [2]mem.Block) {
	half := blocks[0].Size / 2
	for _, size := range []uint64{1, 4096, 100_001, half - 100} {
		for _, gated := range []bool{false, true} {
			l.both(way, blocks, size, gated)
		}
	}
	line := users()
	gate := line.Next()
	p := l.move(way, blocks, 0, 4096, data(gate))
	line.End(gate, errTest)
	require.ErrorIs(l.sides[0].t, l.sides[0].failed(p), errTest)
}

// both moves size bytes from each of two devices to the other: out of the first half of its block, into the second.
func (l *overLinks) both(way mem.Way, blocks [2]mem.Block, size uint64, gated bool) {
	l.round++
	var want [2][]byte
	var points [2]mem.Point
	var waits []mem.Wait
	for i, s := range l.sides {
		want[i] = noise(l.round*2+uint64(i), int(size))
		waits = append(waits, data(s.write(l.queues[i], blocks[i], 33, want[i])))
	}
	line := users()
	gate := line.Next()
	if gated {
		waits = append(waits, order(gate))
	}
	for from := range 2 {
		points[from] = l.move(way, blocks, from, size, waits...)
	}
	if gated {
		require.False(l.sides[0].t, points[0].Reached() || points[1].Reached())
	}
	line.End(gate, errTest) // an Order wait only delays
	for from, p := range points {
		s, q := l.sides[1-from], l.queues[1-from]
		require.NoError(s.t, l.m.Wait(s.context(), p))
		got := make([]byte, size)
		s.wait(q, s.read(q, blocks[1-from], blocks[1-from].Size/2, got))
		s.equal(want[from], got, fmt.Sprintf("%v, %d bytes from device %d, gated %t", way, size, from, gated))
	}
}

// move begins a copy of size bytes from one device to the other.
func (l *overLinks) move(way mem.Way, blocks [2]mem.Block, from int, size uint64, waits ...mem.Wait) mem.Point {
	to, out := 1-from, make([]mem.Point, 1)
	t := mover.Transfer{
		Way: way, Size: size, Waits: waits, Points: out,
		From: mover.End{Memory: mem.MemoryID(from + 1), Block: blocks[from], Off: 33},
		To:   []mover.End{{Memory: mem.MemoryID(to + 1), Block: blocks[to], Off: blocks[to].Size / 2}},
	}
	require.NoError(l.sides[from].t, l.m.Move(&t))
	return out[0]
}
