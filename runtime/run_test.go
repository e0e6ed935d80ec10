package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/work"
	"godwit/internal/history"
	"godwit/mem"
	"godwit/runtime"
)

// badMix is the value with which mix fails.
const badMix = 0xBAD

// blendProgram is y[i] = 3y[i] + x[i] + n.
var blendProgram = &devices.Program{Name: "mix", Go: []devices.GoKernel{{
	Name: "mix",
	Args: []devices.ArgInfo{devices.BufferArg[uint8]("y", mem.ReadWrite), devices.BufferArg[uint8]("x", mem.Read), devices.ValueArg[uint32]("n")},
	Func: func(g *work.Group) {
		y, x, n := work.Global[uint8](g, 0), work.Global[uint8](g, 1), work.Value[uint32](g, 2)
		if n == badMix {
			panic("as asked for")
		}
		for i := range int(g.Bytes(0)) {
			y.Store(i, blend(y.Load(i), x.Load(i), n))
		}
	},
}}}

func blend(y, x uint8, n uint32) uint8 { return 3*y + x + uint8(n) }

// refuser is a queue that refuses a Submit now and then: when what it shares with others counts down to nothing.
type refuser struct {
	devices.Runner
	left *int
}

var errRefused = errors.New("refused for a test")

func (q *refuser) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if cmd.Op != devices.OpMarker { // a replay's own
		if *q.left--; *q.left == 0 {
			return mem.Point{}, errRefused
		}
	}
	return q.Runner.Submit(cmd, waits)
}

// mixRun is a graph of random commands beside one flat memory.
type mixRun struct {
	*rapid.T
	ctx    *testing.T
	h      *house
	left   int
	bufs   []*runtime.Buffer // the last is what the slot is bound to; behind it comes a transient, where there is one
	cmds   []mixCommand
	graph  *runtime.Graph
	slot   *runtime.Buffer
	values []runtime.Value
	want   [][]byte
	long   int // runs of several
}

// mixCommand is y = 3y + x + n; or where it fills y = n, and where it copies y = x.
type mixCommand struct {
	op, y, x int
	n        uint32
}

const (
	mixing = iota
	filling
	copying
	mixBytes = 64
	allBad   = 1 << 20 // no command, but what all wait for
)

var errClosed = errors.New("closed for a test")

// TestRunsDoWhatTheirCommandsWould replays random graphs on 1 to 3 devices, with values, slots, transients and gates that change, with kernels
// and gates that fail and calls that are refused: what is readable is what the commands one by one leave, and what is lost is what a failed run
// was to write, and who read that. Contexts are closed under replays that are held: these fail with the cause.
func TestRunsDoWhatTheirCommandsWould(t *testing.T) {
	long, failed, refused := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := &mixRun{T: rt, ctx: t}
		r.open()
		defer r.close()
		r.record()
		for i := range rapid.IntRange(1, 5).Draw(rt, "replays") {
			bad := -1
			if rapid.IntRange(0, 2).Draw(rt, "fails") == 0 {
				bad = rapid.IntRange(0, len(r.cmds)-1).Draw(rt, "which")
			} else if rapid.IntRange(0, 2).Draw(rt, "refused") == 0 {
				r.left = rapid.IntRange(1, 20).Draw(rt, "call")
			} else if rapid.IntRange(0, 4).Draw(rt, "gate fails") == 0 {
				bad = allBad
			}
			before := r.graph.Figures().Plain
			if r.replay(i, bad) {
				failed++
			}
			refused += int(r.graph.Figures().Plain - before)
		}
		long += r.long
	})
	require.Positive(t, long)
	require.Positive(t, failed)
	require.Positive(t, refused)
}

func (r *mixRun) open() {
	var devs []devices.Device
	for range rapid.IntRange(1, 3).Draw(r.T, "devices") {
		devs = append(devs, history.Wrap(must(cpu.New(cpu.Options{})), func(q devices.Queue, o devices.QueueOptions) devices.Queue {
			if x, ok := q.(devices.Runner); ok && !o.OutOfOrder {
				return &refuser{x, &r.left}
			}
			return q
		}))
	}
	r.h = &house{t: r.ctx, c: must(runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true}))}
	for _, d := range devs {
		for range rapid.IntRange(1, 2).Draw(r.T, "queues") {
			r.h.q = append(r.h.q, must(r.h.c.NewQueue(d, runtime.QueueOptions{})))
		}
	}
	for i := range rapid.IntRange(2, 6).Draw(r.T, "buffers") {
		r.want = append(r.want, bytes.Repeat([]byte{byte(i)}, mixBytes))
		r.bufs = append(r.bufs, must(r.h.c.CreateBuffer(mixBytes, 0, r.want[i])))
	}
}

func (r *mixRun) close() {
	ctx, end := context.WithCancelCause(r.ctx.Context())
	defer end(nil)
	var e, gate runtime.Event
	under := rapid.IntRange(0, 3).Draw(r.T, "closed under a replay") == 0
	if under {
		gate = must(r.h.c.NewUserEvent())
		e = must(r.graph.Replay(ctx, r.h.q[0], runtime.Bindings{Slots: []runtime.Binding{{Slot: r.slot, Buffer: r.bufs[len(r.bufs)-1]}}}, gate))
		end(errClosed)
	}
	require.NoError(r, r.graph.Close())
	for _, b := range r.bufs {
		require.NoError(r, b.Release())
	}
	require.NoError(r, r.h.c.Check())
	require.NoError(r, r.h.c.Close(ctx))
	if under {
		require.ErrorIs(r, e.Err(), errClosed)
	}
}

