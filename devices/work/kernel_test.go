package work_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/devices/work"
	"godwit/mem"
)

// probe is a device with a queue, and a block each of 100 and 64 bytes, for a kernel with two buffers, a null
// pointer, a local argument and a value.
type probe struct {
	t     *testing.T
	dev   devices.Device
	queue devices.Queue
	x, y  mem.Block
}

func newProbe(t *testing.T, dev devices.Device, err error) *probe {
	require.NoError(t, err)
	p := &probe{t: t, dev: dev}
	p.queue, err = dev.NewQueue(devices.QueueOptions{Name: "q"})
	require.NoError(t, err)
	p.x, p.y = p.alloc(100), p.alloc(64)
	t.Cleanup(func() {
		require.NoError(t, p.queue.Close())
		require.NoError(t, dev.Memory().Check())
		if d, ok := dev.(*tce.Device); ok {
			require.NoError(t, d.LocalMemory().Check())
			require.Zero(t, d.LocalMemory().Stats().Live, "local memory is freed at completion")
		}
		_ = dev.Close() // tests leave blocks on purpose
	})
	return p
}

func onCPU(t *testing.T, o cpu.Options) *probe { d, err := cpu.New(o); return newProbe(t, d, err) }

func onTCE(t *testing.T, o tce.Options) *probe { d, err := tce.New(o); return newProbe(t, d, err) }

func (p *probe) alloc(size uint64) mem.Block {
	out := make([]mem.Block, 1)
	got, err := p.dev.Memory().AllocAll([]mem.Request{{Size: size}}, out, nil)
	require.NoError(p.t, err)
	require.Equal(p.t, mem.Ready, got)
	return out[0]
}

// launch builds a kernel of f, has cmd launch it, and returns how it ended.
func (p *probe) launch(f func(g *work.Group), args []devices.ArgInfo, cmd devices.Command) error {
	m, err := p.dev.Build(context.Background(), &devices.Program{Name: "probe", Go: []devices.GoKernel{{Name: "probe", Func: f, Args: args}}})
	require.NoError(p.t, err)
	cmd.Op = devices.OpLaunch
	cmd.Kernel, err = m.Kernel("probe")
	require.NoError(p.t, err)
	point, err := p.queue.Submit(&cmd, nil)
	require.NoError(p.t, err)
	return p.queue.Wait(context.Background(), point, devices.Park)
}

// run launches f over 4 groups of 4 items.
func (p *probe) run(f func(g *work.Group), local uint64) error {
	return p.launch(f, []devices.ArgInfo{
		{Name: "x", Kind: devices.ArgBuffer}, {Name: "y", Kind: devices.ArgBuffer},
		{Name: "none", Kind: devices.ArgBuffer}, {Name: "tmp", Kind: devices.ArgLocal}, {Name: "v", Kind: devices.ArgValue},
	}, devices.Command{Dims: 1, Global: [3]uint64{16}, Local: [3]uint64{4}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: p.x, Off: 4, Size: 96}, {Kind: devices.ArgBuffer, Block: p.y, Size: p.y.Size},
		{Kind: devices.ArgBuffer}, {Kind: devices.ArgLocal, Size: local}, {Kind: devices.ArgValue, Value: make([]byte, 4)},
	}})
}

func TestFaultsFailTheLaunchAndNameWhatHappened(t *testing.T) {
	t.Run("tce", func(t *testing.T) { testFaults(t, onTCE(t, tce.Options{Memory: 1 << 20})) })
	t.Run("cpu", func(t *testing.T) { testFaults(t, onCPU(t, cpu.Options{Workers: 3})) })
}

