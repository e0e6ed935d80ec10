package scenario

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"godwit/devices"
	"godwit/internal/flat"
	"godwit/mem"
)

// The reference run: the same commands, one after the other in the order of the
// file, on one flat memory. No planner, no migration and no runtime has a part in it;
// kernels run in their Go form on the cpu driver, in whose memory the bytes are.
//
// Bytes that nobody has written have no defined content, and neither has what is
// computed from them: they are not compared.

// reference is the plain run.
type reference struct {
	s      *Scenario
	memory flat.Memory // its roots are the scenario's buffers
	dev    devices.Device
	module devices.Module
	queue  devices.Queue
	blocks []mem.Block
	at     []uint64 // addresses of shared virtual memory in the run proper, which kernels see; by index into Buffers

	mapLimit map[int]uint64 // by mapping: how many bytes of its buffer counted
}

// newReference makes the memory of a plain run of s. Shared virtual memory has the
// addresses at.
func newReference(ctx context.Context, s *Scenario, at []uint64) (*reference, error) {
	ref, err := openReference(ctx, s, at)
	if err == nil {
		err = ref.fill()
	}
	if err != nil {
		if ref != nil {
			err = errors.Join(err, ref.close())
		}
		return nil, fmt.Errorf("reference run: %w", err)
	}
	return ref, nil
}

func openReference(ctx context.Context, s *Scenario, at []uint64) (*reference, error) {
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
	ref := &reference{s: s, dev: devs[0], at: at, mapLimit: make(map[int]uint64)}
	if s.launches() > 0 {
		if ref.module, err = ref.dev.Build(ctx, library()); err != nil {
			return ref, err
		}
	}
	ref.queue, err = ref.dev.NewQueue(devices.QueueOptions{Name: "reference"})
	return ref, err
}

// fill makes the buffers, with what they hold at the start.
func (ref *reference) fill() error {
	for _, b := range ref.s.Buffers {
		block := make([]mem.Block, 1)
		outcome, err := ref.dev.Memory().AllocAll([]mem.Request{{Size: b.Size, Align: 128}}, block, nil)
		if err == nil && outcome != mem.Ready {
			err = fmt.Errorf("%d bytes: %v: %w", b.Size, outcome, mem.ErrNoHostMemory)
		}
		if err != nil {
			return err
		}
		ref.blocks = append(ref.blocks, block[0])
		view, err := ref.dev.(devices.Viewer).View(block[0], 0, b.Size)
		if err != nil {
			return err
		}
		clear(view)
		if b.Data != nil {
			b.Data.put(view, ref.at)
		}
		ref.memory.Add(view, b.Data != nil)
	}
	for i, b := range ref.s.Buffers {
		ref.memory.CountBy(i, b.SizeBuffer-1)
	}
	return nil
}

func (ref *reference) close() error {
	var errs []error
	if ref.queue != nil {
		errs = append(errs, ref.queue.Close())
	}
	for _, b := range ref.blocks {
		errs = append(errs, ref.dev.Memory().FreeAfter(b, nil))
	}
	if ref.module != nil {
		errs = append(errs, ref.module.Close())
	}
	return errors.Join(append(errs, ref.dev.Close())...)
}

// step runs command i, or where that has failed loses what it was to write.
func (ref *reference) step(ctx context.Context, s *Scenario, i int, failed bool) error {
	c := &s.Commands[i]
	if failed {
		c.lost(s, ref.memory.Undefine)
		return nil
	}
	if err := c.kind().refer(ctx, ref, c); err != nil {
		return fmt.Errorf("reference run: %s:%d: #%d %s: %w", s.File, c.Line, i+1, s.text(c), err)
	}
	return nil
}

// rows are what a command copies, given where a destination and a source begin: of a
// rectangular write the source is the host's memory.
func (c *command) rows(dst, src uint64) iter.Seq[flat.Row] {
	if c.Rect == nil {
		return flat.Whole(dst, src, c.Place.Range.Size())
	}
	return func(yield func(flat.Row) bool) {
		more := true
		c.Rect.rows(func(at, other uint64) {
			if c.Kind == opCopy { // the place is the source
				at, other = other, at
			}
			more = more && yield(flat.Row{Dst: dst + at, Src: src + other, Size: c.Rect.Region[0]})
		})
	}
}

func (ref *reference) write(c *command) {
	if c.Rect == nil {
		dst := ref.memory.Set(c.Place.Buffer, c.Place.Range)
		clear(dst)
		c.Data.put(dst, ref.at)
		return
	}
	ref.memory.Write(c.Place.Buffer, c.rows(c.Place.Range.Start, 0), c.Data.Bytes(c.Rect.HostSize, ref.at))
}

// lost calls undefine with what a command that failed was to write.
func (c *command) lost(s *Scenario, undefine func(buffer int, r mem.Range)) {
	for _, u := range s.uses(c) {
		switch {
		case !u.mode.Writes():
		case u.rect == nil:
			undefine(u.buffer, u.r)
		default:
			for w := range c.rows(u.r.Start, 0) {
				undefine(u.buffer, mem.Range{Start: w.Dst, End: w.Dst + w.Size})
			}
		}
	}
}

// limit is how many bytes of a buffer a command that reads may rely on.
func (ref *reference) limit(c *command) uint64 {
	if c.Kind == opHostRead && c.Mapping >= 0 {
		return ref.mapLimit[c.Mapping]
	}
	return ref.memory.Limit(c.Place.Buffer)
}

// pointer is a pointer into a block of shared virtual memory, which kernels see
// at the address that it has in the run proper.
func (ref *reference) pointer(buffer int, at uint64) devices.Arg {
	return devices.Arg{Kind: devices.ArgSVM, Block: ref.blocks[buffer], Off: at, Size: ref.s.Buffers[buffer].Size - at, Pointer: ref.at[buffer] + at}
}
