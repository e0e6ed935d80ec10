package history

import (
	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// Pointers is kernels for every device. follow adds up a
// list {next, value} whose links are addresses, and sets the values to 1000; out
// gets the sum and the address of the list's head. increment adds one to n bytes.
var Pointers = &devices.Program{
	Name: "pointers",
	Source: `
kernel void follow(global ulong *list, global ulong *out)
{
	ulong sum = 0;
	for (global ulong *at = list; at; at = (global ulong *)at[0]) {
		sum += at[1];
		at[1] = 1000;
	}
	out[0] = sum;
	out[1] = (ulong)list;
}
kernel void increment(global uchar *data, ulong n)
{
	for (ulong i = 0; i < n; i++)
		data[i]++;
}`,
	Go: []devices.GoKernel{{
		Name: "follow",
		Args: []devices.ArgInfo{{Name: "list", Kind: devices.ArgBuffer, Access: mem.ReadWrite}, {Name: "out", Kind: devices.ArgBuffer, Access: mem.Write}},
		Func: func(g *work.Group) {
			sum := uint64(0)
			for at := g.Addr(0); at != 0; at = work.LoadAt[uint64](g, at) {
				sum += work.LoadAt[uint64](g, at+8)
				work.StoreAt(g, at+8, uint64(1000))
			}
			out := work.Global[uint64](g, 1)
			out.Store(0, sum)
			out.Store(1, g.Addr(0))
		},
	}, {
		Name: "increment",
		Args: []devices.ArgInfo{{Name: "data", Kind: devices.ArgBuffer, Access: mem.ReadWrite}, {Name: "n", Kind: devices.ArgValue, Size: 8}},
		Func: func(g *work.Group) {
			v := work.Global[uint8](g, 0)
			for i := range int(work.Value[uint64](g, 1)) {
				v.Store(i, v.Load(i)+1)
			}
		},
	}},
}

// Increment is a launch of Pointers' increment, k, over the n bytes of a.
func Increment(k *runtime.Kernel, a runtime.Arg, n uint64) runtime.Launch {
	return runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{a, runtime.Uint64(n)}}
}
