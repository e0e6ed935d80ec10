package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/mem"
)

// idle is a machine on which a copy and a fill take a nanosecond a byte, whatever else is under way.
type idle struct {
	bench
	threads int
	wake    uint64
}

func (m *idle) Wake(int) uint64 { return m.wake }

func (m *idle) Engines() []int                          { return []int{m.threads, m.threads} }
func (m *idle) Copy(_, _ int, size uint64) virtual.Work { return virtual.Work{Engine: -1, Least: size} }
func (m *idle) RingUp(_, to int, size uint64) virtual.Work {
	return m.Copy(0, to, size)
}
func (m *idle) Fill(_ int, size uint64) virtual.Work { return virtual.Work{Engine: -1, Least: size} }

// drivers are the devices of a machine, without a runtime: queues in order and out of order, from device 1 on, and the host's.
type drivers struct {
	*testing.T
	*idle
	w       *virtual.World
	devs    []devices.Device // by memory
	inOrder []devices.Queue
	any     []devices.Queue
	blocks  []mem.Block
	spans   map[mem.Point]virtual.Span
	host    []byte
}

const most = 1 << 16

func (d *drivers) Span(s *virtual.Span) {
	if d.spans != nil {
		d.spans[s.Point] = *s
	}
}
func (d *drivers) Woke(int, int64, int64, mem.Point) {}

