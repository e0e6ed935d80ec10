//go:build cgo

package opencl

import (
	"encoding/binary"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Copies over a link, between a device's own memory and another's window, by a kernel of ours.
//
// The vendor's copies are kernels too, as wide as the device: whatever else it has to do waits until they have
// ended, which is when the link has carried them: a copy of 4 MiB within the device, 14 us alone, took 359 beside a pull
// of 128 MiB. A link needs a few work-groups to be full, and what else the device has to do runs beside those.

// linkSource copies n times 16 bytes. Each work-item has four under way.
const linkSource = `
__kernel void godwit_link(__global const uint4 *from, ulong at, __global uint4 *to, ulong there, ulong n)
{
	size_t all = get_global_size(0), i = get_global_id(0);
	from += at;
	to += there;
	for (; i + 3 * all < n; i += 4 * all) {
		uint4 a = from[i], b = from[i + all], c = from[i + 2 * all], d = from[i + 3 * all];
		to[i] = a;
		to[i + all] = b;
		to[i + 2 * all] = c;
		to[i + 3 * all] = d;
	}
	for (; i < n; i += all)
		to[i] = from[i];
}`

const (
	linkWord   = 16  // bytes of a copy's alignment
	linkGroup  = 512 // work-items of a group
	linkGroups = 64  // of a copy
)

// openLinkCopy has copies over links done by the kernel, where it can be built. It may take some hundred milliseconds.
func (d *Device) openLinkCopy() {
	if d.linkCopy.Load() != nil {
		return
	}
	prog := d.host.program(&devices.Program{Source: linkSource}) // the host's until it closes
	<-prog.built
	if prog.err != nil {
		return
	}
	cl, st := prog.cl.NewKernel("godwit_link")
	if st != 0 {
		return
	}
	k := &kernel{name: "copy over the link", dev: d, cl: cl, set: ocl.NewSetArgs()}
	k.args, _ = describeArgs(cl)
	k.uses.Store(1)
	if len(k.args) != 5 || !d.linkCopy.CompareAndSwap(nil, k) {
		k.release()
	}
}

// closeLinkCopy gives the kernel back. No command of the device is left.
func (d *Device) closeLinkCopy() {
	if k := d.linkCopy.Swap(nil); k != nil {
		k.closed.Store(true)
		k.release()
	}
}

// byLinkCopy has the kernel do r, a copy whose cl_mems are known, where it can.
func (r *record) byLinkCopy(cmd *devices.Command) {
	k, c := r.q.dev.linkCopy.Load(), &r.cmd
	if k == nil || cmd.Late != nil || (c.SrcOff|c.DstOff|c.Size)%linkWord != 0 || k.use() != nil {
		return
	}
	number := func(v uint64) {
		r.args = ocl.AppendValue(r.args, binary.NativeEndian.AppendUint64(nil, v))
	}
	r.kernel = k
	r.args = ocl.AppendMem(r.args, c.Src)
	number(c.SrcOff / linkWord)
	r.args = ocl.AppendMem(r.args, c.Dst)
	number(c.DstOff / linkWord)
	number(c.Size / linkWord)
	groups, _ := mem.AlignUp(c.Size/linkWord, linkGroup)
	c.Op, c.Kernel, c.Dims, c.Args, c.HasLocal = ocl.Launch, k.cl, 1, 5, 1
	c.Global, c.Local = [3]uint64{min(groups, linkGroups*linkGroup), 1, 1}, [3]uint64{linkGroup, 1, 1}
}
