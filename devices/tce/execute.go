package tce

import (
	"fmt"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/work"
	"godwit/mem"
)

// Execute implements engine.Executor.
func (d *Device) Execute(cmd *devices.Command) error {
	if cmd.Op == devices.OpCopy && d.dma.word > 1 {
		return d.copyWords(cmd)
	}
	if moved, err := d.copier.Move(cmd); moved {
		return err
	}
	return d.launch(cmd)
}

// launch takes local memory, binds the arguments to addresses and runs the
// kernel. Buffers are not kept in place: a kernel that reaches for one freed
// meanwhile is what the checks are for.
func (d *Device) launch(cmd *devices.Command) (err error) {
	var array [16]work.Arg
	var reqArray [16]mem.Request
	var blockArray [16]mem.Block
	args, reqs := array[:0], reqArray[:0]
	for i := range cmd.Args {
		if a := &cmd.Args[i]; a.Kind == devices.ArgLocal {
			reqs = append(reqs, mem.Request{Size: a.Size, Tag: uint64(i)})
		}
	}
	locals := blockArray[:0]
	for range reqs {
		locals = append(locals, mem.Block{})
	}
	if err := d.takeLocal(cmd, reqs, locals); err != nil {
		return err
	}
	defer func() {
		for _, b := range locals {
			if free := d.locals.FreeAfter(b, nil); err == nil {
				err = free
			}
		}
	}()
	space := d.spaces.Get().(*space)
	defer func() {
		space.blocks = space.blocks[:0]
		d.spaces.Put(space)
	}()
	next := 0
	for i := range cmd.Args {
		a := &cmd.Args[i]
		b := work.Arg{Kind: work.BufferArg, Size: a.Size}
		switch {
		case a.Kind == devices.ArgValue:
			b.Kind, b.Bytes, b.Size = work.ValueArg, a.Value, uint64(len(a.Value))
		case a.Kind == devices.ArgLocal:
			b.Kind, b.Addr = work.LocalArg, locals[next].Addr
			next++
		case a.Block.IsZero():
			b.Null, b.Size = true, 0
		default:
			if b.Addr, err = d.globals.Address(a.Block, a.Off, a.Size); err != nil {
				return fmt.Errorf("kernel %s, argument %d: %w", cmd.Kernel.Name(), i, err)
			}
		}
		if a.Kind != devices.ArgValue && !b.Null {
			if !a.Block.IsZero() {
				space.blocks = append(space.blocks, a.Block)
			}
			c, _ := space.Find(b.Addr)
			b.ID = c.ID
		}
		b.Promise = a.Promise
		if a.Kind == devices.ArgSVM && !b.Null {
			b.SVM, b.Own, b.Addr = true, b.Addr, a.Pointer
		}
		args = append(args, b)
	}
	return d.Launch(cmd, args, engine.KernelRun{Space: space, Serial: true})
}

// space is the device's memory as one launch finds it: the blocks of its arguments are
// where they were as long as commands may use them, also where their bytes have been
// given again to others, who come later (storage.Blocks).
type space struct {
	*Device
	blocks []mem.Block
}

// Find implements work.Space.
func (s *space) Find(addr uint64) (work.Chunk, bool) {
	for _, b := range s.blocks {
		if r, err := s.globals.Extent(b); err == nil && addr-r.Start < r.Size() {
			return s.global.Chunk(r, b.Ref), true // no chunk has such an ID
		}
	}
	return s.Device.Find(addr)
}

// takeLocal fills locals with blocks of local memory, all or none.
func (d *Device) takeLocal(cmd *devices.Command, reqs []mem.Request, locals []mem.Block) error {
	if len(reqs) == 0 {
		return nil
	}
	out, err := d.locals.AllocAll(reqs, locals, nil)
	if err != nil {
		return err
	}
	if out == mem.Ready {
		return nil
	}
	want := uint64(0)
	for _, r := range reqs {
		want += r.Size
	}
	return fmt.Errorf("kernel %s: %d bytes of local memory in %d arguments: the device has %d, with these alignments it does not fit: %w",
		cmd.Kernel.Name(), want, len(reqs), d.Info().LocalMemory, mem.ErrNoResources)
}