func drive(t *testing.T, m *idle, o virtual.Options) *drivers {
	d := &drivers{T: t, idle: m, spans: make(map[mem.Point]virtual.Span), host: make([]byte, most)}
	o.Observer = d
	var err error
	d.w, err = virtual.New(m, o)
	require.NoError(t, err)
	d.devs = append([]devices.Device{d.w.Host()}, d.w.Devices()...)
	for i, dev := range d.devs {
		block := make([]mem.Block, 1)
		got, err := dev.Memory().AllocAll([]mem.Request{{Size: most}}, block, nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
		d.blocks = append(d.blocks, block[0])
		for _, list := range []*[]devices.Queue{&d.inOrder, &d.any} {
			q, err := dev.NewQueue(devices.QueueOptions{Name: fmt.Sprint("q", i), OutOfOrder: list == &d.any})
			require.NoError(t, err)
			*list = append(*list, q)
			t.Cleanup(func() { require.NoError(t, q.Close()) })
		}
	}
	return d
}

func (d *drivers) submit(q devices.Queue, c *devices.Command, after ...mem.Point) mem.Point {
	d.Helper()
	var waits []mem.Wait
	for _, p := range after {
		waits = append(waits, mem.Wait{Point: p})
	}
	p, err := q.Submit(c, waits)
	require.NoError(d, err)
	return p
}

func (d *drivers) fill(on int, q devices.Queue, size uint64, after ...mem.Point) mem.Point {
	d.Helper()
	return d.submit(q, &devices.Command{Op: devices.OpFill, Dst: devices.Loc{Device: d.devs[on], Block: d.blocks[on]}, Size: size, Pattern: []byte{1}}, after...)
}

// copy is a copy that a queue does from memory to memory; the host's is the program's own.
func (d *drivers) copy(q devices.Queue, from, to int, size uint64, after ...mem.Point) mem.Point {
	d.Helper()
	at := func(m int) devices.Loc {
		if m == 0 {
			return devices.Loc{Bytes: d.host}
		}
		return devices.Loc{Device: d.devs[m], Block: d.blocks[m]}
	}
	src, dst := at(from), at(to)
	if from == to {
		dst.Off = most / 2
	}
	return d.submit(q, &devices.Command{Op: devices.OpCopy, Src: src, Dst: dst, Size: size, Tag: 1}, after...)
}

func (d *drivers) wait(points ...mem.Point) {
	d.Helper()
	for _, p := range points {
		require.NoError(d, p.Wait(bg))
	}
}

// began are when commands began, on the world's clock.
func (d *drivers) began(points ...mem.Point) (out []int64) {
	d.wait(points...)
	for _, p := range points {
		out = append(out, d.spans[p].Started)
	}
	return out
}

func sorted(times []int64) []int64 {
	slices.Sort(times)
	return times
}

// carriage has so many devices that all cost their carriers the same.
func carriage(n int, c virtual.Carrying) *virtual.Carriage {
	out := &virtual.Carriage{Devices: make([]virtual.Carrying, n+1)}
	for i := range n {
		out.Devices[i+1] = c
	}
	for i := range out.Devices {
		out.Devices[i].Threads = [...]int32{-1, -1, 0, 1}
	}
	return out
}

// busyHost has a pilot for peers, a dispatcher for rings, and each hand-over of another length. Its threads are the first device's
// engines for copies, so that they have to wait for each other, too.
func busyHost(n int) *virtual.Carriage {
	c := virtual.Carrying{Queue: 30}
	for from := range c.HandOver {
		for to := range c.HandOver[from] {
			c.HandOver[from][to] = virtual.HandOver{Hold: uint64(100 * to), Delay: uint64(1000*from + 170*to)}
		}
	}
	for k := range c.Classes {
		c.Classes[k] = virtual.Carry{Enqueue: uint64(50 * k), Submit: uint64(700 - 90*k)}
	}
	c.Classes[virtual.Peer].By, c.Classes[virtual.Peer].Hold = virtual.Pilot, 300
	c.Classes[virtual.Ring].By, c.Classes[virtual.Ring].Hold = virtual.Dispatcher, 200
	c.Classes[virtual.Up].By = virtual.Program
	return carriage(n, c)
}

// TestWhatCarriersCost has each mechanism by itself, with times computed by hand.
func TestWhatCarriersCost(t *testing.T) {
	const us = 1000
	type classes = [virtual.Classes]virtual.Carry
	type overs = [virtual.Carriers][virtual.Carriers]virtual.HandOver
	held := virtual.Carrying{
		Classes:  classes{virtual.Peer: {By: virtual.Pilot}},
		HandOver: overs{virtual.Pilot: {virtual.Library: {Hold: 40, Delay: 100}}, virtual.Dispatcher: {virtual.Library: {Hold: 25}}},
	}
	for _, c := range []struct {
		name  string
		costs virtual.Carrying
		run   func(d *drivers) []int64
		want  []int64
	}{
		{"launches owe their enqueues, one after the other", virtual.Carrying{Classes: classes{virtual.Fill: {Enqueue: 100, Submit: 50}}}, func(d *drivers) []int64 {
			q := d.inOrder[1]
			points := []mem.Point{d.fill(1, q, 10), d.fill(1, q, 10), d.fill(1, q, 10)}
			owed := int64(d.w.Time())
			require.EqualValues(d, owed, d.w.Now()-1)
			return append(d.began(points...), owed)
		}, []int64{150, 250, 350, 300}},
		{"a submission is hidden behind what is before it", virtual.Carrying{Classes: classes{virtual.Fill: {Enqueue: 10, Submit: 50}}}, func(d *drivers) []int64 {
			q := d.inOrder[1]
			return d.began(d.fill(1, q, us), d.fill(1, q, us), d.fill(1, q, us))
		}, []int64{60, 60 + us, 60 + 2*us}},
		{"a debt is paid once, in the next call", virtual.Carrying{Classes: classes{virtual.Fill: {Enqueue: 100}}}, func(d *drivers) []int64 {
			p := d.fill(1, d.any[1], 10)
			d.w.Enter(devices.Other)
			first := int64(d.w.Time())
			d.w.Enter(devices.Other)
			return append(d.began(p, d.fill(1, d.any[1], 10)), first)
		}, []int64{100, 200, 100}},
		{"each thread owes its own, and has paid when it ends", virtual.Carrying{Classes: classes{virtual.Fill: {Enqueue: 100}}}, func(d *drivers) []int64 {
			var p, o mem.Point
			require.NoError(d, d.w.Threads(func() { p = d.fill(1, d.any[1], 10) }, func() {
				d.fill(1, d.any[1], 10)
				o = d.fill(1, d.any[1], 10)
			}))
			end := int64(d.w.Time())
			return append(d.began(p, o), end)
		}, []int64{100, 200, 200}},
		{"a queue's own delay", virtual.Carrying{Queue: 7}, func(d *drivers) []int64 {
			q := d.inOrder[1]
			p := d.fill(1, q, us)
			return d.began(p, d.fill(1, q, us), d.fill(1, d.any[1], us, p))
		}, []int64{0, us + 7, us + 7}},
		{"from one device's library to another's", virtual.Carrying{Queue: 7, HandOver: overs{virtual.Library: {virtual.Library: {Delay: 30}}}}, func(d *drivers) []int64 {
			return d.began(d.fill(2, d.any[2], 10, d.fill(1, d.any[1], us)))
		}, []int64{us + 30}},
		{
			"n hops behind one kernel", virtual.Carrying{
				Classes:  classes{virtual.Peer: {By: virtual.Pilot, Hold: 20, Submit: 5}},
				HandOver: overs{virtual.Library: {virtual.Pilot: {Hold: 10, Delay: 100}}},
			}, func(d *drivers) []int64 {
				k := d.fill(1, d.any[1], us)
				return sorted(d.began(d.copy(d.any[2], 1, 2, 50, k), d.copy(d.any[2], 1, 2, 50, k), d.copy(d.any[2], 1, 2, 50, k)))
			}, []int64{us + 100 + 30 + 5, us + 100 + 60 + 5, us + 100 + 90 + 5},
		},
		{"hops that wait for nothing share the pilot", virtual.Carrying{Classes: classes{virtual.Peer: {By: virtual.Pilot, Enqueue: 1, Hold: 20, Submit: 5}}}, func(d *drivers) []int64 {
			return d.began(d.copy(d.any[2], 1, 2, 50), d.copy(d.any[2], 1, 2, 50))
		}, []int64{1 + 20 + 5, 1 + 40 + 5}},
		{
			"the cause is what is handed over last, not what ends last", virtual.Carrying{
				Classes:  classes{virtual.Peer: {By: virtual.Pilot}},
				HandOver: overs{virtual.Pilot: {virtual.Library: {Delay: 400}}},
			}, func(d *drivers) []int64 {
				hop, kernel := d.copy(d.any[2], 1, 2, 800), d.fill(1, d.any[1], us)
				p := d.fill(2, d.any[2], 10, hop, kernel)
				out := d.began(p)
				require.Equal(d, hop, d.spans[p].Cause)
				return append(out, d.spans[p].Ready, d.spans[p].Handed)
			}, []int64{1200, 800, 1200},
		},
		{"an end that was known counts while its hand-over is under way", virtual.Carrying{HandOver: overs{virtual.Library: {virtual.Library: {Delay: 400}}}}, func(d *drivers) []int64 {
			p := d.fill(1, d.any[1], us)
			d.wait(p)
			require.NoError(d, d.w.Pause(bg, 100))
			early := d.fill(2, d.any[2], 10, p)
			require.NoError(d, d.w.Pause(bg, 300))
			return d.began(early, d.fill(2, d.any[2], 10, p))
		}, []int64{1400, 1400}},
		{"the dispatcher enqueues what the library is handed", virtual.Carrying{
			Classes:  classes{virtual.Fill: {Submit: 3}, virtual.Peer: {By: virtual.Pilot}},
			HandOver: overs{virtual.Pilot: {virtual.Library: {Hold: 40, Delay: 100}}},
		}, func(d *drivers) []int64 {
			hop := d.copy(d.any[2], 1, 2, us)
			p, o := d.fill(2, d.any[2], 10, hop), d.fill(2, d.any[2], 10, hop)
			out := sorted(d.began(p, o))
			if d.spans[p].Started > d.spans[o].Started { // drawn by the seed
				o = p
			}
			return append(out, int64(d.spans[o].Thread), d.spans[o].HeldFrom, d.spans[o].HeldTo)
		}, []int64{us + 143, us + 183, 0, us + 140, us + 180}},
		{"who waits goes on when the end has come to it", virtual.Carrying{
			Classes:  classes{virtual.Up: {By: virtual.Program}},
			HandOver: overs{virtual.Library: {virtual.Program: {Delay: 30}}},
		}, func(d *drivers) (out []int64) {
			d.wake = 7
			for _, p := range []func() mem.Point{func() mem.Point { return d.fill(1, d.any[1], us) }, func() mem.Point { return d.copy(d.any[1], 0, 1, us) }} {
				start := d.w.Time()
				d.wait(p())
				out = append(out, int64(d.w.Time()-start))
			}
			return out
		}, []int64{us + 37, us}},
		{"what is behind a held command is given to the library after it", held, func(d *drivers) []int64 {
			hop := d.copy(d.any[2], 1, 2, us)
			return d.began(d.fill(2, d.inOrder[2], 10, hop), d.fill(2, d.inOrder[2], 10), d.fill(2, d.inOrder[2], 10))
		}, []int64{us + 140, us + 165, us + 190}},
		{"meanwhile the one before runs", held, func(d *drivers) []int64 {
			hop := d.copy(d.any[2], 1, 2, us)
			return d.began(d.fill(2, d.inOrder[2], 500, hop), d.fill(2, d.inOrder[2], 10), d.fill(2, d.inOrder[2], 10))
		}, []int64{us + 140, us + 640, us + 650}},
		{"one that has to wait itself holds those behind it", held, func(d *drivers) []int64 {
			hop, late := d.copy(d.any[2], 1, 2, us), d.copy(d.any[2], 1, 2, 3*us)
			return d.began(d.fill(2, d.inOrder[2], 10, hop), d.fill(2, d.inOrder[2], 10, late), d.fill(2, d.inOrder[2], 10))
		}, []int64{us + 140, 3*us + 140, 3*us + 165}},
		{"what comes when the library has them is not held", held, func(d *drivers) []int64 {
			hop := d.copy(d.any[2], 1, 2, us)
			p := d.fill(2, d.inOrder[2], 500, hop)
			require.NoError(d, d.w.Pause(bg, us+300))
			return d.began(p, d.fill(2, d.inOrder[2], 10))
		}, []int64{us + 140, us + 640}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				for _, stamps := range []bool{false, true} {
					m := &idle{bench{devices: 2, rate: gig, carries: carriage(2, c.costs)}, 1, 0}
					require.Equal(t, c.want, c.run(drive(t, m, virtual.Options{Seed: seed, Stamps: stamps})))
				}
			}
		})
	}
}

