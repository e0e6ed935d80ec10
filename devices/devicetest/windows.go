package devicetest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// windowSize is that of the blocks that have to lie in windows.
const windowSize = 1 << 20

// testWindows has two devices with a link copy between windows: the right bytes, in the right
// order, with failures passed on as by any command.
func testWindows(e *env) {
	other := e.on(e.openDevice())
	a, ok := e.dev.(devices.Windowed)
	b, also := other.dev.(devices.Windowed)
	if !ok || !also {
		e.t.Skip("the device has no windows")
	}
	if err := a.Windows(e.ctx, other.dev); err != nil {
		require.Error(e.t, a.Connect(e.ctx, other.dev))
		require.Error(e.t, a.Connected(other.dev))
		e.t.Skip("the devices have no link: ", err)
	}
	w := &windows{sides: [2]*env{e, other}}
	for i, s := range w.sides {
		w.blocks[i] = s.alloc(windowSize)
		w.queues[i] = s.outOfOrder()
	}
	require.True(e.t, a.InWindow(w.blocks[0]))
	require.True(e.t, b.InWindow(w.blocks[1]))
	if a.Connected(other.dev) != nil {
		w.refused(1)
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_ = a.Connect(ctx, other.dev) // perhaps it was quick
	}
	require.NoError(e.t, a.Connect(e.ctx, other.dev))
	require.NoError(e.t, b.Connect(e.ctx, e.dev), "the other way it is the same link")
	require.NoError(e.t, a.Connected(other.dev))
	require.NoError(e.t, b.Connected(e.dev))
	w.baton()
	w.parts()
	w.waits()
	w.rules()
}

// windows is a block in a window of each of two devices, and a queue.
type windows struct {
	sides  [2]*env
	blocks [2]mem.Block
	queues [2]devices.Queue
}

// hop is a copy into the window of side to.
func (w *windows) hop(to int, dst, src, size uint64) *devices.Command {
	return &devices.Command{Op: devices.OpCopy, Size: size, Dst: w.sides[to].at(w.blocks[to], dst), Src: w.sides[1-to].at(w.blocks[1-to], src)}
}

func (w *windows) submit(to int, dst, src, size uint64, waits ...mem.Wait) mem.Point {
	return w.sides[to].submit(w.queues[to], w.hop(to, dst, src, size), waits...)
}

// refused says that a copy into a side's window is not done: it is refused, or fails.
func (w *windows) refused(to int) {
	p, err := w.queues[to].Submit(w.hop(to, 0, 0, 4096), nil)
	if err == nil {
		err = w.sides[to].failed(p)
	}
	require.ErrorIs(w.sides[to].t, err, mem.ErrInvalidOperation)
}

// baton hands bytes to and fro, each side changing some of them, with nobody waiting in
// between.
func (w *windows) baton() {
	const rounds = 20
	want := noise(1, windowSize)
	last := w.sides[0].write(w.queues[0], w.blocks[0], 0, slices.Clone(want)) // want changes before that has run
	for r := range rounds {
		x := r % 2
		at := uint64(r) * 4096
		last = w.sides[x].fill(w.queues[x], w.blocks[x], at, 4096, []byte{byte(r)}, data(last))
		for i := range want[at : at+4096] {
			want[at+uint64(i)] = byte(r)
		}
		last = w.submit(1-x, 0, 0, windowSize, data(last))
	}
	got := make([]byte, windowSize)
	last = w.sides[rounds%2].read(w.queues[rounds%2], w.blocks[rounds%2], 0, got, data(last))
	w.sides[rounds%2].wait(w.queues[rounds%2], last)
	w.sides[0].equal(want, got, "what was handed around")
}

// parts copies many parts at once, both ways.
func (w *windows) parts() {
	const n, size = 64, windowSize / 2 / 64
	var want, got [2][]byte
	var points []mem.Wait
	for i, s := range w.sides {
		want[i], got[i] = noise(uint64(i+2), windowSize/2), make([]byte, windowSize/2)
		points = append(points, order(s.write(w.queues[i], w.blocks[i], 0, want[i])))
	}
	var ends [2][]mem.Wait
	for k := range uint64(n) {
		for to := range 2 { // the parts arrive in the other order, one byte off
			ends[to] = append(ends[to], data(w.submit(to, windowSize/2+(n-1-k)*size+1, k*size, size-1, points...)))
		}
	}
	for i, s := range w.sides {
		s.wait(w.queues[i], s.read(w.queues[i], w.blocks[i], windowSize/2, got[i], ends[i]...))
		for k := range n {
			part, from := got[i][(n-1-k)*size+1:(n-k)*size], want[1-i][k*size:(k+1)*size-1]
			s.equal(from, part, "a part")
		}
	}
}

// waits: a hop waits for what it is given, passes the failure of a Data wait on, and is
// waited for like any command, in the order of its queue where that has one.
func (w *windows) waits() {
	s, line := w.sides[1], users()
	gate := line.Next()
	held := w.submit(1, 0, 0, windowSize, order(gate))
	behind := s.submit(w.queues[1], marker(), data(held))
	free := w.submit(1, 0, 0, 4096)
	s.wait(w.queues[1], free)
	require.False(s.t, held.Reached() || behind.Reached())
	line.End(gate, errTest)
	s.wait(w.queues[1], held, behind)

	failed := w.submit(1, 0, 0, 4096, data(gate))
	require.ErrorIs(s.t, s.failed(failed), mem.ErrDependency)
	require.ErrorIs(s.t, s.failed(w.submit(0, 0, 0, 4096, data(failed))), errTest)
	w.sides[0].wait(w.queues[0], w.submit(0, 0, 0, 4096, order(failed)))

	inOrder := s.inOrder()
	first := s.submit(inOrder, w.hop(1, 0, 0, windowSize))
	last := s.submit(inOrder, marker())
	s.wait(inOrder, last)
	require.True(s.t, first.Reached())
}

// rules: what is not in the blocks is refused.
func (w *windows) rules() {
	for _, c := range []*devices.Command{
		w.hop(1, windowSize-1, 0, 2), w.hop(1, 0, windowSize, 1), w.hop(1, ^uint64(0), 0, 2),
	} {
		_, err := w.queues[1].Submit(c, nil)
		require.Error(w.sides[1].t, err)
	}
}
