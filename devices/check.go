package devices

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"godwit/mem"
)

// CheckCommand tests what can be told of a command without its device's
// memory: the shape of copies and fills, and that a launch gives a kernel the
// arguments it takes, within the device's limits. Drivers call it when a
// command is submitted; it tests nothing of one that is Checked. Errors name the value and the rule.
func CheckCommand(cmd *Command, info *Info) error {
	if cmd.Checked {
		return nil
	}
	for i, then := 0, cmd.Then(); i < len(then); i++ {
		if err := CheckCommand(&then[i], info); err != nil {
			return cmd.Of(i+1, err)
		}
	}
	if cmd.Late != nil && cmd.Op != OpCopy {
		return fmt.Errorf("%v with a late extent: only copies have one: %w", cmd.Op, mem.ErrInvalidValue)
	}
	switch cmd.Op {
	case OpMarker:
		return nil
	case OpCopy:
		if cmd.Size == 0 {
			return fmt.Errorf("copy of 0 bytes: a copy moves at least one: %w", mem.ErrInvalidValue)
		}
		if err := checkLoc("source", &cmd.Src, cmd.Size); err != nil {
			return err
		}
		if err := checkLoc("destination", &cmd.Dst, cmd.Size); err != nil {
			return err
		}
		return checkOverlap(cmd)
	case OpCopyRect:
		return checkRect(cmd)
	case OpFill:
		n := uint64(len(cmd.Pattern))
		if !mem.IsPow2(n) || n > 128 {
			return fmt.Errorf("fill pattern of %d bytes: it must be 1 to 128, a power of two: %w", n, mem.ErrInvalidValue)
		}
		if cmd.Size == 0 || cmd.Size%n != 0 {
			return fmt.Errorf("fill of %d bytes: it must be a multiple of the pattern's %d, not zero: %w", cmd.Size, n, mem.ErrInvalidValue)
		}
		return checkLoc("destination", &cmd.Dst, cmd.Size)
	case OpLaunch:
		return checkLaunch(cmd, info)
	case OpHostCall:
		if cmd.Call == nil {
			return fmt.Errorf("host call without a function: %w", mem.ErrInvalidValue)
		}
		return nil
	}
	return fmt.Errorf("operation %d: not one of the devices.Op constants: %w", cmd.Op, mem.ErrInvalidValue)
}