// starts is an observer that keeps what it is told.
type starts struct{ spans []virtual.Span }

func (s *starts) Span(x *virtual.Span)              { s.spans = append(s.spans, *x) }
func (s *starts) Woke(int, int64, int64, mem.Point) {}

// TestARingIsHandedOverAsAnythingElse has one behind a fill, and a fill behind it.
func TestARingIsHandedOverAsAnythingElse(t *testing.T) {
	costs := virtual.Carrying{Queue: 5}
	costs.Classes[virtual.Ring] = virtual.Carry{By: virtual.Dispatcher, Enqueue: 300, Hold: 20, Submit: 3}
	costs.HandOver[virtual.Library][virtual.Dispatcher] = virtual.HandOver{Hold: 10, Delay: 100}
	costs.HandOver[virtual.Dispatcher][virtual.Library] = virtual.HandOver{Hold: 40, Delay: 200}
	for _, exact := range []bool{false, true} {
		told := &starts{}
		h := open(t, &bench{devices: 2, rate: gig, kernel: gig, carries: carriage(2, costs)}, virtual.Options{Observer: told, Exact: exact})
		b := h.buffer(64 << 10)
		h.runs(func() {
			h.ok(h.qs[0].EnqueueFill(bg, b, []byte{1}, 0, 64<<10))
			h.migrate(1, b)
			h.ok(h.qs[1].EnqueueFill(bg, b, []byte{2}, 0, 64<<10))
		})
		var fills, rings []virtual.Span
		for _, s := range told.spans {
			switch {
			case s.Ring:
				rings = append(rings, s)
			case s.Op == devices.OpFill:
				fills = append(fills, s)
			}
		}
		require.Len(t, fills, 2)
		require.Len(t, rings, 1)
		require.Equal(t, fills[0].Ended, rings[0].Ready)
		require.Equal(t, fills[0].Point, rings[0].Cause)
		require.Equal(t, fills[0].Ended+100+10+20+3, rings[0].Started)
		require.Equal(t, rings[0].Started, rings[0].Handed)
		require.Equal(t, rings[0].HeldFrom+30, rings[0].HeldTo)
		require.Equal(t, rings[0].Ended+200+40, fills[1].Started)
	}
}

