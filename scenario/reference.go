package scenario

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/mem"
	"godwit/runtime"
)

// The reference run: the same commands, one after the other in the order of the
// file, on one device whose memory holds every buffer once. No planner, no
// migration and no runtime has a part in it; kernels run in their Go form on
// the cpu driver, everything else is a copy within Go slices.
//
// Bytes that nobody has written have no defined content, and neither has what
// is computed from them. They are found by running twice, with two different
// fillings: what differs is not defined, and is not compared.

// fillings are what memory holds before anything is written.
var fillings = [2]byte{0x00, 0xa5}

// flat is one memory with all buffers in it.
type flat struct {
	s       *Scenario
	dev     devices.Device
	module  devices.Module
	queue   devices.Queue
	blocks  []mem.Block
	buffers [][]byte // the blocks' bytes
	filling []byte   // what has no content holds
	at      []uint64 // addresses of shared virtual memory that kernels see

	said     map[int]bool   // size buffers that were written
	mapLimit map[int]uint64 // by mapping: how many bytes of its buffer counted
}

// reference is the plain run, one or two of them in step.
type reference struct {
	flats []*flat
	at    []uint64 // addresses of shared virtual memory in the run proper, by index into Buffers
}

// newReference makes the memories of a plain run of s. Shared virtual memory has
// the addresses at.
func newReference(ctx context.Context, s *Scenario, at []uint64) (ref *reference, err error) {
	ref = &reference{at: at}
	runs := len(fillings)
	if s.defined() {
		runs = 1
	}
	for i := range runs {
		f, err := newFlat(ctx, s, fillings[i], at)
		if f != nil {
			ref.flats = append(ref.flats, f)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reference run: %w", err), ref.close())
		}
	}
	return ref, nil
}

// step runs command i, or where that has failed loses what it was to write.
func (ref *reference) step(ctx context.Context, s *Scenario, i int, failed bool) error {
	c := &s.Commands[i]
	if failed {
		for _, f := range ref.flats {
			f.lose(c)
		}
		return nil
	}
	for _, f := range ref.flats {
		if err := f.run(ctx, c); err != nil {
			return fmt.Errorf("reference run: %s:%d: #%d %s: %w", s.File, c.Line, i+1, s.text(c), err)
		}
	}
	return nil
}

