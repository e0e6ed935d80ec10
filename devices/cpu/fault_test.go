package cpu_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/work"
	"godwit/mem"
)

// runner is a device with a queue, a block of 96 bytes and one of 64.
type runner struct {
	t     *testing.T
	dev   *cpu.Device
	queue devices.Queue
	x, y  mem.Block
}

func newRunner(t *testing.T, o cpu.Options) *runner {
	r := &runner{t: t, dev: open(t, o)}
	var err error
	r.queue, err = r.dev.NewQueue(devices.QueueOptions{Name: "q"})
	require.NoError(t, err)
	blocks := make([]mem.Block, 2)
	got, err := r.dev.Memory().AllocAll([]mem.Request{{Size: 96}, {Size: 1 << 20}}, blocks, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	r.x, r.y = blocks[0], blocks[1]
	t.Cleanup(func() {
		require.NoError(t, r.queue.Close())
		require.NoError(t, r.dev.Memory().Check())
		_ = r.dev.Close() // tests leave blocks on purpose
	})
	return r
}

func (r *runner) run(global uint64, f func(g *work.Group)) error {
	m, err := r.dev.Build(context.Background(), &devices.Program{Name: "p", Go: []devices.GoKernel{{
		Name: "probe", Func: f, Args: []devices.ArgInfo{
			{Name: "x", Kind: devices.ArgBuffer}, {Name: "y", Kind: devices.ArgBuffer}, {Name: "tmp", Kind: devices.ArgLocal},
		},
	}}})
	require.NoError(r.t, err)
	k, err := m.Kernel("probe")
	require.NoError(r.t, err)
	p, err := r.queue.Submit(&devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{global}, Local: [3]uint64{4}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: r.x, Off: 4, Size: 92}, {Kind: devices.ArgBuffer, Block: r.y, Size: 1 << 20}, {Kind: devices.ArgLocal, Size: 20},
	}}, nil)
	require.NoError(r.t, err)
	return r.queue.Wait(context.Background(), p, devices.Park)
}

func TestFaultsFailTheLaunch(t *testing.T) {
	r := newRunner(t, cpu.Options{Workers: 3})
	for name, c := range map[string]struct {
		f    func(g *work.Group)
		kind work.FaultKind
	}{
		"out of bounds":       {func(g *work.Group) { work.Global[uint32](g, 0).Load(23) }, work.OutOfBounds},
		"local out of bounds": {func(g *work.Group) { work.Local[uint32](g, 2).Store(5, 1) }, work.OutOfBounds},
		"misaligned":          {func(g *work.Group) { work.Global[float64](g, 0).Load(0) }, work.Misaligned},
		"misaligned address":  {func(g *work.Group) { work.LoadAt[uint32](g, g.Addr(1)+1) }, work.Misaligned},
		"unknown address":     {func(g *work.Group) { work.LoadAt[uint8](g, 64) }, work.UnknownAddress},
		"panic":               {func(g *work.Group) { panic("boom") }, work.Crashed},
		"past a slice":        {func(g *work.Group) { s := work.Global[uint32](g, 0).Slice(); _ = s[g.Len()+19] }, work.Crashed},
	} {
		err := r.run(4000, c.f)
		var f *work.Fault
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, c.kind, f.Kind, "%s: %v", name, err)
		require.ErrorContains(t, err, "kernel probe")
	}
	require.NoError(t, r.run(64, func(g *work.Group) {
		g.Items(func(it work.Item) { work.Global[uint32](g, 1).Add(0, 1) })
	}))
}

func TestABlockFreedDuringALaunchStaysUntilItsEnd(t *testing.T) {
	r := newRunner(t, cpu.Options{})
	require.NoError(t, r.run(4, func(g *work.Group) {
		y := work.Global[uint8](g, 1)
		require.NoError(t, r.dev.Memory().FreeAfter(r.y, nil))
		for i := range y.Len() {
			y.Store(i, 1)
		}
	}))
	require.NoError(t, r.dev.Memory().Check())
	require.EqualValues(t, 96, r.dev.Memory().Stats().Live)
	require.ErrorIs(t, r.run(4, func(*work.Group) { t.Error("must not run") }), mem.ErrInvalidBuffer)
}

func TestWhatALaunchKeptInPlaceIsGivenOutAgainAfterIt(t *testing.T) {
	r := newRunner(t, cpu.Options{Memory: 2 << 20})
	require.NoError(t, r.run(4, func(*work.Group) {}))
	require.NoError(t, r.dev.Memory().FreeAfter(r.y, nil))
	for _, size := range []uint64{1 << 20, 1000 << 10} { // as much as there is beside the other block
		got, err := r.dev.Memory().AllocAll([]mem.Request{{Size: size}}, make([]mem.Block, 1), nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
	}
}

func TestAViewKeptBeyondItsBlockFailsTheCommandNotTheProcess(t *testing.T) {
	r := newRunner(t, cpu.Options{})
	view, err := r.dev.View(r.y, 0, 1<<20)
	require.NoError(t, err)
	require.NoError(t, r.dev.Memory().FreeAfter(r.y, nil))
	p, err := r.queue.Submit(&devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error {
		view[4096]++
		return nil
	}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, r.queue.Wait(context.Background(), p, devices.Park), mem.ErrFault)
}

func TestEveryWorkItemRunsOnceInEveryShape(t *testing.T) {
	r := newRunner(t, cpu.Options{Workers: 4})
	for _, c := range []struct {
		dims          int
		global, local [3]uint64
	}{
		{1, [3]uint64{7}, [3]uint64{}}, {1, [3]uint64{1000}, [3]uint64{10}}, {1, [3]uint64{997}, [3]uint64{}},
		{2, [3]uint64{30, 20}, [3]uint64{5, 4}}, {2, [3]uint64{13, 17}, [3]uint64{}}, {3, [3]uint64{4, 6, 8}, [3]uint64{2, 3, 4}},
	} {
		total := max(c.global[0], 1) * max(c.global[1], 1) * max(c.global[2], 1)
		ran := make([]atomic.Int32, total)
		m, err := r.dev.Build(context.Background(), &devices.Program{Go: []devices.GoKernel{{Name: "k", Func: func(g *work.Group) {
			phase := 0
			g.Items(func(it work.Item) { phase++ })
			require.Equal(t, g.Len(), phase)
			g.Items(func(it work.Item) {
				i := it.Global(0) - g.Offset(0) + g.GlobalSize(0)*(it.Global(1)-g.Offset(1)+g.GlobalSize(1)*(it.Global(2)-g.Offset(2)))
				ran[i].Add(1)
			})
		}}}})
		require.NoError(t, err)
		k, err := m.Kernel("k")
		require.NoError(t, err)
		p, err := r.queue.Submit(&devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: c.dims, Global: c.global, Local: c.local, Offset: [3]uint64{5, 0, 9}}, nil)
		require.NoError(t, err)
		require.NoError(t, r.queue.Wait(context.Background(), p, devices.Park))
		for i := range ran {
			require.EqualValues(t, 1, ran[i].Load(), "%+v, item %d", c, i)
		}
	}
}