// TestRecordsAreUsedAgain counts what is allocated for a command that is gated by another device's, and for a hop, with carriers
// and without.
func TestRecordsAreUsedAgain(t *testing.T) {
	var each [2]float64
	for i, c := range []*virtual.Carriage{nil, busyHost(2)} {
		d := drive(t, &idle{bench{devices: 2, rate: gig, carries: c}, 1, 0}, virtual.Options{})
		d.spans = nil
		line := mem.NewTimeline("gates", true, nil)
		gate := line.Next()
		gated := d.submit(d.any[1], &devices.Command{Op: devices.OpMarker}, gate) // its record stays
		round := func() {
			for range 10 {
				p := d.fill(1, d.inOrder[1], 100)
				d.wait(d.copy(d.any[2], 1, 2, 10, p, d.fill(2, d.any[2], 10, p)))
			}
		}
		for range 500 {
			round()
		}
		each[i] = testing.AllocsPerRun(500, round)
		line.End(gate, nil)
		d.wait(gated)
	}
	require.LessOrEqual(t, each[1], each[0])
}

// TestACommandBeginsWhenTheLastOfItsWaitsHasBeenHandedOver holds random commands on machines of which nothing is short
// against the rule: the greatest of end + hand-over over all waits, of its own enqueue, and of when the library is given it.
func TestACommandBeginsWhenTheLastOfItsWaitsHasBeenHandedOver(t *testing.T) {
	heldBehind := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		some := func() uint64 { return r.Uint64N(30_000) * r.Uint64N(2) }
		cs := carriage(3, virtual.Carrying{})
		for i := range cs.Devices[1:] {
			d := &cs.Devices[i+1]
			d.Queue = some()
			for from := range d.HandOver {
				for to := range d.HandOver[from] {
					d.HandOver[from][to] = virtual.HandOver{Hold: some(), Delay: some()}
				}
			}
			for k := range d.Classes {
				d.Classes[k] = virtual.Carry{By: virtual.Carrier(r.IntN(int(virtual.Carriers))), Enqueue: some() / 10, Submit: some()}
				if d.Threads[d.Classes[k].By] >= 0 {
					d.Classes[k].Hold = some()
				}
			}
		}
		d := drive(t, &idle{bench{devices: 3, rate: gig, call: 5, carries: cs}, 1000, 0}, virtual.Options{Seed: seed})
		ref := &carryReference{cs: cs, all: make(map[mem.Point]*carryCommand)}
		before, now := make(map[devices.Queue]*carryCommand), d.w.Time() // at which the thread owed nothing
		for range 300 {
			switch r.IntN(12) {
			case 0:
				require.NoError(t, d.w.Pause(bg, time.Duration(r.IntN(50_000))))
				now = d.w.Time()
			case 1:
				d.w.Enter(devices.Enqueue)
				now = d.w.Time()
			}
			var after []mem.Point
			x := &carryCommand{class: virtual.Classes, memory: 1 + r.IntN(3), now: now}
			for range r.IntN(4) {
				if n := len(ref.order); n > 0 {
					p := ref.order[max(n-1-r.IntN(12), 0)]
					after, x.after = append(after, p), append(x.after, ref.all[p])
				}
			}
			on, from, size := x.memory, 1+r.IntN(3), 1+r.Uint64N(30_000)
			q := d.any[on]
			if r.IntN(3) > 0 {
				q = d.inOrder[on]
				x.before, before[q] = before[q], x
			}
			var p mem.Point
			switch r.IntN(5) {
			case 0:
				x.class, p = virtual.Fill, d.fill(on, q, size, after...)
			case 1:
				x.class, p = virtual.Up, d.copy(q, 0, on, size, after...)
			case 2:
				x.class, p = virtual.Down, d.copy(q, on, 0, size, after...)
			case 3:
				x.class, p = virtual.ClassOf(from, on), d.copy(q, from, on, size, after...)
			case 4:
				size, p = 0, d.submit(q, &devices.Command{Op: devices.OpMarker}, after...)
			}
			x.size, x.since, x.ordered = size, d.w.Time(), q == d.inOrder[on]
			ref.all[p] = x
			ref.order = append(ref.order, p)
		}
		d.wait(ref.order...)
		for i, p := range ref.order {
			x := ref.all[p]
			ref.run(x)
			require.EqualValues(t, x.end, d.spans[p].Ended, "seed %d, command %d: %+v", seed, i, x)
			if x.given > 0 {
				heldBehind++
			}
		}
	}
	require.Greater(t, heldBehind, 500)
}

