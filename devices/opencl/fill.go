//go:build cgo

package opencl

import (
	"context"
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/opencl/internal/ocl"
	"godwit/internal/storage"
	"godwit/mem"
)

// fill copies the command into r and finds the cl objects it names.
func (r *record) fill(cmd *devices.Command) error {
	if r.q.timing {
		r.times.Queued = devices.Now()
	}
	if r.host.worker != nil {
		r.runner = runInWorker
	}
	if cmd.Run != nil && cmd.Op == devices.OpLaunch {
		return r.fillRun(cmd)
	}
	return r.fillOne(cmd)
}

// fillOne is fill for a command alone.
func (r *record) fillOne(cmd *devices.Command) error {
	d := r.q.dev
	r.cmd.Queue = r.q.cl
	switch cmd.Op {
	case devices.OpMarker:
		r.cmd.Op = ocl.Marker
	case devices.OpHostCall:
		r.hostCall(cmd.Call)
	case devices.OpFill:
		r.cmd.Op, r.cmd.Pattern = ocl.Fill, uint32(len(cmd.Pattern))
		r.args = append(r.args, cmd.Pattern...)
		r.cmd.Size = cmd.Size
		if _, ok := cmd.Dst.Device.(devices.HostBacked); ok {
			return r.fillFill(cmd)
		}
		if err := r.own(cmd.Dst.Device); err != nil {
			return err
		}
		_, err := r.find(&r.cmd.Dst, &r.cmd.DstOff, d, &cmd.Dst, cmd.Size)
		return err
	case devices.OpCopy:
		r.cmd.Size, r.late = cmd.Size, cmd.Late
		err := r.fillCopy(cmd, cmd.Size, cmd.Size, ocl.Copy, ocl.Read, ocl.Write)
		if err == nil && cmd.Carrier != nil {
			r.runner, r.carrier = runCarrier, cmd.Carrier
		}
		return err
	case devices.OpCopyRect:
		rc := cmd.Rect
		flatten(&rc)
		r.cmd.Region = rc.Region
		r.cmd.SrcPitch, r.cmd.DstPitch = [2]uint64{rc.SrcRow, rc.SrcSlice}, [2]uint64{rc.DstRow, rc.DstSlice}
		s, _ := devices.RectSpan(cmd.Rect.Region, cmd.Rect.SrcRow, cmd.Rect.SrcSlice) // checked before
		t, _ := devices.RectSpan(cmd.Rect.Region, cmd.Rect.DstRow, cmd.Rect.DstSlice)
		return r.fillCopy(cmd, s, t, ocl.CopyRect, ocl.ReadRect, ocl.WriteRect)
	case devices.OpLaunch:
		return r.fillLaunch(cmd)
	}
	return nil
}

// flatten brings a rectangle into the form that OpenCL takes: pitches of
// dimensions that have one element only do not count, and rows of one in several
// slices are rows.
func flatten(r *devices.Rect) {
	if r.Region[1] == 1 && r.Region[2] > 1 {
		r.Region[1], r.Region[2] = r.Region[2], 1
		r.SrcRow, r.DstRow = r.SrcSlice, r.DstSlice
	}
	if r.Region[1] == 1 {
		r.SrcRow, r.DstRow = r.Region[0], r.Region[0]
	}
	if r.Region[2] == 1 {
		r.SrcSlice, r.DstSlice = r.SrcRow*r.Region[1], r.DstRow*r.Region[1]
	}
}

// own fails where dev is not the queue's device.
func (r *record) own(dev devices.Device) error {
	if d, ok := dev.(*Device); !ok || d != r.q.dev {
		return fmt.Errorf("device %s: a block of another device: %w", r.q.dev.name, mem.ErrInvalidDevice)
	}
	return nil
}

// find finds an end of r for C, and returns its address in this process; 0 if r cannot be done here.
func (r *record) find(m *ocl.Mem, off *uint64, d *Device, l *devices.Loc, n uint64) (here uint64, err error) {
	at, err := d.locate(l.Block, l.Off, n, false)
	if *m, *off = at.mem, at.off; r.q.timing || r.late != nil || !d.info.SharesHost {
		at.memory = 0
	}
	return at.memory, err
}

// locate finds a part of a block; see store.resolve.
func (d *Device) locate(b mem.Block, off, n uint64, exact bool) (place, error) {
	addr, err := d.memory.Address(b, off, n)
	if err != nil {
		return place{}, err
	}
	return d.store.resolve(addr, n, exact)
}

