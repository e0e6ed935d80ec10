package devicetest

import (
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/mover"
	"godwit/mem"
)

// extent is a devices.Late whose part is known when ready is reached.
type extent struct {
	ready mem.Point
	part  mem.Range
	early atomic.Bool  // asked before
	asked atomic.Int32 // how often
	moved atomic.Int32
}

// Part implements devices.Late.
func (x *extent) Part() mem.Range {
	if !x.ready.Reached() {
		x.early.Store(true)
	}
	x.asked.Add(1)
	return x.part
}

// Moved implements devices.Late.
func (x *extent) Moved() { x.moved.Add(1) }

// testLate has copies find out what there is to move once their waits are
// reached: out of the device, into it, within it, and by a ring to another.
func testLate(e *env) {
	const size = 100_000
	other := e.on(e.openDevice())
	src, dst, away := e.alloc(size), e.alloc(size), other.alloc(size)
	q, line := e.outOfOrder(), users()
	plain, theirs := e.inOrder(), other.inOrder()
	m := e.mover(128<<10, e.dev, other.dev)
	want, host := noise(3, size), make([]byte, size)
	e.wait(plain, e.write(plain, src, 0, want))
	for _, part := range []mem.Range{{Start: 0, End: 40_000}, {Start: 12_345, End: 99_999}, {Start: 700, End: 700}, {Start: 0, End: 1 << 40}, {Start: 99_999, End: size}, {Start: size + 5, End: size + 9}} {
		inside := part.Intersect(mem.Range{End: size})
		for _, move := range []struct {
			name   string
			copy   func(l devices.Late, waits []mem.Wait) mem.Point
			clear  func()
			result func() []byte
		}{
			{"to the host", func(l devices.Late, waits []mem.Wait) mem.Point {
				return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: size, Late: l, Src: e.at(src, 0), Dst: devices.Loc{Bytes: host}}, waits...)
			}, func() { clear(host) }, func() []byte { return host }},
			{"from the host", func(l devices.Late, waits []mem.Wait) mem.Point {
				return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: size, Late: l, Dst: e.at(dst, 0), Src: devices.Loc{Bytes: want}}, waits...)
			}, func() { e.wait(plain, e.fill(plain, dst, 0, size, []byte{0})) }, func() []byte { return e.content0(plain, dst, size) }},
			{"within", func(l devices.Late, waits []mem.Wait) mem.Point {
				return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: size, Late: l, Dst: e.at(dst, 0), Src: e.at(src, 0)}, waits...)
			}, func() { e.wait(plain, e.fill(plain, dst, 0, size, []byte{0})) }, func() []byte { return e.content0(plain, dst, size) }},
			{"by a ring", func(l devices.Late, waits []mem.Wait) mem.Point {
				t := mover.Transfer{
					Way: mem.Ring, From: mover.End{Memory: 0, Block: src}, To: []mover.End{{Memory: 1, Block: away}},
					Size: size, Late: l, Waits: waits, Points: make([]mem.Point, 1),
				}
				require.NoError(e.t, m.Move(&t))
				return t.Points[0]
			}, func() { other.wait(theirs, other.fill(theirs, away, 0, size, []byte{0})) }, func() []byte { return other.content0(theirs, away, size) }},
		} {
			move.clear()
			gate := line.Next()
			l := &extent{ready: gate, part: part}
			p := move.copy(l, []mem.Wait{{Point: gate, Kind: mem.Data}})
			require.False(e.t, p.Reached(), move.name)
			line.End(gate, nil)
			require.NoError(e.t, p.Wait(e.context()), move.name)
			require.False(e.t, l.early.Load(), "%s: asked before its waits were reached", move.name)
			require.EqualValues(e.t, 1, l.asked.Load(), move.name)
			require.EqualValues(e.t, 1, l.moved.Load(), "%s: told before its point", move.name)
			expect := make([]byte, size)
			if !inside.Empty() {
				copy(expect[inside.Start:inside.End], want[inside.Start:inside.End])
			}
			e.equal(expect, move.result(), move.name+" of "+part.String())

			ready := &extent{part: part} // nothing to wait for
			require.NoError(e.t, move.copy(ready, nil).Wait(e.context()), move.name)
			require.EqualValues(e.t, 1, ready.moved.Load(), move.name)

			gate = line.Next()
			failed := &extent{ready: gate, part: part}
			p = move.copy(failed, []mem.Wait{{Point: gate, Kind: mem.Data}})
			line.End(gate, errTest)
			require.ErrorIs(e.t, p.Wait(e.context()), mem.ErrDependency, move.name)
			require.Zero(e.t, failed.asked.Load()+failed.moved.Load(), "%s: what it waits for failed", move.name)
		}
	}
	_, err := q.Submit(&devices.Command{Op: devices.OpFill, Size: 4, Pattern: []byte{1}, Dst: e.at(dst, 0), Late: &extent{}}, nil)
	require.ErrorIs(e.t, err, mem.ErrInvalidValue)
}

// content0 reads a block's first bytes.
func (e *env) content0(q devices.Queue, b mem.Block, size uint64) []byte {
	got := make([]byte, size)
	e.wait(q, e.read(q, b, 0, got))
	return got
}

// carrier is a devices.Carrier that does nothing and ends with err.
type carrier struct {
	err   error
	begun atomic.Int32 // how often
}

// Carry implements devices.Carrier.
func (c *carrier) Carry(done devices.Carried) {
	c.begun.Add(1)
	go done.Carried(c.err)
}

// testCarriers: a copy that a Carrier does begins once its waits have succeeded, and ends as the
// carrier says.
func testCarriers(e *env) {
	b, line := e.alloc(64), users()
	for _, ooo := range []bool{false, true} {
		q := e.queue(devices.QueueOptions{OutOfOrder: ooo, Profiling: true})
		copied := func(c *carrier, waits ...mem.Wait) mem.Point {
			return e.submit(q, &devices.Command{Op: devices.OpCopy, Size: 64, Carrier: c, Unobserved: ooo, Src: e.at(b, 0), Dst: devices.Loc{Bytes: make([]byte, 64)}}, waits...)
		}
		for _, end := range []error{nil, errTest} {
			c, gate := &carrier{err: end}, line.Next()
			p := copied(c, data(gate))
			behind := e.submit(q, marker(), order(p))
			require.Zero(e.t, c.begun.Load(), "before its waits have ended")
			line.End(gate, nil)
			e.wait(q, behind)
			require.ErrorIs(e.t, p.Err(), map[bool]error{true: end}[c.begun.Load() == 1])
		}
		c, gate := &carrier{}, line.Next()
		p := copied(c, data(gate))
		line.End(gate, errTest)
		require.ErrorIs(e.t, e.failed(p), errTest)
		require.Zero(e.t, c.begun.Load())
	}
}
