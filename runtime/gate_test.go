package runtime

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/eviction"
	"godwit/mem"
)

// gateHouse is a context over a device of 1024 bytes, with its queues.
func gateHouse(t *testing.T) (c *Context, inOrder, outOfOrder *Queue) {
	d, err := cpu.New(cpu.Options{Name: "small", Memory: 1024})
	require.NoError(t, err)
	c, err = NewContext(Options{Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	inOrder, err = c.NewQueue(d, QueueOptions{})
	require.NoError(t, err)
	outOfOrder, err = c.NewQueue(d, QueueOptions{OutOfOrder: true})
	require.NoError(t, err)
	return c, inOrder, outOfOrder
}

func (c *Context) hangsOn(t *testing.T, e Event) bool {
	p, err := e.Point()
	require.NoError(t, err)
	c.lock()
	defer c.unlock()
	require.Equal(t, !p.Reached() && c.hangs(p), !c.mayWait(p))
	return c.hangs(p)
}

func TestWhatWaitsForAUserEventHangsOnIt(t *testing.T) {
	ctx := context.Background()
	c, in, out := gateHouse(t)
	marker := func(q *Queue, wait ...Event) Event {
		e, err := q.EnqueueMarker(ctx, wait...)
		require.NoError(t, err)
		return e
	}
	u, err := c.NewUserEvent()
	require.NoError(t, err)
	v, err := c.NewUserEvent()
	require.NoError(t, err)
	free := marker(in)
	a := marker(out, u)
	b := marker(out, a) // by way of a
	d := marker(in, v)
	e := marker(in) // in order behind d
	for _, x := range []Event{u, v, a, b, d, e} {
		require.True(t, c.hangsOn(t, x))
	}
	require.False(t, c.hangsOn(t, free))
	require.NoError(t, u.SetStatus(Complete))
	require.False(t, c.hangsOn(t, a))
	require.False(t, c.hangsOn(t, b))
	require.True(t, c.hangsOn(t, e))
	last, err := c.NewUserEvent() // set at the end
	require.NoError(t, err)
	require.NoError(t, v.SetStatus(Complete))
	require.False(t, c.hangsOn(t, d))
	require.False(t, c.hangsOn(t, e))
	require.False(t, c.hangsOn(t, marker(in)))
	require.NoError(t, last.SetStatus(Complete))
	require.NoError(t, c.Close(ctx))
}

// Neighbours that hang on the same gates take no more room than one; runs of gates that are open
// are dropped when there are many, and all of a queue with it.
func TestCommandsThatHangTogetherAreOneRun(t *testing.T) {
	ctx := context.Background()
	c, _, out := gateHouse(t)
	mark := func(wait ...Event) {
		_, err := out.EnqueueMarker(ctx, wait...)
		require.NoError(t, err)
	}
	stays, err := c.NewUserEvent()
	require.NoError(t, err)
	for range 1000 {
		mark(stays)
	}
	require.Equal(t, 1, c.gates.kept)
	goes, err := c.NewUserEvent()
	require.NoError(t, err)
	for _, gate := range []Event{goes, stays} {
		for range minRuns {
			mark()
			mark(gate)
		}
		if gate == goes {
			require.NoError(t, goes.SetStatus(Complete))
		}
	}
	require.Equal(t, 1+minRuns, c.gates.kept)
	require.NoError(t, stays.SetStatus(Complete))
	require.NoError(t, out.Close())
	require.Zero(t, c.gates.kept)
	require.Empty(t, c.gates.runs)
	require.NoError(t, c.Close(ctx))
}

// What hangs on a user event, between calls that come and go, is few runs, however much it is.
func TestRunsThatAreAlikeOnceCallsHaveEndedAreOne(t *testing.T) {
	var g gates
	line := mem.NewTimeline("q", true, nil)
	note := func(on gateSet) { g.note(g.runs[line], line.Next(), on, gateSet(g.closed.Load())) }
	stays := g.shut(false)
	for i := range uint64(10 * minRuns) {
		call := g.shut(true)
		note(stays | call)
		g.open(call)
		note(stays)
		require.LessOrEqual(t, g.kept, 2*minRuns, "after %d calls", i)
	}
	runs := g.runs[line]
	require.Equal(t, []uint64{1, 20 * minRuns}, []uint64{runs[0].from, runs[len(runs)-1].to})
	for i, r := range runs[1:] {
		require.Equal(t, runs[i].to+1, r.from, "a command is in no run")
	}
}

func TestWhatWaitsForAHostCallHangsOnIt(t *testing.T) {
	ctx := context.Background()
	c, in, out := gateHouse(t)
	goOn := make(chan struct{})
	call, err := out.EnqueueHostCall(ctx, func(context.Context) error { <-goOn; return nil })
	require.NoError(t, err)
	after, err := in.EnqueueMarker(ctx, call)
	require.NoError(t, err)
	require.True(t, c.hangsOn(t, call))
	require.True(t, c.hangsOn(t, after))
	close(goOn)
	require.NoError(t, after.Wait(ctx))
	require.False(t, c.hangsOn(t, after))
	require.NoError(t, c.Close(ctx))
}

// fill enqueues a fill of all of a new buffer of 1000 bytes, after wait.
func fill(t *testing.T, c *Context, q *Queue, pattern byte, wait ...Event) (*Buffer, Event, error) {
	b, err := c.CreateBuffer(1000, 0, nil)
	require.NoError(t, err)
	e, err := q.EnqueueFill(context.Background(), b, []byte{pattern}, 0, 1000, wait...)
	return b, e, err
}

// A released buffer's bytes are given again at once, and whoever gets them waits for its
// commands, whatever queue it is on.
func TestAReleasedBuffersBytesAreGivenAgainInStreamOrder(t *testing.T) {
	ctx := context.Background()
	c, in, out := gateHouse(t)
	u, err := c.NewUserEvent()
	require.NoError(t, err)
	started := make(chan struct{})
	goOn := make(chan struct{})
	// A long command that no gate can be seen in: the device's only engine is busy.
	busy, err := in.EnqueueHostCall(ctx, func(context.Context) error { close(started); <-goOn; return nil })
	require.NoError(t, err)
	<-started
	a, ea, err := fill(t, c, out, 1)
	require.NoError(t, err)
	require.NoError(t, ea.Wait(ctx))
	var got [1000]byte
	slow, err := out.EnqueueRead(ctx, a, 0, got[:])
	require.NoError(t, err)
	require.NoError(t, a.Release())
	b, eb, err := fill(t, c, out, 2)
	require.NoError(t, err, "given again, with what reads it or without")
	require.NoError(t, eb.Wait(ctx))
	require.NoError(t, slow.Wait(ctx))
	require.EqualValues(t, 1, got[999])
	require.NoError(t, b.Release())

	// What hangs on a user event is not: that would be a deadlock, if the program sets it
	// only when d is written.
	x, _, err := fill(t, c, out, 3, u)
	require.NoError(t, err)
	require.NoError(t, x.Release())
	_, _, err = fill(t, c, out, 4)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.NoError(t, u.SetStatus(Complete))
	close(goOn)
	require.NoError(t, busy.Wait(ctx))
	require.NoError(t, c.Check())
	require.ErrorIs(t, c.Close(ctx), ErrLeak)
}

// A refused command gives its blocks back together with what they are in use until.
func TestARefusedCommandsBlockIsStillInUse(t *testing.T) {
	ctx := context.Background()
	c, in, _ := gateHouse(t)
	line := mem.NewTimeline("other", true, nil)
	c.lock()
	c.gates.lines[line] = true // as if of a queue of ours
	c.unlock()
	var block [1]mem.Block
	o, err := c.Resource(1).AllocAll([]mem.Request{{Size: 1000}}, block[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, o)
	user := line.Next()
	require.NoError(t, c.Resource(1).FreeAfter(block[0], []mem.Point{user}))
	for range 2 {
		b, err := c.CreateBuffer(1000, 0, nil)
		require.NoError(t, err)
		host, err := c.CreateBuffer(8, 0, nil)
		require.NoError(t, err)
		plan := &c.scratch.plan
		c.lock()
		require.NoError(t, c.planner.Plan(plan, []mem.Access{{Buffer: b.ID(), Range: mem.Range{End: 1000}, Mode: mem.Write, Memory: 1}}))
		c.scratch.points = c.scratch.points[:0]
		forgetStorage(&c.scratch)
		again, err := c.obtain(plan)
		require.NoError(t, err)
		require.True(t, again, "the bytes are in use")
		require.Equal(t, []mem.Point{user}, c.planner.Points(nil, b.ID(), 1, everything))
		require.NoError(t, c.giveBack(plan))
		c.unlock()
		require.NoError(t, b.Release())
		require.NoError(t, host.Release())
	}
	_, e, err := fill(t, c, in, 5)
	require.NoError(t, err)
	st, err := e.Status()
	require.NoError(t, err)
	require.NotEqual(t, Complete, st, "it waits")
	line.End(user, nil)
	require.NoError(t, e.Wait(ctx))
	require.NoError(t, c.Check())
	require.ErrorIs(t, c.Close(ctx), ErrLeak)
}

// A gate that is open again gives its bit back when none is left, with all others': what is kept of them is looked through
// once in as many gates as there are bits.
func TestBitsOfOpenGatesAreGivenBackTogether(t *testing.T) {
	var g gates
	var seen gateSet
	for range 64 {
		gate := g.shut(true)
		require.Zero(t, seen&gate)
		seen |= gate
		g.open(gate)
	}
	require.EqualValues(t, 1, g.shut(true))
	require.EqualValues(t, 1, g.stale)
}

// A bit that stands for many gates is a host call's only while all of them are.
func TestAUserEventAmongManyGatesIsNoHostCall(t *testing.T) {
	var g gates
	for range 63 {
		g.shut(false)
	}
	call := func() bool { return g.kind(others) == eviction.OnCall }
	require.Equal(t, others, g.shut(true))
	g.shut(true)
	require.True(t, call())
	g.shut(false)
	require.False(t, call())
	g.shut(true)
	require.False(t, call(), "the user event is not set")
	g.openUser(others)
	for range 3 {
		g.open(others)
	}
	require.Zero(t, g.closed.Load()&uint64(others))
	g.shut(true)
	require.True(t, call())
}
