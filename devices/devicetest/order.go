package devicetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

func marker() *devices.Command { return &devices.Command{Op: devices.OpMarker} }

func data(p mem.Point) mem.Wait  { return mem.Wait{Point: p, Kind: mem.Data} }
func order(p mem.Point) mem.Wait { return mem.Wait{Point: p, Kind: mem.Order} }

// testInOrder: commands start after all earlier ones, however those ended.
func testInOrder(e *env) {
	q, line := e.inOrder(), users()
	b := e.alloc(4)
	gate := line.Next()
	first := e.fill(q, b, 0, 4, []byte{1}, data(gate))
	second := e.fill(q, b, 0, 4, []byte{2})
	third := e.submit(q, marker())
	other := e.inOrder() // not held up
	e.wait(other, e.submit(other, marker()))
	for _, p := range []mem.Point{first, second, third} {
		require.False(e.t, p.Reached(), "%v waits behind the gate", p)
	}
	require.True(e.t, first.Before(third) && !third.Before(first))
	line.End(gate, errTest)
	require.ErrorIs(e.t, e.failed(first), errTest)
	e.wait(q, second, third)
	got := make([]byte, 4)
	e.wait(q, e.read(q, b, 0, got))
	e.equal([]byte{2, 2, 2, 2}, got, "the second fill")
	var points []mem.Point
	for i := range 100 { // the last one wins
		points = append(points, e.fill(q, b, 0, 4, []byte{byte(i)}))
	}
	e.wait(q, points...)
	e.wait(q, e.read(q, b, 0, got))
	e.equal([]byte{99, 99, 99, 99}, got, "the last fill")
}

// testOutOfOrder: a gated command holds up nothing but what waits for it.
func testOutOfOrder(e *env) {
	q, line := e.outOfOrder(), users()
	b := e.alloc(1 << 10)
	var gated []mem.Point
	var gates []mem.Point
	for range 64 { // more than any number of workers
		gates = append(gates, line.Next())
		gated = append(gated, e.fill(q, b, 0, 16, []byte{1}, data(gates[len(gates)-1])))
	}
	behind := e.submit(q, marker(), order(gated[63]))
	free := e.fill(q, b, 512, 16, []byte{2})
	e.wait(q, free)
	for _, p := range append(gated, behind) {
		require.False(e.t, p.Reached())
	}
	require.False(e.t, gated[0].Before(gated[1]), "points of an out-of-order queue do not compare")
	line.End(gates[63], nil) // and in any order
	e.wait(q, gated[63], behind)
	require.False(e.t, gated[0].Reached())
	for _, g := range gates[:63] {
		line.End(g, nil)
	}
	e.wait(q, gated...)
}

// testWaitKinds: Data waits pass a failure on with its first cause, Order waits
// delay; both wherever the point comes from, and reached or not at Submit.
func testWaitKinds(e *env) {
	other := e.on(e.openDevice())
	for _, ooo := range []bool{false, true} {
		var mu sync.Mutex
		told := map[mem.Point]error{}
		q := e.queue(devices.QueueOptions{Name: "q", OutOfOrder: ooo, OnFail: func(p mem.Point, err error) {
			mu.Lock()
			defer mu.Unlock()
			told[p] = err
		}})
		far, line := other.inOrder(), users()
		var failures []mem.Point
		for _, early := range []bool{true, false} {
			gate := line.Next()
			if early {
				line.End(gate, errTest)
			}
			native := e.submit(q, marker(), data(gate))
			foreign := other.submit(far, marker(), data(gate))
			afterNative := e.submit(q, marker(), data(native))
			afterForeign := e.submit(q, marker(), order(gate), data(foreign))
			good := []mem.Point{
				e.submit(q, marker(), order(gate)),
				e.submit(q, marker(), order(native), order(foreign), order(afterNative), mem.Wait{}),
				e.submit(q, marker(), mem.Wait{Kind: mem.Data}),
			}
			if !early {
				require.False(e.t, good[0].Reached() || good[1].Reached())
				line.End(gate, errTest)
			}
			for _, p := range []mem.Point{native, foreign, afterNative, afterForeign} {
				err := e.failed(p)
				require.ErrorIs(e.t, err, mem.ErrDependency)
				require.ErrorIs(e.t, err, errTest, "the first cause")
				require.Equal(e.t, mem.ExecStatusErrorInWaitList, mem.StatusOf(err))
			}
			e.wait(q, good...)
			failures = append(failures, native, afterNative, afterForeign)
		}
		mu.Lock()
		require.Len(e.t, told, len(failures))
		for _, p := range failures {
			require.ErrorIs(e.t, told[p], errTest, "OnFail of %v", p)
		}
		mu.Unlock()
	}
	// A command that failed by itself is a cause, too.
	q := e.inOrder()
	bad := e.submit(q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { return errTest }})
	require.ErrorIs(e.t, e.failed(bad), errTest)
	require.NotErrorIs(e.t, bad.Err(), mem.ErrDependency)
	require.ErrorIs(e.t, e.failed(e.submit(q, marker(), data(bad))), errTest)
	e.wait(q, e.submit(q, marker(), order(bad)))
}