func testFaults(t *testing.T, p *probe) {
	for _, c := range []struct {
		name string
		f    func(g *work.Group)
		kind work.FaultKind
		text []string
	}{
		{"load past the end", func(g *work.Group) {
			x := work.Global[uint32](g, 0)
			g.Items(func(it work.Item) { x.Load(it.Global(0) * 2) })
		}, work.OutOfBounds, []string{"kernel probe", "argument 0 (x)", "element 24 of 24", "work-item [12 0 0] of group [3 0 0]", "load of 4 bytes at address 0x"}},
		{"negative index", func(g *work.Group) { work.Global[uint8](g, 0).Store(-1, 1) },
			work.OutOfBounds, []string{"element -1 of 96", "store of 1 bytes"}},
		{"misaligned view", func(g *work.Group) { work.Global[uint64](g, 0).Load(0) },
			work.Misaligned, []string{"argument 0 (x)"}},
		{"misaligned address", func(g *work.Group) { work.LoadAt[uint32](g, g.Addr(1)+2) },
			work.Misaligned, []string{"address 0x"}},
		{"local past the end", func(g *work.Group) { work.Local[uint32](g, 3).Store(4, 0) },
			work.OutOfBounds, []string{"argument 3 (tmp)"}},
		{"unknown address", func(g *work.Group) { work.LoadAt[uint8](g, 0xdead_beef) },
			work.UnknownAddress, []string{"0xdeadbeef"}},
		{"between blocks", func(g *work.Group) { work.LoadAt[uint8](g, p.y.Addr+64) },
			work.UnknownAddress, nil},
		{"across a block's end", func(g *work.Group) { work.LoadAt[uint32](g, p.x.Addr+100) },
			work.UnknownAddress, nil},
		{"null pointer", func(g *work.Group) { work.Global[uint8](g, 2).Load(0) },
			work.NullPointer, []string{"argument 2 (none)"}},
		{"value as a buffer", func(g *work.Group) { work.Global[uint8](g, 4) },
			work.WrongType, []string{"argument 4 (v)", "it is a value, not a buffer"}},
		{"value of another size", func(g *work.Group) { work.Value[float64](g, 4) },
			work.WrongType, []string{"it has 4 bytes, the kernel takes 8"}},
		{"no such argument", func(g *work.Group) { work.Global[uint8](g, 9) },
			work.WrongType, []string{"no argument 9 of 5"}},
		{"panic", func(g *work.Group) { g.Items(func(it work.Item) { _ = []int{}[it.Local(0)] }) },
			work.Crashed, []string{"index out of range", "work-item ["}},
		{"past a slice", func(g *work.Group) { s := work.Global[uint32](g, 0).Slice(); _ = s[g.Len()+20] }, work.Crashed, nil},
		{"small atomics", func(g *work.Group) { work.Global[uint8](g, 0).Add(0, 1) }, work.WrongType, nil},
	} {
		err := p.run(c.f, 16)
		var f *work.Fault
		require.ErrorAs(t, err, &f, c.name)
		require.ErrorIs(t, err, mem.ErrFault)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
		require.Equal(t, c.kind, f.Kind, "%s: %v", c.name, err)
		for _, text := range c.text {
			require.ErrorContains(t, err, text, c.name)
		}
		require.NoError(t, p.run(func(g *work.Group) { work.Global[uint8](g, 0).Store(0, 1) }, 16), "the device goes on")
	}
}

func TestUseAfterFreeIsFoundAlsoThroughInteriorPointers(t *testing.T) {
	p := onTCE(t, tce.Options{Memory: 1 << 20})
	for _, again := range []bool{false, true} { // the memory given to another block, or to none
		var addr uint64
		err := p.run(func(g *work.Group) {
			v := work.Global[uint32](g, 1)
			addr = g.Addr(1) + 8
			v.Load(3)
			if g.ID(0) != 1 {
				return
			}
			require.NoError(t, p.dev.Memory().FreeAfter(p.y, nil))
			if again {
				require.Equal(t, p.y.Addr, p.alloc(64).Addr)
			}
			v.Load(3)
		}, 16)
		var f *work.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, work.UseAfterFree, f.Kind)
		require.Equal(t, 1, f.Arg)
		require.Equal(t, [3]int{1, 0, 0}, f.Group)
		require.Equal(t, p.y.Addr+12, f.Addr)
		if !again {
			p.y = p.alloc(64)
			require.NoError(t, p.run(func(g *work.Group) { work.LoadAt[uint32](g, addr) }, 16))
			require.NoError(t, p.dev.Memory().FreeAfter(p.y, nil))
			p.y = p.alloc(64)
			continue
		}
		// Launched after the free, the command fails before the kernel starts.
		err = p.run(func(*work.Group) { t.Error("must not run") }, 16)
		require.ErrorIs(t, err, mem.ErrInvalidBuffer)
	}
}

func TestAddressesWorkLikeViews(t *testing.T) {
	p := onTCE(t, tce.Options{Memory: 1 << 20, GlobalBase: 1 << 40, LocalBase: 1 << 20})
	require.NoError(t, p.run(func(g *work.Group) {
		y, tmp := work.Global[uint32](g, 1), work.Local[uint32](g, 3)
		require.Nil(t, y.Slice())
		require.GreaterOrEqual(t, g.Addr(1), uint64(1<<40))
		require.EqualValues(t, 64, g.Bytes(1))
		g.Items(func(it work.Item) { tmp.Store(it.Local(0), uint32(it.Global(0))) })
		g.Items(func(it work.Item) {
			work.StoreAt(g, g.Addr(1)+4*uint64(it.Global(0)), work.LoadAt[uint32](g, g.Addr(3)+4*uint64(it.Local(0)))+1)
			require.EqualValues(t, it.Global(0)+1, y.Load(it.Global(0)))
			y.Add(it.Global(0), 10)
			require.EqualValues(t, it.Global(0)+11, y.Load(it.Global(0)))
		})
	}, 16))
}

