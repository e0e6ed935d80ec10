package history

import (
	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// Program is the kernels of histories, in OpenCL C and in Go, so that any device
// can run them. Offsets and sizes are in bytes. mix is a function of OpenCL C,
// hence the prefix.
var Program = &devices.Program{
	Name: "metamorphic",
	Source: `
kernel void meta_mix(global uchar *dst, uint dstOff, const global uchar *src, uint srcOff, uint salt) {
	size_t i = get_global_id(0);
	dst[dstOff + i] = (uchar)(31 * (uint)dst[dstOff + i] + (uint)src[srcOff + i] + salt);
}
kernel void meta_produce(global uchar *dst, uint dstOff, uint salt) {
	size_t i = get_global_id(0);
	dst[dstOff + i] = (uchar)(7 * (uint)i + salt);
}
kernel void meta_reverse(global uchar *dst, uint dstOff, const global uchar *src, uint srcOff) {
	size_t i = get_global_id(0);
	dst[dstOff + i] = src[srcOff + get_global_size(0) - 1 - i];
}
kernel void meta_chase(const global ulong *table, uint at, uint salt) {
	size_t i = get_global_id(0);
	global uchar *dst = (global uchar *)table[at];
	const global uchar *src = (const global uchar *)table[at + 1];
	dst[i] = (uchar)(31 * (uint)dst[i] + (uint)src[i] + salt);
}
`,
	Go: []devices.GoKernel{
		{
			Name: "meta_mix",
			Args: []devices.ArgInfo{buffer("dst", mem.ReadWrite), word("dstOff"), buffer("src", mem.Read), word("srcOff"), word("salt")},
			Func: func(g *work.Group) {
				dst, src := work.Global[uint8](g, 0), work.Global[uint8](g, 2)
				d, s, salt := off(g, 1), off(g, 3), work.Value[uint32](g, 4)
				g.Items(func(it work.Item) {
					i := it.Global(0)
					dst.Store(d+i, mixed(dst.Load(d+i), src.Load(s+i), salt))
				})
			},
		},
		{
			Name: "meta_produce",
			Args: []devices.ArgInfo{buffer("dst", mem.ReadWrite), word("dstOff"), word("salt")},
			Func: func(g *work.Group) {
				dst, d, salt := work.Global[uint8](g, 0), off(g, 1), work.Value[uint32](g, 2)
				g.Items(func(it work.Item) {
					dst.Store(d+it.Global(0), produced(it.Global(0), salt))
				})
			},
		},
		{
			Name: "meta_reverse",
			Args: []devices.ArgInfo{buffer("dst", mem.ReadWrite), word("dstOff"), buffer("src", mem.Read), word("srcOff")},
			Func: func(g *work.Group) {
				dst, src := work.Global[uint8](g, 0), work.Global[uint8](g, 2)
				d, s, n := off(g, 1), off(g, 3), g.GlobalSize(0)
				g.Items(func(it work.Item) {
					i := it.Global(0)
					dst.Store(d+i, src.Load(s+n-1-i))
				})
			},
		},
		{
			Name: "meta_chase",
			Args: []devices.ArgInfo{buffer("table", mem.Read), word("at"), word("salt")},
			Func: func(g *work.Group) {
				table, at, salt := work.Global[uint64](g, 0), off(g, 1), work.Value[uint32](g, 2)
				dst, src := table.Load(at), table.Load(at+1)
				g.Items(func(it work.Item) {
					i := uint64(it.Global(0))
					work.StoreAt(g, dst+i, mixed(work.LoadAt[uint8](g, dst+i), work.LoadAt[uint8](g, src+i), salt))
				})
			},
		},
	},
}

func buffer(name string, access mem.Mode) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgBuffer, Access: access}
}

func word(name string) devices.ArgInfo {
	return devices.ArgInfo{Name: name, Kind: devices.ArgValue, Size: 4}
}

func off(g *work.Group, arg int) int { return int(work.Value[uint32](g, arg)) }