// checkLoc tests that size bytes at l lie inside its block or bytes.
func checkLoc(what string, l *Loc, size uint64) error {
	total := l.Block.Size
	switch {
	case l.Device == nil:
		total = uint64(len(l.Bytes))
	case l.Block.IsZero():
		return fmt.Errorf("%s: no block: %w", what, mem.ErrInvalidBuffer)
	}
	if _, err := mem.SpanIn(l.Off, size, total); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// checkOverlap tests that a copy inside one block does not run into itself.
func checkOverlap(cmd *Command) error {
	d, s := &cmd.Dst, &cmd.Src
	if d.Device == nil || d.Device != s.Device || d.Block.Ref != s.Block.Ref {
		return nil
	}
	to := mem.Range{Start: d.Block.Addr + d.Off, End: d.Block.Addr + d.Off + cmd.Size}
	from := mem.Range{Start: s.Block.Addr + s.Off, End: s.Block.Addr + s.Off + cmd.Size}
	if to.Overlaps(from) {
		return fmt.Errorf("copy of %d bytes from %v to %v of one block: %w", cmd.Size, from, to, mem.ErrOverlap)
	}
	return nil
}

// RectSpan is how far the rectangle reaches from its first byte, in bytes. ok
// is false where that does not fit 64 bits.
func RectSpan(region [3]uint64, row, slice uint64) (span uint64, ok bool) {
	span, ok = mulAdd(region[2]-1, slice, region[0])
	if !ok {
		return 0, false
	}
	return mulAdd(region[1]-1, row, span)
}

// mulAdd is a*b + c.
func mulAdd(a, b, c uint64) (uint64, bool) {
	if a != 0 && b > (math.MaxUint64-c)/a {
		return 0, false
	}
	return a*b + c, true
}

func checkRect(cmd *Command) error {
	r := &cmd.Rect
	if r.Region[0] == 0 || r.Region[1] == 0 || r.Region[2] == 0 {
		return fmt.Errorf("rectangle of %v: no side may be 0: %w", r.Region, mem.ErrInvalidValue)
	}
	for _, end := range []struct {
		what       string
		loc        *Loc
		row, slice uint64
	}{{"source", &cmd.Src, r.SrcRow, r.SrcSlice}, {"destination", &cmd.Dst, r.DstRow, r.DstSlice}} {
		if r.Region[1] > 1 && end.row < r.Region[0] {
			return fmt.Errorf("%s row pitch %d: rows have %d bytes: %w", end.what, end.row, r.Region[0], mem.ErrInvalidValue)
		}
		// OpenCL's rule for slices, which drivers of real devices insist on.
		rows, ok := mulAdd(r.Region[1], end.row, 0)
		if r.Region[2] > 1 && (!ok || end.row == 0 || end.slice < rows || end.slice%end.row != 0) {
			return fmt.Errorf("%s slice pitch %d: it must be a multiple of the row pitch %d, at least the %d bytes of a slice: %w",
				end.what, end.slice, end.row, rows, mem.ErrInvalidValue)
		}
		span, ok := RectSpan(r.Region, end.row, end.slice)
		if !ok {
			return fmt.Errorf("%s rectangle %v overflows 64 bits: %w", end.what, r.Region, mem.ErrInvalidValue)
		}
		if err := checkLoc(end.what, end.loc, span); err != nil {
			return err
		}
	}
	return nil
}

func checkLaunch(cmd *Command, info *Info) error {
	if cmd.Kernel == nil {
		return fmt.Errorf("launch without a kernel: %w", mem.ErrInvalidKernel)
	}
	name, args, want := cmd.Kernel.Name(), cmd.Args, cmd.Kernel.Args()
	if err := CheckSpace(cmd.Dims, &cmd.Offset, &cmd.Global, &cmd.Local, info); err != nil {
		return fmt.Errorf("kernel %s: %w", name, err)
	}
	for len(args) > len(want) && args[len(args)-1].Kind == ArgSVM {
		if err := checkArgSVM(&args[len(args)-1], info); err != nil {
			return fmt.Errorf("kernel %s: shared virtual memory beyond the arguments: %w", name, err)
		}
		args = args[:len(args)-1]
	}
	if len(args) != len(want) {
		return fmt.Errorf("kernel %s: %d arguments given, it takes %d: %w", name, len(args), len(want), mem.ErrKernelArgs)
	}
	local := uint64(0)
	for i := range args {
		if err := checkArg(&args[i], &want[i], info, &local); err != nil {
			return fmt.Errorf("kernel %s, argument %d (%s): %w", name, i, want[i].Name, err)
		}
	}
	return nil
}

// CheckSpace tests the index space of a launch against OpenCL's rules and a device's limits.
// Of offset, global and local the first dims elements count; a local of zeros is the driver's
// choice. It fails with mem.ErrWorkDimension, mem.ErrGlobalSize, mem.ErrGlobalOffset,
// mem.ErrWorkGroupSize or mem.ErrWorkItemSize.
func CheckSpace(dims int, offset, global, local *[3]uint64, info *Info) error {
	if dims < 1 || dims > 3 {
		return fmt.Errorf("%d dimensions: there are 1 to 3: %w", dims, mem.ErrWorkDimension)
	}
	size, items := uint64(1), uint64(1)
	for d := range dims {
		g, l := global[d], local[d]
		if g == 0 {
			return fmt.Errorf("global size 0 in dimension %d: it must be at least 1: %w", d, mem.ErrGlobalSize)
		}
		if offset[d] > math.MaxInt64-min(g, math.MaxInt64) {
			return fmt.Errorf("offset %d + global size %d in dimension %d overflows 63 bits: %w", offset[d], g, d, mem.ErrGlobalOffset)
		}
		var over uint64
		if over, items = bits.Mul64(items, g); over != 0 || items > math.MaxInt64 {
			return fmt.Errorf("%v work-items do not fit 63 bits: %w", slices.Clone(global[:dims]), mem.ErrGlobalSize)
		}
		if (l == 0) != (local[0] == 0) {
			return fmt.Errorf("work-group size %v: give all dimensions or none: %w", slices.Clone(local[:dims]), mem.ErrWorkGroupSize)
		}
		if l == 0 {
			continue
		}
		if g%l != 0 {
			return fmt.Errorf("work-group size %d in dimension %d: it must divide the global size %d: %w", l, d, g, mem.ErrWorkGroupSize)
		}
		if most := info.MaxWorkItems[d]; most != 0 && l > most {
			return fmt.Errorf("work-group size %d in dimension %d: the device takes %d: %w", l, d, most, mem.ErrWorkItemSize)
		}
		size *= l // at most items
	}
	if most := info.MaxWorkGroup; most != 0 && size > most {
		return fmt.Errorf("work-groups of %d work-items: the device takes %d: %w", size, most, mem.ErrWorkGroupSize)
	}
	if info.MaxGroups == 0 {
		return nil
	}
	groups, l := uint64(1), LocalSize(dims, global, local, info)
	for d := range dims {
		groups *= global[d] / max(l[d], 1)
	}
	if l[0] != 0 && groups > info.MaxGroups {
		return fmt.Errorf("%d work-groups: the device takes %d: %w", groups, info.MaxGroups, mem.ErrGlobalSize)
	}
	return nil
}

// LocalSize is the work-group size that a launch is enqueued with: local, if it has one. Otherwise
// it is zeros, the driver's choice, unless small work-groups would be more than info.MaxGroups: then
// it has the largest divisor of each dimension's global size in turn that the work-group has room for.
func LocalSize(dims int, global, local *[3]uint64, info *Info) [3]uint64 {
	items := uint64(1)
	for d := range dims {
		items *= global[d]
	}
	if local[0] != 0 || info.MaxGroups == 0 || items <= info.MaxGroups {
		return *local
	}
	chosen, room := [3]uint64{}, cmp.Or(info.MaxWorkGroup, items)
	for d := range dims {
		n := min(global[d], room, cmp.Or(info.MaxWorkItems[d], room))
		for global[d]%n != 0 {
			n--
		}
		chosen[d], room = n, room/n
	}
	return chosen
}

// checkArg tests an argument against what the kernel wants of it, and adds the local memory
// that it takes.
func checkArg(a *Arg, w *ArgInfo, info *Info, local *uint64) error {
	if a.Kind != w.Kind && w.Kind != ArgUnknown && (a.Kind != ArgSVM || w.Kind != ArgBuffer || w.Image) {
		return fmt.Errorf("%v given, it is a %v: %w", a.Kind, w.Kind, mem.ErrArgValue)
	}
	if a.Kind == ArgBuffer && w.Kind == ArgBuffer && (a.Image != nil) != w.Image {
		return NoImage(w)
	}
	switch a.Kind {
	case ArgValue:
		if w.Size != 0 && uint64(len(a.Value)) != w.Size || len(a.Value) == 0 {
			return fmt.Errorf("%d bytes given, it has %d: %w", len(a.Value), w.Size, mem.ErrArgSize)
		}
	case ArgBuffer:
		return checkArgBlock(a)
	case ArgSVM:
		return checkArgSVM(a, info)
	case ArgLocal:
		if a.Size == 0 {
			return fmt.Errorf("0 bytes of local memory: %w", mem.ErrArgSize)
		}
		if *local += a.Size; *local < a.Size || *local > info.LocalMemory {
			return fmt.Errorf("%d bytes of local memory with it: this device has %d: %w", *local, info.LocalMemory, mem.ErrNoResources)
		}
	}
	return nil
}

// NoImage is the error of an argument that has the shape of an image where the kernel wants none, or the other way round.
func NoImage(w *ArgInfo) error {
	want := "a buffer"
	if w.Image {
		want = "an image"
	}
	return fmt.Errorf("it is to be %s: %w", want, mem.ErrArgValue)
}

// checkArgSVM tests a pointer, which an argument is or some structure holds.
func checkArgSVM(a *Arg, info *Info) error {
	if !info.SVM.Coarse {
		return NoSVM(info)
	}
	return checkArgBlock(a)
}

// checkArgBlock tests the block of a buffer or pointer, which may be null.
func checkArgBlock(a *Arg) error {
	if a.Block.IsZero() {
		return nil
	}
	if _, ok := a.Device.(HostBacked); a.Device != nil && !ok {
		return fmt.Errorf("a block of device %s, whose memory is not of this process: %w", a.Device.Info().Name, mem.ErrInvalidOperation)
	}
	_, err := mem.SpanIn(a.Off, a.Size, a.Block.Size)
	return err
}

// NoSVM is the error of pointers for a device that has no shared virtual memory,
// or cannot use its own. It is a mem.ErrInvalidOperation.
func NoSVM(info *Info) error {
	return fmt.Errorf("device %s has no shared virtual memory (%s): %w", info.Name, cmp.Or(info.SVM.Why, "none"), mem.ErrInvalidOperation)
}