type carryCommand struct {
	class      virtual.Class
	memory     int
	ordered    bool // its queue is in order
	after      []*carryCommand
	before     *carryCommand // in its queue
	size       uint64
	now, since uint64 // when it was submitted, and enqueued

	host  bool // it waits for what the library cannot wait for
	held  bool
	let   uint64 // when the library was given it, of one that was held
	given uint64 // likewise, by who was held before it
	end   uint64
}

type carryReference struct {
	cs    *virtual.Carriage
	all   map[mem.Point]*carryCommand
	order []mem.Point
}

func (r *carryReference) costs(x *carryCommand) (c virtual.Carry) {
	switch {
	case x.class < virtual.Classes:
		c = r.cs.Devices[x.memory].Classes[x.class]
	case x.host:
		c.By = virtual.Dispatcher
	}
	return c
}

func (x *carryCommand) waits() []*carryCommand {
	if x.before == nil {
		return x.after
	}
	return append(slices.Clone(x.after), x.before)
}

// blocked reports whether x waits, at a time, for what the library cannot wait for.
func (r *carryReference) blocked(x *carryCommand, at uint64) bool {
	return slices.ContainsFunc(x.waits(), func(y *carryCommand) bool { return y.end > at && r.costs(y).By != virtual.Library })
}

// run finds out when a command ends. Those it waits for came before it, so they have been run.
func (r *carryReference) run(x *carryCommand) {
	x.host = r.blocked(x, x.now)
	c, d := r.costs(x), &r.cs.Devices[x.memory]
	handed, begin, ready := x.since+c.Hold, x.since+c.Hold+c.Submit, uint64(0)
	for _, y := range x.waits() {
		by, at, more := r.costs(y).By, y.end, uint64(0)
		switch h := d.HandOver[by][c.By]; {
		case by != virtual.Library || c.By != virtual.Library:
			at, more = at+h.Delay+h.Hold+c.Hold, c.Submit
		case x.memory == y.memory:
			at += d.Queue
		default:
			at += h.Delay
		}
		if ready = max(ready, y.end); at+more > begin {
			handed, begin = at, at+more
		}
	}
	behind := x.before != nil && x.before.held && x.before.let > x.now
	if x.held = x.ordered && c.By == virtual.Library && (behind || x.host); x.held {
		x.let = max(handed, ready)
		if behind && !r.blocked(x, x.before.let) {
			x.given = x.before.let + d.HandOver[virtual.Dispatcher][virtual.Library].Hold
			x.let, begin = x.given, max(begin, x.given+c.Submit)
		}
	}
	x.end = begin + x.size
}