func TestLocalArgumentsOfTheProcessLieOneBehindAnother(t *testing.T) {
	info, arg := devices.ArgInfo{Kind: devices.ArgLocal}, devices.Arg{Kind: devices.ArgLocal, Size: 200}
	var apart uint64
	require.NoError(t, onCPU(t, cpu.Options{}).launch(func(g *work.Group) {
		apart = g.Addr(1) - g.Addr(0)
		work.Local[uint64](g, 1).Store(24, 1)
	}, []devices.ArgInfo{info, info}, devices.Command{Dims: 1, Global: [3]uint64{1}, Local: [3]uint64{1}, Args: []devices.Arg{arg, arg}}))
	require.EqualValues(t, 256, apart)
}

func TestLocalMemoryRunningOutFailsTheLaunch(t *testing.T) {
	p := onTCE(t, tce.Options{Memory: 1 << 20, LocalMemory: 1000})
	require.NoError(t, p.run(func(*work.Group) {}, 1000))
	locals := p.dev.(*tce.Device).LocalMemory()
	// Within the limit, but somebody else holds a part.
	held := make([]mem.Block, 1)
	_, err := locals.AllocAll([]mem.Request{{Size: 8}}, held, nil)
	require.NoError(t, err)
	err = p.run(func(*work.Group) { t.Error("must not run") }, 1000)
	require.ErrorIs(t, err, mem.ErrNoResources)
	require.ErrorContains(t, err, "1000 bytes of local memory")
	require.NoError(t, locals.FreeAfter(held[0], nil))
	require.NoError(t, p.run(func(*work.Group) {}, 1000))
}

func TestABlockFreedDuringALaunchStaysUntilItsEnd(t *testing.T) {
	r := onCPU(t, cpu.Options{})
	r.y = r.alloc(1 << 20)
	require.NoError(t, r.run(func(g *work.Group) {
		if g.ID(0) > 0 {
			return
		}
		y := work.Global[uint8](g, 1)
		require.NoError(t, r.dev.Memory().FreeAfter(r.y, nil))
		for i := range y.Len() {
			y.Store(i, 1)
		}
	}, 16))
	require.NoError(t, r.dev.Memory().Check())
	require.EqualValues(t, 164, r.dev.Memory().Stats().Live)
	require.ErrorIs(t, r.run(func(*work.Group) { t.Error("must not run") }, 16), mem.ErrInvalidBuffer)
}

func TestWhatALaunchKeptInPlaceIsGivenOutAgainAfterIt(t *testing.T) {
	r := onCPU(t, cpu.Options{Memory: 2 << 20})
	r.y = r.alloc(1 << 20)
	require.NoError(t, r.run(func(*work.Group) {}, 16))
	require.NoError(t, r.dev.Memory().FreeAfter(r.y, nil))
	for _, size := range []uint64{1 << 20, 1000 << 10} { // as much as there is beside the other block
		got, err := r.dev.Memory().AllocAll([]mem.Request{{Size: size}}, make([]mem.Block, 1), nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
	}
}

func TestAViewKeptBeyondItsBlockFailsTheCommandNotTheProcess(t *testing.T) {
	r := onCPU(t, cpu.Options{})
	r.y = r.alloc(1 << 20)
	view, err := r.dev.(devices.Viewer).View(r.y, 0, 1<<20)
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
	for _, p := range []*probe{onCPU(t, cpu.Options{Workers: 4}), onTCE(t, tce.Options{})} {
		testEveryWorkItem(t, p)
	}
}

func testEveryWorkItem(t *testing.T, p *probe) {
	for _, c := range []struct {
		dims          int
		global, local [3]uint64
	}{
		{1, [3]uint64{7}, [3]uint64{}}, {1, [3]uint64{1000}, [3]uint64{10}}, {1, [3]uint64{997}, [3]uint64{}},
		{2, [3]uint64{30, 20}, [3]uint64{5, 4}}, {2, [3]uint64{13, 17}, [3]uint64{}}, {3, [3]uint64{4, 6, 8}, [3]uint64{2, 3, 4}},
	} {
		total := max(c.global[0], 1) * max(c.global[1], 1) * max(c.global[2], 1)
		ran := make([]atomic.Int32, total)
		require.NoError(t, p.launch(func(g *work.Group) {
			phase := 0
			g.Items(func(it work.Item) { phase++ })
			require.Equal(t, g.Len(), phase)
			g.Items(func(it work.Item) {
				i := it.Global(0) - g.Offset(0) + g.GlobalSize(0)*(it.Global(1)-g.Offset(1)+g.GlobalSize(1)*(it.Global(2)-g.Offset(2)))
				ran[i].Add(1)
			})
		}, nil, devices.Command{Dims: c.dims, Global: c.global, Local: c.local, Offset: [3]uint64{5, 0, 9}}))
		for i := range ran {
			require.EqualValues(t, 1, ran[i].Load(), "%+v, item %d", c, i)
		}
	}
}
