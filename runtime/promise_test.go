package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/tce"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// setBytes is a kernel that stores v to n bytes at off of dst, and reads src's first.
func setBytes(g *work.Group) {
	dst, src := work.Global[uint8](g, 0), work.Global[uint8](g, 1)
	off, n := int(work.Value[uint32](g, 2)), int(work.Value[uint32](g, 3))
	for i := range n {
		dst.Store(off+i, src.Load(0)+1)
	}
}

// A kernel that does not keep what its launch declared is named, with the argument and
// the first byte, on the devices that look: tce always, cpu if asked.
func TestAFalsePromiseIsNamed(t *testing.T) {
	program := &devices.Program{Name: "promises", Go: []devices.GoKernel{{Name: "set", Func: setBytes, Args: []devices.ArgInfo{
		{Name: "dst", Kind: devices.ArgBuffer, Access: mem.ReadWrite}, {Name: "src", Kind: devices.ArgBuffer, Access: mem.Read},
		{Name: "off", Kind: devices.ArgValue, Size: 4}, {Name: "n", Kind: devices.ArgValue, Size: 4},
	}}}}
	simulated := must(tce.New(tce.Options{Memory: 1 << 20}))
	asked := must(cpu.New(cpu.Options{Promises: true}))
	h := build(t, runtime.Options{Devices: []devices.Device{simulated, asked}}, runtime.QueueOptions{})
	ctx := soon(t)
	prog := must(h.c.Build(context.Background(), program))
	k := must(prog.Kernel("set"))
	for q, device := range []string{"tce", "cpu"} {
		for _, c := range []struct {
			name   string
			arg    func(b *runtime.Buffer) runtime.Arg
			off, n uint32
			want   string // "" is kept
			both   bool   // cpu sees it too
		}{
			{"within its range", func(b *runtime.Buffer) runtime.Arg { return runtime.InOut(b).Range(16, 8) }, 16, 8, "", true},
			{"before its range", func(b *runtime.Buffer) runtime.Arg { return runtime.InOut(b).Range(16, 8) }, 0, 8, "byte 0 of the argument", true},
			{"from before into its range", func(b *runtime.Buffer) runtime.Arg { return runtime.InOut(b).Range(16, 8) }, 14, 4, "byte 14 of the argument", true},
			{"all that is promised", func(b *runtime.Buffer) runtime.Arg { return runtime.Out(b).Range(16, 8) }, 16, 8, "", true},
			{"less than is promised", func(b *runtime.Buffer) runtime.Arg { return runtime.Out(b).Range(16, 8) }, 16, 5, "byte 21 of the argument was not written", false},
			{"what is only read", runtime.In, 3, 1, "byte 3 of the argument", true},
			{"anything", runtime.InOut, 0, 64, "", true},
		} {
			t.Run(device+" "+c.name, func(t *testing.T) {
				dst, src := h.buffer(64, nil), h.buffer(1, nil)
				h.done(h.fill(q, dst, 9))
				h.done(h.fill(q, src, 4))
				e, err := h.q[q].EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{
					c.arg(dst), runtime.In(src), runtime.Uint32(c.off), runtime.Uint32(c.n),
				}})
				require.NoError(t, err)
				err = e.Wait(ctx)
				require.NoError(t, e.Release())
				if c.want == "" || (device == "cpu" && !c.both) {
					require.NoError(t, err)
					got := make([]byte, 64)
					h.done(h.ok(h.q[q].EnqueueRead(ctx, dst, 0, got)))
					for i := range got {
						want := byte(9)
						switch off := uint32(i) - c.off; {
						case off < c.n:
							want = 5
						case c.want != "":
							continue // what was promised and not written is anything
						}
						require.Equal(t, want, got[i], "byte %d", i)
					}
					return
				}
				var f *work.Fault
				require.ErrorAs(t, err, &f)
				require.Equal(t, work.BrokenPromise, f.Kind)
				require.ErrorContains(t, err, "kernel set: broken promise")
				require.ErrorContains(t, err, "argument 0 (dst)")
				require.ErrorContains(t, err, c.want)
			})
		}
	}
}
