//go:build !race

package mover_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/mover"
	"godwit/devices/storage"
	"godwit/devices/tce"
	"godwit/kernels"
	"godwit/mem"
)

// waiter is a reusable way to wait that allocates nothing.
type waiter chan error

func (w waiter) PointReached(_ mem.Point, err error) { w <- err }

func (w waiter) wait(p mem.Point) error {
	if done, err := p.Notify(w); done {
		return err
	}
	return <-w
}

// allocatesNothing runs f until pools and slices have grown, then requires that
// it allocates nothing. An odd allocation of the Go runtime's own is let pass.
func allocatesNothing(t *testing.T, what string, f func()) {
	for range 200 {
		f()
	}
	require.Less(t, testing.AllocsPerRun(500, f), 1.0, what)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	open := func(name string) devices.Device {
		d, err := tce.New(tce.Options{Name: name, Memory: 1 << 20})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	a, b := open("a"), open("b")
	from, to := end(t, a, 100_000), end(t, b, 100_000)
	user := mem.NewTimeline("user", true, nil)
	done := make(waiter, 1)
	check := func(p mem.Point, err error) {
		if err == nil {
			err = done.wait(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	module, err := a.Build(ctx, kernels.Program())
	require.NoError(t, err)
	kernel, err := module.Kernel("fill")
	require.NoError(t, err)
	launch := &devices.Command{Op: devices.OpLaunch, Kernel: kernel, Dims: 1, Global: [3]uint64{16}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: from.Block, Size: 64}, {Kind: devices.ArgValue, Value: make([]byte, 4)},
		{Kind: devices.ArgValue, Value: []byte{16, 0, 0, 0, 0, 0, 0, 0}},
	}}
	fill := &devices.Command{Op: devices.OpFill, Size: 64, Dst: devices.Loc{Device: a, Block: from.Block}, Pattern: []byte{1, 2}}
	for _, ooo := range []bool{false, true} {
		q := newQueue(t, a, devices.QueueOptions{Name: "q", OutOfOrder: ooo, Profiling: true})
		waits := make([]mem.Wait, 2)
		for _, cmd := range []*devices.Command{fill, launch} {
			allocatesNothing(t, cmd.Op.String(), func() {
				gate := user.Next()
				waits[0] = mem.Wait{Point: gate, Kind: mem.Data}
				waits[1] = mem.Wait{Point: gate}
				p, err := q.Submit(cmd, waits)
				user.End(gate, nil)
				check(p, err)
			})
		}
	}

	tr := newTransport(t, mover.TransportOptions{Chunk: 16 << 10, Profiling: true})
	dsts, out := []mover.End{to}, make([]mem.Point, 1)
	allocatesNothing(t, "transfer", func() {
		err := tr.Copy(from, dsts, 100_000, nil, out)
		check(out[0], err)
	})
	gated := make([]mem.Wait, 1)
	allocatesNothing(t, "gated transfer", func() {
		gate := user.Next()
		gated[0] = mem.Wait{Point: gate}
		err := tr.Copy(from, dsts, 100_000, gated, out)
		user.End(gate, nil)
		check(out[0], err)
	})
	times, ok := tr.Times(out[0])
	require.True(t, ok)
	require.LessOrEqual(t, times.Queued, times.Started)
	require.Less(t, times.Started, times.Ended)

	reqs, blocks := []mem.Request{{Size: 1000}, {Size: 200_000}}, make([]mem.Block, 2)
	after := make([]mem.Point, 1)
	for _, m := range []mem.Resource{a.Memory(), storage.NewHost("h", 0)} {
		allocatesNothing(t, "blocks", func() {
			if got, err := m.AllocAll(reqs, blocks); got != mem.Ready || err != nil {
				t.Fatal(got, err)
			}
			after[0] = user.Next()
			if m.FreeAfter(blocks[0], after) != nil || m.FreeAfter(blocks[1], nil) != nil {
				t.Fatal("free")
			}
			user.End(after[0], nil)
		})
		require.NoError(t, m.Check())
	}
}
