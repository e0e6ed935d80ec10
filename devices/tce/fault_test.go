package tce_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/tce"
	"godwit/devices/work"
	"godwit/mem"
)

// probe builds a kernel with two buffers and a local argument around f, on a
// device with a queue.
type probe struct {
	t     *testing.T
	dev   *tce.Device
	queue devices.Queue
	x, y  mem.Block
}

func newProbe(t *testing.T, o tce.Options) *probe {
	p := &probe{t: t, dev: open(t, o)}
	var err error
	p.queue, err = p.dev.NewQueue(devices.QueueOptions{Name: "q"})
	require.NoError(t, err)
	p.x, p.y = p.alloc(100), p.alloc(64)
	t.Cleanup(func() {
		require.NoError(t, p.queue.Close())
		require.NoError(t, p.dev.Memory().Check())
		require.NoError(t, p.dev.LocalMemory().Check())
		require.Zero(t, p.dev.LocalMemory().Stats().Live, "local memory is freed at completion")
		_ = p.dev.Close() // tests leave blocks on purpose
	})
	return p
}

func (p *probe) alloc(size uint64) mem.Block {
	out := make([]mem.Block, 1)
	got, err := p.dev.Memory().AllocAll([]mem.Request{{Size: size}}, out, nil)
	require.NoError(p.t, err)
	require.Equal(p.t, mem.Ready, got)
	return out[0]
}

// run launches f over 4 groups of 4 items and returns how it ended.
func (p *probe) run(f func(g *work.Group), local uint64) error {
	m, err := p.dev.Build(context.Background(), &devices.Program{Name: "probe", Go: []devices.GoKernel{{
		Name: "probe", Func: f, Args: []devices.ArgInfo{
			{Name: "x", Kind: devices.ArgBuffer}, {Name: "y", Kind: devices.ArgBuffer},
			{Name: "none", Kind: devices.ArgBuffer}, {Name: "tmp", Kind: devices.ArgLocal}, {Name: "v", Kind: devices.ArgValue},
		},
	}}})
	require.NoError(p.t, err)
	k, err := m.Kernel("probe")
	require.NoError(p.t, err)
	cmd := &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{16}, Local: [3]uint64{4}, Args: []devices.Arg{
		{Kind: devices.ArgBuffer, Block: p.x, Off: 4, Size: 96}, {Kind: devices.ArgBuffer, Block: p.y, Size: 64},
		{Kind: devices.ArgBuffer}, {Kind: devices.ArgLocal, Size: local}, {Kind: devices.ArgValue, Value: make([]byte, 4)},
	}}
	point, err := p.queue.Submit(cmd, nil)
	require.NoError(p.t, err)
	return p.queue.Wait(context.Background(), point, devices.Park)
}

func TestFaultsFailTheLaunchAndNameWhatHappened(t *testing.T) {
	p := newProbe(t, tce.Options{Memory: 1 << 20})
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
			work.Crashed, []string{"index out of range", "work-item [0 0 0]"}},
		{"small atomics", func(g *work.Group) { work.Global[uint8](g, 0).Add(0, 1) }, work.WrongType, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := p.run(c.f, 16)
			var f *work.Fault
			require.ErrorAs(t, err, &f)
			require.ErrorIs(t, err, mem.ErrFault)
			require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
			require.Equal(t, c.kind, f.Kind, "%v", err)
			for _, text := range c.text {
				require.ErrorContains(t, err, text)
			}
			require.NoError(t, p.run(func(g *work.Group) { work.Global[uint8](g, 0).Store(0, 1) }, 16), "the device goes on")
		})
	}
}

func TestUseAfterFreeIsFoundAlsoThroughInteriorPointers(t *testing.T) {
	p := newProbe(t, tce.Options{Memory: 1 << 20})
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
	p := newProbe(t, tce.Options{Memory: 1 << 20, GlobalBase: 1 << 40, LocalBase: 1 << 20})
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

func TestLocalMemoryRunningOutFailsTheLaunch(t *testing.T) {
	p := newProbe(t, tce.Options{Memory: 1 << 20, LocalMemory: 1000})
	require.NoError(t, p.run(func(*work.Group) {}, 1000))
	// Within the limit, but somebody else holds a part.
	held := make([]mem.Block, 1)
	_, err := p.dev.LocalMemory().AllocAll([]mem.Request{{Size: 8}}, held, nil)
	require.NoError(t, err)
	err = p.run(func(*work.Group) { t.Error("must not run") }, 1000)
	require.ErrorIs(t, err, mem.ErrNoResources)
	require.ErrorContains(t, err, "1000 bytes of local memory")
	require.NoError(t, p.dev.LocalMemory().FreeAfter(held[0], nil))
	require.NoError(t, p.run(func(*work.Group) {}, 1000))
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []tce.Options{
		{BaseAlign: 100}, {GlobalBase: 0x1800, Memory: 1 << 20}, {GlobalBase: ^uint64(0), Memory: 1 << 20}, {LocalBase: ^uint64(0)},
	} {
		_, err := tce.New(o)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%+v", o)
	}
	ctx := context.Background()
	_, err := devices.Open(ctx, "tce", devices.Config{Params: map[string]string{"workers": "3"}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "workers")
	ds, err := devices.Open(ctx, "tce", devices.Config{Memory: 1 << 20, Params: map[string]string{"strategy": "tight", "global-base": "0x100000"}})
	require.NoError(t, err)
	require.EqualValues(t, 0x100000, ds[0].Info().Spaces[0].Base)
	require.NoError(t, ds[0].Close())
}