func (ref *reference) close() error {
	var errs []error
	for _, f := range ref.flats {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// bytes are what a reader sees of a range of a root in both runs; the second is
// nil where there is one.
func (ref *reference) bytes(buffer int, r mem.Range) (a, b []byte) {
	limit := func(f *flat) uint64 { return f.limit(buffer) }
	return ref.seen(buffer, r, limit)
}

// read is bytes for a command that reads.
func (ref *reference) read(c *Command) (a, b []byte) {
	if c.Kind == HostRead && c.Mapping >= 0 {
		return ref.seen(c.Place.Buffer, c.Place.Range, func(f *flat) uint64 { return f.mapLimit[c.Mapping] })
	}
	return ref.bytes(c.Place.Buffer, c.Place.Range)
}

func (ref *reference) seen(buffer int, r mem.Range, limit func(*flat) uint64) (a, b []byte) {
	a = ref.flats[0].seen(buffer, r, limit(ref.flats[0]))
	if len(ref.flats) > 1 {
		b = ref.flats[1].seen(buffer, r, limit(ref.flats[1]))
	}
	return a, b
}

// defined reports whether all bytes have content from the start, and no command
// takes it from them.
func (s *Scenario) defined() bool {
	for i := range s.Buffers {
		if s.Buffers[i].Data == nil {
			return false
		}
	}
	if s.counts() {
		return false
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		if c.Undefined || c.Status < 0 || (c.Kind == Map && s.Mappings[c.Mapping].Flags&runtime.MapInvalidate != 0) {
			return false
		}
	}
	return true
}

func newFlat(ctx context.Context, s *Scenario, filling byte, at []uint64) (*flat, error) {
	var total uint64
	for _, b := range s.Buffers {
		total += b.Size + 4096 // room for alignment
	}
	var local uint64
	for i := range s.Commands {
		var l uint64
		for _, a := range s.Commands[i].Args {
			l += a.Local + 64
		}
		local = max(local, l)
	}
	devs, err := devices.Open(ctx, "cpu", devices.Config{Name: "reference", Memory: total, Local: max(local, 64<<10)})
	if err != nil {
		return nil, err
	}
	f := &flat{s: s, dev: devs[0], filling: []byte{filling}, at: at, said: make(map[int]bool), mapLimit: make(map[int]uint64)}
	if s.launches() > 0 {
		if f.module, err = f.dev.Build(ctx, library()); err != nil {
			return f, err
		}
	}
	if f.queue, err = f.dev.NewQueue(devices.QueueOptions{Name: "reference"}); err != nil {
		return f, err
	}
	for i, b := range s.Buffers {
		f.said[i] = b.Data != nil
		block := make([]mem.Block, 1)
		outcome, err := f.dev.Memory().AllocAll([]mem.Request{{Size: b.Size, Align: 128}}, block, nil)
		if err == nil && outcome != mem.Ready {
			err = fmt.Errorf("%d bytes: %v: %w", b.Size, outcome, mem.ErrNoHostMemory)
		}
		if err != nil {
			return f, err
		}
		f.blocks = append(f.blocks, block[0])
		view, err := f.dev.(devices.Viewer).View(block[0], 0, b.Size)
		if err != nil {
			return f, err
		}
		if b.Data != nil {
			clear(view)
			b.Data.put(view, at)
		} else {
			repeat(view, f.filling)
		}
		f.buffers = append(f.buffers, view)
	}
	return f, nil
}

func (f *flat) close() error {
	var errs []error
	if f.queue != nil {
		errs = append(errs, f.queue.Close())
	}
	for _, b := range f.blocks {
		errs = append(errs, f.dev.Memory().FreeAfter(b, nil))
	}
	if f.module != nil {
		errs = append(errs, f.module.Close())
	}
	return errors.Join(append(errs, f.dev.Close())...)
}

// bytesOf returns the bytes of a place.
func (f *flat) bytesOf(p Place) []byte { return f.buffers[p.Buffer][p.Range.Start:p.Range.End] }

// run executes one command to its end.
func (f *flat) run(ctx context.Context, c *Command) error {
	defer f.wrote(c)
	switch c.Kind {
	case Write, HostWrite:
		f.write(c)
	case Copy:
		dst, src := f.bytesOf(c.To), f.seen(c.Place.Buffer, c.Place.Range, f.limit(c.Place.Buffer))
		if c.Rect == nil {
			copy(dst, src)
			break
		}
		n := c.Rect.Region[0]
		c.Rect.rows(func(at, other uint64) { copy(dst[other:other+n], src[at:]) })
	case Fill:
		repeat(f.bytesOf(c.Place), c.Pattern)
	case Map:
		if f.s.Mappings[c.Mapping].Flags&runtime.MapInvalidate != 0 {
			repeat(f.bytesOf(c.Place), f.filling)
		}
		f.mapped(c)
	case Migrate:
		for _, p := range c.Places {
			if c.Undefined {
				repeat(f.bytesOf(p), f.filling)
			}
		}
	case Launch:
		return f.launch(ctx, c)
	}
	return nil // reads are compared by the caller; the rest has no effect on bytes
}

// lose takes the content from what a command writes.
func (f *flat) lose(c *Command) {
	for _, u := range f.s.uses(c) {
		b := f.buffers[u.buffer][u.r.Start:u.r.End]
		switch {
		case !u.writes:
		case u.rect == nil:
			repeat(b, f.filling)
		default:
			u.rect.rows(func(at, other uint64) {
				if u.second {
					at = other - u.rect.HostOffset
				}
				repeat(b[at:at+u.rect.Region[0]], f.filling)
			})
		}
	}
}

func (f *flat) write(c *Command) {
	dst := f.bytesOf(c.Place)
	if c.Rect == nil {
		clear(dst)
		c.Data.put(dst, f.at)
		return
	}
	src, n := c.Data.Bytes(c.Rect.HostSize, f.at), c.Rect.Region[0]
	c.Rect.rows(func(at, other uint64) { copy(dst[at:at+n], src[other:]) })
}

func (f *flat) launch(ctx context.Context, c *Command) error {
	k, err := f.module.Kernel(c.Kernel)
	if err != nil {
		return err
	}
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: c.Dims, Global: c.Global, Local: c.Local, Offset: c.Offset}
	var more []devices.Arg // what is reached by pointers in memory
	for i := range c.Args {
		a := &c.Args[i]
		switch {
		case a.Buffer && f.s.isSVM(a.Place):
			cmd.Args = append(cmd.Args, f.pointer(a.Place.Buffer, a.At))
			more = append(more, f.pointer(a.Place.Buffer, 0))
		case a.Buffer:
			r := a.Place.Range
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: f.blocks[a.Place.Buffer], Off: r.Start, Size: r.Size()})
		case a.Local > 0:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgLocal, Size: a.Local})
		default:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: a.Value})
		}
	}
	for i := range c.Indirect {
		more = append(more, f.pointer(c.Indirect[i].Place.Buffer, 0))
	}
	cmd.Args = append(cmd.Args, more...)
	if f.s.counts() {
		defer f.hide(c)()
	}
	p, err := f.queue.Submit(&cmd, nil)
	if err != nil {
		return err
	}
	return f.queue.Wait(ctx, p, devices.Park)
}

// pointer is a pointer into a block of shared virtual memory, which kernels see
// at the address that it has in the run proper.
func (f *flat) pointer(buffer int, at uint64) devices.Arg {
	return devices.Arg{Kind: devices.ArgSVM, Block: f.blocks[buffer], Off: at, Size: f.s.Buffers[buffer].Size - at, Pointer: f.at[buffer] + at}
}