// fillCopy chooses among the forms of a copy: within the device, between the
// device and the host, from a device of the same platform. srcLen and dstLen are
// how far the ends reach.
func (r *record) fillCopy(cmd *devices.Command, srcLen, dstLen uint64, within, read, write ocl.Op) error {
	d := r.q.dev
	from, fromCL := cmd.Src.Device.(*Device)
	to, toCL := cmd.Dst.Device.(*Device)
	switch {
	case fromCL && from.host != d.host || toCL && to.host != d.host:
		return fmt.Errorf("device %s: copy from or to an OpenCL device of another platform: %w", d.name, mem.ErrInvalidDevice)
	case fromCL && toCL && to == d && from != d && d.isDiscrete() && from.isDiscrete() && cmd.Op == devices.OpCopy: // nothing but a hop can do it
		return r.fillHop(cmd, from)
	case fromCL && toCL && (from == d || to == d):
		return r.fillPeer(cmd, from, to, srcLen, dstLen, within)
	case fromCL && from == d:
		r.cmd.Op = read
		if err := r.hostEnd(&cmd.Dst, dstLen); err != nil {
			return err
		}
		here, err := r.find(&r.cmd.Src, &r.cmd.SrcOff, d, &cmd.Src, srcLen)
		if read == ocl.Read {
			r.memory = here
		}
		return err
	case toCL && to == d:
		r.cmd.Op = write
		if err := r.hostEnd(&cmd.Src, srcLen); err != nil {
			return err
		}
		here, err := r.find(&r.cmd.Dst, &r.cmd.DstOff, d, &cmd.Dst, dstLen)
		r.pinned = d.host.pinned.holds(addressOf(r.bytes), uint64(len(r.bytes)))
		if write == ocl.Write {
			r.memory = here
		}
		return err
	case !fromCL && !toCL:
		return r.fillHost(cmd, srcLen, dstLen)
	}
	return fmt.Errorf("device %s: copy between two other devices: %w", d.name, mem.ErrInvalidDevice)
}

// fillPeer is a copy of which both ends are OpenCL devices of one platform.
func (r *record) fillPeer(cmd *devices.Command, from, to *Device, srcLen, dstLen uint64, within ocl.Op) error {
	here, err := r.find(&r.cmd.Src, &r.cmd.SrcOff, from, &cmd.Src, srcLen)
	if err != nil {
		return err
	}
	there, err := r.find(&r.cmd.Dst, &r.cmd.DstOff, to, &cmd.Dst, dstLen)
	if err != nil {
		return err
	}
	r.cmd.Op = within
	if cmd.Op == devices.OpCopyRect && (r.cmd.Src == r.cmd.Dst && r.cmd.SrcPitch != r.cmd.DstPitch || r.host.quirks.subRectsCrash && from.store.carve.Load()) {
		// OpenCL takes rectangles within one cl_mem only with equal pitches.
		r.cmd.ByRows = 1
	}
	switch {
	case from == to:
		if r.cmd.Src == r.cmd.Dst && cmd.Op == devices.OpCopy {
			s, t := r.cmd.SrcOff, r.cmd.DstOff
			if s < t+dstLen && t < s+srcLen {
				return fmt.Errorf("device %s: copy of %d bytes from %d to %d of one block: %w", from.name, srcLen, s, t, mem.ErrOverlap)
			}
		}
	case from.info.SharesHost && to.info.SharesHost || r.host.worker != nil: // one memory in fact: one copy
	default:
		return fmt.Errorf("device %s: copy from device %s: its memory is across a bus, and rings are for batches: %w", to.name, from.name, mem.ErrInvalidOperation)
	}
	if cmd.Op == devices.OpCopy && here != 0 && there != 0 {
		r.memory, r.bytes = there, storage.BytesAt(here, cmd.Size)
	}
	return nil
}

// hostEnd takes hold of the host's bytes of a transfer until it has ended: a
// block of a device in this process's memory is kept from being freed. A Go slice is
// to be pinned before C gets its address.
func (r *record) hostEnd(l *devices.Loc, n uint64) error {
	if r.programs = l.Device == nil; r.programs {
		r.bytes = l.Bytes[l.Off : l.Off+n]
		return nil
	}
	addr, err := r.keep(l.Device, l.Block, l.Off, n)
	if err == nil {
		r.bytes = storage.BytesAt(addr, n)
	}
	return err
}

// pinBytes keeps the program's bytes where they are until r has ended. Memory outside the
// Go heap is left alone; blocks are kept already.
func (r *record) pinBytes() {
	if r.programs && len(r.bytes) > 0 {
		r.pin.Pin(&r.bytes[0])
	}
}