func (r *mixRun) record() {
	ctx := r.ctx.Context()
	k := must(must(r.h.c.Build(ctx, blendProgram)).Kernel("mix"))
	rec := must(r.h.c.Record(r.h.q...))
	r.slot = must(rec.Slot("last", mixBytes, 0))
	named := append(slices.Clone(r.bufs[:len(r.bufs)-1]), r.slot)
	n, transient := rapid.IntRange(2, 50).Draw(r.T, "commands"), rapid.Bool().Draw(r.T, "transient")
	if transient {
		named, r.want = append(named, must(rec.Transient("t", mixBytes))), append(r.want, make([]byte, mixBytes))
	}
	for i := range n {
		c := mixCommand{op: rapid.IntRange(0, 5).Draw(r.T, "op"), y: rapid.IntRange(0, len(named)-1).Draw(r.T, "y"), n: uint32(i)}
		if transient && i == 0 {
			c.op, c.y = filling, len(named)-1 // its content is of this round
		}
		c.x = (c.y + rapid.IntRange(1, len(named)-1).Draw(r.T, "x")) % len(named)
		q := r.h.q[rapid.IntRange(0, len(r.h.q)-1).Draw(r.T, "queue")]
		var e runtime.Event
		var err error
		switch y, x := named[c.y], named[c.x]; c.op {
		case filling:
			e, err = q.EnqueueFill(ctx, y, []byte{byte(c.n)}, 0, mixBytes)
		case copying:
			e, err = q.EnqueueCopy(ctx, x, y, 0, 0, mixBytes)
		default:
			c.op = mixing
			e, err = q.EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.InOut(y), runtime.In(x), runtime.Uint32(c.n)}})
		}
		require.NoError(r, err)
		var v runtime.Value
		if c.op == mixing {
			v = must(rec.Value(e, 2))
		}
		r.cmds, r.values = append(r.cmds, c), append(r.values, v)
		require.NoError(r, e.Release())
	}
	r.graph = must(rec.Finish(ctx))
	for _, run := range r.graph.Joined() {
		if len(run) > 1 {
			r.long++
		}
	}
}

// replay replays the graph, in which command bad fails, or none where it is -1, and reports whether one did.
func (r *mixRun) replay(i, bad int) bool {
	ctx := r.ctx.Context()
	in := runtime.Bindings{Slots: []runtime.Binding{{Slot: r.slot, Buffer: r.bufs[len(r.bufs)-1]}}}
	if bad >= 0 && bad < allBad && r.cmds[bad].op != mixing {
		bad = -1
	}
	ns := make([]uint32, len(r.cmds))
	for k, c := range r.cmds {
		if ns[k] = c.n; k == bad {
			ns[k] = badMix
		} else if c.op == mixing && (k+i)%3 == 0 {
			ns[k] += uint32(100 * i)
		}
		if ns[k] != c.n {
			in.Values = append(in.Values, runtime.NewValue{Value: r.values[k], Arg: runtime.Uint32(ns[k])})
		}
	}
	gate := must(r.h.c.NewUserEvent())
	held := bad == allBad || rapid.Bool().Draw(r.T, "held")
	if !held {
		require.NoError(r, gate.SetStatus(runtime.Complete))
	}
	e, err := r.graph.Replay(ctx, r.h.q[0], in, gate)
	r.left = 0
	if bad == allBad {
		require.NoError(r, gate.SetStatus(-999))
	} else if held {
		require.NoError(r, gate.SetStatus(runtime.Complete))
	}
	require.NoError(r, err)
	err = e.Wait(ctx)
	require.NoError(r, errors.Join(gate.Release(), e.Release()))
	lost := r.run(ns, bad == allBad)
	require.Equal(r, bad >= 0, err != nil, "%v", err)
	if runs := r.graph.Joined(); bad >= 0 && bad < allBad && r.graph.Figures().Plain == 0 {
		if x := runs[slices.IndexFunc(runs, func(x []int) bool { return slices.Contains(x, bad) })]; len(x) > 1 {
			require.ErrorContains(r, err, fmt.Sprintf("command %d of it", slices.Index(x, bad)))
		}
	}
	r.compare(lost)
	return bad >= 0
}

// run does on one flat memory what the commands do, one by one, with these values, and says which buffers are lost, where all commands
// fail or those whose value says so.
func (r *mixRun) run(ns []uint32, all bool) []bool {
	for i, c := range r.cmds {
		for k := range r.want[c.y] {
			switch y, x := &r.want[c.y][k], r.want[c.x][k]; c.op {
			case filling:
				*y = byte(c.n)
			case copying:
				*y = x
			default:
				*y = blend(*y, x, ns[i])
			}
		}
	}
	lost := make([]bool, len(r.want))
	for _, run := range r.graph.Joined() {
		fails, now := all, slices.Clone(lost)
		for _, i := range run {
			c := r.cmds[i]
			fails = fails || ns[i] == badMix || c.op != filling && now[c.x] || c.op == mixing && now[c.y]
			now[c.y] = false
		}
		for _, i := range run {
			lost[r.cmds[i].y] = fails
		}
	}
	return lost
}

// compare compares all buffers, and writes those anew that are lost.
func (r *mixRun) compare(lost []bool) {
	ctx, q := r.ctx.Context(), r.h.q[len(r.h.q)-1]
	for i, b := range r.bufs {
		got := make([]byte, mixBytes)
		err := q.Read(ctx, b, 0, got)
		if !lost[i] {
			require.NoError(r, err, "buffer %d", i)
			require.Equal(r, r.want[i], got, "buffer %d", i)
			continue
		}
		require.ErrorIs(r, err, mem.ErrPoisoned, "buffer %d", i)
		require.NoError(r, q.Write(ctx, b, 0, r.want[i]))
	}
}
