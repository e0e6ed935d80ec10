package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	"godwit/mem"
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

// reference is what a plain run yields.
type reference struct {
	reads map[int]known // by command
	final []known       // by buffer
}

// known is content, and where it is not defined.
type known struct {
	data      []byte
	undefined []mem.Range // ascending, disjoint
}

// flat is one memory with all buffers in it.
type flat struct {
	s       *Scenario
	dev     devices.Device
	module  devices.Module
	queue   devices.Queue
	blocks  []mem.Block
	buffers [][]byte // the blocks' bytes
}

// runReference runs the first n commands of s.
func runReference(ctx context.Context, s *Scenario, n int, progress func(string, int, int)) (ref *reference, err error) {
	runs := len(fillings)
	if s.defined() {
		runs = 1
	}
	var flats []*flat
	defer func() {
		for _, f := range flats {
			err = errors.Join(err, f.close())
		}
	}()
	for i := range runs {
		f, err := newFlat(ctx, s, fillings[i])
		if f != nil {
			flats = append(flats, f)
		}
		if err != nil {
			return nil, fmt.Errorf("reference run: %w", err)
		}
	}
	ref = &reference{reads: make(map[int]known)}
	for i := range n {
		c := &s.Commands[i]
		for _, f := range flats {
			if err := f.run(ctx, c); err != nil {
				return nil, fmt.Errorf("reference run: %s:%d: #%d %s: %w", s.File, c.Line, i+1, s.text(c), err)
			}
		}
		if c.Kind == Read {
			k := compareFlats(flats, c.Place.Buffer, c.Place.Range)
			k.data = bytes.Clone(k.data)
			ref.reads[i] = k
		}
		progress("reference", i+1, n)
	}
	for i, b := range s.Buffers {
		k := compareFlats(flats, i, mem.Range{End: b.Size})
		k.data = bytes.Clone(k.data)
		ref.final = append(ref.final, k)
	}
	return ref, nil
}

// defined reports whether all buffers have content from the start.
func (s *Scenario) defined() bool {
	for _, b := range s.Buffers {
		if b.Data == nil {
			return false
		}
	}
	return true
}

// compareFlats returns a range of a buffer, and where the runs differ in it.
func compareFlats(flats []*flat, buffer int, r mem.Range) known {
	k := known{data: flats[0].buffers[buffer][r.Start:r.End]}
	if len(flats) == 1 {
		return k
	}
	k.undefined = differences(k.data, flats[1].buffers[buffer][r.Start:r.End], nil)
	return k
}

// differences returns the ranges in which a and b differ, but for those to be
// skipped (ascending, disjoint). a and b are as long as each other.
func differences(a, b []byte, skip []mem.Range) []mem.Range {
	var out []mem.Range
	at := 0
	compare := func(end int) {
		if bytes.Equal(a[at:end], b[at:end]) {
			return
		}
		for i := at; i < end; i++ {
			if a[i] == b[i] {
				continue
			}
			if n := len(out); n > 0 && out[n-1].End == uint64(i) {
				out[n-1].End++
			} else {
				out = append(out, mem.Range{Start: uint64(i), End: uint64(i) + 1})
			}
		}
	}
	for _, r := range skip {
		compare(int(r.Start))
		at = int(r.End)
	}
	compare(len(a))
	return out
}

func newFlat(ctx context.Context, s *Scenario, filling byte) (*flat, error) {
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
	f := &flat{s: s, dev: devs[0]}
	if s.launches() > 0 {
		if f.module, err = f.dev.Build(ctx, library()); err != nil {
			return f, err
		}
	}
	if f.queue, err = f.dev.NewQueue(devices.QueueOptions{Name: "reference"}); err != nil {
		return f, err
	}
	for _, b := range s.Buffers {
		block := make([]mem.Block, 1)
		outcome, err := f.dev.Memory().AllocAll([]mem.Request{{Size: b.Size, Align: 128}}, block)
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
		for i := range view {
			view[i] = filling
		}
		if b.Data != nil {
			copy(view, b.Data.Bytes(b.Size))
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

// at returns the bytes of a place.
func (f *flat) at(p Place) []byte { return f.buffers[p.Buffer][p.Range.Start:p.Range.End] }

// run executes one command to its end.
func (f *flat) run(ctx context.Context, c *Command) error {
	switch c.Kind {
	case Write:
		copy(f.at(c.Place), c.Data.Bytes(c.Place.Range.Size()))
	case Copy:
		if c.Rows == 0 {
			copy(f.at(c.To), f.at(c.Place))
		}
		for i := range c.Rows {
			copy(f.at(c.To)[i*c.ToPitch:], f.at(c.Place)[i*c.Pitch:i*c.Pitch+c.Width])
		}
	case Fill:
		dst := f.at(c.Place)
		for i := 0; i < len(dst); i += len(c.Pattern) {
			copy(dst[i:], c.Pattern)
		}
	case Launch:
		return f.launch(ctx, c)
	}
	return nil // reads are compared by the caller; the rest has no effect on bytes
}

func (f *flat) launch(ctx context.Context, c *Command) error {
	k, err := f.module.Kernel(c.Kernel)
	if err != nil {
		return err
	}
	cmd := devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: c.Dims, Global: c.Global, Local: c.Local, Offset: c.Offset}
	for i := range c.Args {
		a := &c.Args[i]
		switch {
		case a.Buffer:
			r := a.Place.Range
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgBuffer, Block: f.blocks[a.Place.Buffer], Off: r.Start, Size: r.Size()})
		case a.Local > 0:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgLocal, Size: a.Local})
		default:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: a.Value})
		}
	}
	p, err := f.queue.Submit(&cmd, nil)
	if err != nil {
		return err
	}
	return f.queue.Wait(ctx, p)
}