// keep is the address of a part of a block in this process's memory, which stays
// there until the command has ended.
func (r *record) keep(of devices.Device, b mem.Block, off, n uint64) (uint64, error) {
	h, ok := of.(devices.HostBacked)
	if !ok {
		return 0, fmt.Errorf("device %s: it cannot reach the memory of device %s: %w", r.q.dev.name, of.Info().Name, mem.ErrInvalidDevice)
	}
	addr, err := h.Pin(b, off, n)
	if err == nil {
		r.unpin = append(r.unpin, pinnedBlock{h, b})
	}
	return addr, err
}

// fillHost is a copy of which no end is OpenCL's: where the device uses the
// host's memory in place it does it, else a host call.
func (r *record) fillHost(cmd *devices.Command, srcLen, dstLen uint64) error {
	if err := r.hostEnd(&cmd.Src, srcLen); err != nil {
		return err
	}
	r.pinBytes()
	src := r.bytes
	if err := r.hostEnd(&cmd.Dst, dstLen); err != nil {
		return err
	}
	r.pinBytes()
	dst, rect, isRect := r.bytes, cmd.Rect, cmd.Op == devices.OpCopyRect
	if !isRect && r.q.dev.info.SVM.InPlace {
		r.cmd.Op, r.cmd.Src, r.cmd.Dst = ocl.SVMCopy, ocl.Mem(addressOf(src)), ocl.Mem(addressOf(dst))
		return nil
	}
	late := r.late
	r.hostCall(func(context.Context) error {
		switch {
		case isRect:
			engine.CopyRect(dst, src, &rect)
		case late != nil:
			if part := devices.PartOf(late, uint64(len(dst))); !part.Empty() {
				copy(dst[part.Start:part.End], src[part.Start:part.End])
			}
		default:
			copy(dst, src)
		}
		return nil
	})
	return nil
}

// hostCall makes r a host call.
func (r *record) hostCall(f func(context.Context) error) {
	r.op, r.call, r.runner = devices.OpHostCall, f, runCall
}

// fillLaunch encodes the arguments for C.
func (r *record) fillLaunch(cmd *devices.Command) error {
	d := r.q.dev
	k, ok := cmd.Kernel.(*Kernel)
	if !ok || k.dev != d {
		return fmt.Errorf("device %s: kernel %s was not built for it: %w", d.name, cmd.Kernel.Name(), mem.ErrInvalidKernel)
	}
	if err := r.uses(k); err != nil {
		return err
	}
	c := &r.cmd
	c.Op, c.Kernel, c.Set, c.Dims, c.Args = ocl.Launch, k.cl, k.set, uint32(cmd.Dims), uint32(len(k.args))
	c.Reached = uint32(len(cmd.Args) - len(k.args))
	c.Global, c.Local, c.Off = cmd.Global, devices.LocalSize(cmd.Dims, &cmd.Global, &cmd.Local, &d.info), cmd.Offset
	if c.Local[0] != 0 {
		c.HasLocal = 1
	}
	for i := range cmd.Args {
		reads := i < len(k.args) && k.args[i].Access == mem.Read
		if err := r.fillArg(&cmd.Args[i], reads); err != nil {
			if i >= len(k.args) {
				return fmt.Errorf("kernel %s, shared virtual memory beyond the arguments: %w", k.name, err)
			}
			return fmt.Errorf("kernel %s, argument %d (%s): %w", k.name, i, k.args[i].Name, err)
		}
	}
	return nil
}

// uses keeps a kernel until r has ended.
func (r *record) uses(k *Kernel) error {
	if slices.Contains(r.kernels, k) {
		return nil
	}
	if err := k.use(); err != nil {
		return err
	}
	r.kernels = append(r.kernels, k)
	return nil
}

// fillArg encodes one argument, which the kernel only reads, or writes too.
func (r *record) fillArg(a *devices.Arg, reads bool) error {
	switch a.Kind {
	case devices.ArgValue:
		r.args = ocl.AppendValue(r.args, a.Value)
	case devices.ArgLocal:
		r.args = ocl.AppendLocal(r.args, a.Size)
	case devices.ArgSVM:
		return r.fillPointer(a)
	case devices.ArgSampler:
		s, err := r.host.sampler(a.Sampler)
		if err != nil {
			return err
		}
		r.args = ocl.AppendMem(r.args, ocl.Mem(s))
	case devices.ArgBuffer:
		if a.Device != nil && a.Device != devices.Device(r.q.dev) {
			return r.fillInPlace(a)
		}
		if a.Image != nil {
			return r.image(a, reads)
		}
		m, err := r.q.dev.argument(a)
		if err != nil {
			return err
		}
		r.args = ocl.AppendMem(r.args, m)
	}
	return nil
}