// testSubmitNeverBlocks hangs where it does.
func testSubmitNeverBlocks(e *env) {
	for _, ooo := range []bool{false, true} {
		q, line := e.queue(devices.QueueOptions{Name: "q", OutOfOrder: ooo}), users()
		b := e.alloc(64)
		gate := line.Next()
		points := make([]mem.Point, 0, 2000)
		for range cap(points) / 2 {
			points = append(points, e.fill(q, b, 0, 64, []byte{1}, data(gate)), e.submit(q, marker(), order(gate)))
		}
		require.False(e.t, points[len(points)-1].Reached())
		line.End(gate, nil)
		e.wait(q, points...)
	}
}

// testManyQueues uses the device from many goroutines at once.
func testManyQueues(e *env) {
	const size = 1 << 10
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for i := range cap(errs) {
		q := e.queue(devices.QueueOptions{Name: fmt.Sprint("q", i), OutOfOrder: i%2 == 0, Profiling: i%3 == 0})
		blocks := [2]mem.Block{e.alloc(size), e.alloc(size)}
		all.Go(func() { errs <- e.chase(q, blocks, byte(i)) })
	}
	all.Wait()
	for range cap(errs) {
		require.NoError(e.t, <-errs)
	}
}

// testWaitModes: either way of waiting is told of a command's end, and so is who waits for the
// point of an Awaited copy by other means, once its submitter calls Wait. A Flush between changes
// nothing.
func testWaitModes(e *env) {
	for _, q := range []devices.Queue{e.inOrder(), e.outOfOrder()} {
		b := e.alloc(100_000)
		want, got := make([]byte, 100_000), make([]byte, 100_000)
		for i := range want {
			want[i] = byte(i*7 + i>>8)
		}
		copies := []devices.Command{
			{Op: devices.OpCopy, Size: 100_000, Dst: e.at(b, 0), Src: devices.Loc{Bytes: want}, Awaited: true},
			{Op: devices.OpCopy, Size: 100_000, Src: e.at(b, 0), Dst: devices.Loc{Bytes: got}, Awaited: true},
		}
		wait := []func(p mem.Point) error{
			func(p mem.Point) error { return q.Wait(e.context(), p, devices.Park) },
			func(p mem.Point) error { return q.Wait(e.context(), p, devices.BlockThread) },
			func(p mem.Point) error {
				ended := make(chan error, 1)
				go func() { ended <- p.Wait(e.context()) }()
				if err := q.Flush(); err != nil {
					return err
				}
				if err := q.Wait(e.context(), p, devices.BlockThread); err != nil {
					return err
				}
				return <-ended
			},
		}
		for _, wait := range wait {
			clear(got)
			for i := range copies {
				p, err := q.Submit(&copies[i], nil)
				require.NoError(e.t, err)
				require.NoError(e.t, wait(p))
				require.True(e.t, p.Succeeded())
			}
			e.equal(want, got, "awaited copies")
		}
	}
}

// chase sends bytes around two blocks; it may run beside others of its kind.
func (e *env) chase(q devices.Queue, blocks [2]mem.Block, tag byte) error {
	want, got := noise(uint64(tag), int(blocks[0].Size)), make([]byte, blocks[0].Size)
	cmd := &devices.Command{Op: devices.OpCopy, Size: blocks[0].Size, Dst: e.at(blocks[0], 0), Src: devices.Loc{Bytes: want}}
	p, err := q.Submit(cmd, nil)
	for i := 0; err == nil && i < 100; i++ {
		cmd.Src, cmd.Dst = cmd.Dst, e.at(blocks[(i+1)%2], 0)
		p, err = q.Submit(cmd, []mem.Wait{data(p)})
		if i%10 == 0 && err == nil {
			err = q.Wait(e.context(), p, devices.Park)
		}
	}
	if err != nil {
		return err
	}
	cmd.Src, cmd.Dst = cmd.Dst, devices.Loc{Bytes: got}
	if p, err = q.Submit(cmd, []mem.Wait{data(p)}); err == nil {
		err = q.Wait(e.context(), p, devices.Park)
	}
	if i := firstDifference(want, got); err == nil && e.content && i >= 0 {
		err = fmt.Errorf("queue of %d: byte %d differs", tag, i)
	}
	return err
}

func testHostCalls(e *env) {
	q := e.inOrder()
	b := e.alloc(4)
	var log []string
	note := func(s string, err error) mem.Point {
		return e.submit(q, &devices.Command{Op: devices.OpHostCall, Call: func(ctx context.Context) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			log = append(log, s) // in order, so one at a time
			return err
		}})
	}
	points := []mem.Point{note("a", nil), e.fill(q, b, 0, 4, []byte{1}), note("b", nil)}
	bad := note("c", errTest)
	points = append(points, note("d", nil))
	e.wait(q, points...)
	require.ErrorIs(e.t, e.failed(bad), errTest)
	require.Equal(e.t, []string{"a", "b", "c", "d"}, log)
}
