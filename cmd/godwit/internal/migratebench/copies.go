//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/mover"
	"godwit/mem"
)

// copies are bare copies between the devices, without the runtime: a mover of their own
// and a block on each device. Memory i+1 is that of device i.
type copies struct {
	devs   []devices.Device
	host   *engine.Host
	m      *mover.Mover
	topo   *mem.Topology
	blocks []mem.Block // by device; the zero block where there is none
	size   uint64      // bytes of each
	way    mem.Way     // Same: the link chooses
}

// class is that of a device's block.
func (c *copies) class(i int) mem.Class {
	if w, ok := c.devs[i].(devices.Windowed); ok && w.InWindow(c.blocks[i]) {
		return mem.Window
	}
	return mem.Plain
}

// chosen is the way of a copy of n bytes.
func (c *copies) chosen(from, to int, n uint64) mem.Way {
	l := c.topo.Link(mem.MemoryID(from+1), mem.MemoryID(to+1))
	way, _ := l.Choose(n, mem.ClassOf(c.class(from), c.class(to)))
	return way
}

// newCopies opens a mover over all devices, with blocks on some.
func (b *bench) newCopies(ctx context.Context, size uint64, on ...int) (c *copies, err error) {
	c = &copies{devs: b.devs, host: engine.NewHost(engine.HostOptions{}), blocks: make([]mem.Block, len(b.devs)), size: size}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	o, all, names := mover.Options{Name: "bench"}, []devices.Device{c.host}, []string{}
	for i, d := range b.devs {
		all, names = append(all, d), append(names, fmt.Sprint("device ", i))
	}
	for i, d := range all {
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: append([]string{"host"}, names...)[i]})
	}
	if c.m, err = mover.Open(o); err != nil {
		return c, err
	}
	c.topo = mem.NewTopology(names...)
	if err = mover.Links(c.topo, all, false); err == nil {
		err = c.m.Measure(ctx, c.topo, &b.figures)
	}
	if err == nil && b.linked {
		if err = c.m.OpenLinks(ctx); err == nil {
			c.m.Adopt(c.topo, func(_, _ mem.MemoryID) bool { return false })
		}
	}
	for _, i := range on {
		if err == nil {
			c.blocks[i], err = block(b.devs[i], size)
		}
	}
	return c, err
}

func (c *copies) close() error {
	var errs []error
	for i, blk := range c.blocks {
		if !blk.IsZero() {
			errs = append(errs, c.devs[i].Memory().FreeAfter(blk, nil))
		}
	}
	if c.m != nil {
		errs = append(errs, c.m.Close())
	}
	return errors.Join(append(errs, c.host.Close())...)
}

// part moves a part of a device's block to others.
func (c *copies) part(from int, to []int, r mem.Range, waits ...mem.Wait) ([]mem.Point, error) {
	src := mem.MemoryID(from + 1)
	t := mover.Transfer{From: mover.End{Memory: src, Block: c.blocks[from], Off: r.Start}, Size: r.Size(), Waits: waits, Points: make([]mem.Point, len(to))}
	for _, d := range to {
		l := c.topo.Link(src, mem.MemoryID(d+1))
		if t.Way = c.way; t.Way == mem.Same {
			t.Way, _ = l.Choose(r.Size(), mem.ClassOf(c.class(from), c.class(d)))
		}
		t.To = append(t.To, mover.End{Memory: mem.MemoryID(d + 1), Block: c.blocks[d], Off: r.Start})
	}
	err := c.m.Move(&t)
	return t.Points, err
}

// timed moves a whole block and waits.
func (c *copies) timed(ctx context.Context, from int, to ...int) (time.Duration, error) {
	start := time.Now()
	points, err := c.part(from, to, mem.Range{End: c.size})
	if err == nil {
		err = c.wait(ctx, points)
	}
	return time.Since(start), err
}

// wait waits for all points, so that nothing uses the blocks when they are given back.
func (c *copies) wait(ctx context.Context, points []mem.Point) error {
	var errs []error
	for _, p := range points {
		errs = append(errs, c.m.Wait(settled(ctx), p))
	}
	return errors.Join(errs...)
}

// with copies between the host's bytes and a device's block.
func (c *copies) with(ctx context.Context, dev int, data []byte, into bool) error {
	q, err := c.devs[dev].NewQueue(devices.QueueOptions{Name: "bench"})
	if err != nil {
		return err
	}
	at, bytes := devices.Loc{Device: c.devs[dev], Block: c.blocks[dev]}, devices.Loc{Bytes: data}
	cmd := devices.Command{Op: devices.OpCopy, Size: uint64(len(data)), Dst: bytes, Src: at}
	if into {
		cmd.Dst, cmd.Src = at, bytes
	}
	p, err := q.Submit(&cmd, nil)
	if err == nil {
		err = p.Wait(settled(ctx))
	}
	return errors.Join(err, q.Close())
}

// bare measures the copy alone.
func (b *bench) bare(ctx context.Context, m *Move) (err error) {
	c, err := b.newCopies(ctx, m.Size, m.From, m.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err = c.with(ctx, m.From, content(m.Size), true); err != nil {
		return err
	}
	if m.Copy, err = median(ctx, b.Reps, func() (time.Duration, error) { return c.timed(ctx, m.From, m.To) }); err != nil {
		return err
	}
	m.Way = c.chosen(m.From, m.To, m.Size).Phrase()
	got := make([]byte, m.Size)
	if err = errors.Join(c.with(ctx, m.To, got, false), check(got, 0)); err == nil && b.linked {
		m.CUDA, err = b.cuda(ctx, b.hops(m.From, m.To, m.Size))
	}
	return err
}
