//go:build cgo

package migratebench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
)

// Copies over the links between devices, beside CUDA's own.

// most is what a window of the bench has, in bytes: CUDA's copies of more go through it
// again and again.
const most = 256 << 20

// plain is how large a block is, in bytes, that lies in no window.
const plain = 512 << 20

// openLinks opens links where devices have any, and windows for CUDA's own copies.
func (b *bench) openLinks(ctx context.Context) error {
	if err := b.ctx.OpenLinks(ctx); err != nil {
		b.report.Notes = append(b.report.Notes, "no links between the devices: "+err.Error())
		return ctx.Err()
	}
	for i, d := range b.devs {
		w, err := block(d, most)
		if err != nil {
			return err
		}
		b.windows = append(b.windows, w)
		if l, ok := d.(devices.Windowed); !ok || !l.InWindow(w) {
			return fmt.Errorf("device %d: a block of %d bytes lies in no window: %w", i, uint64(most), mem.ErrNoMemory)
		}
	}
	b.linked = true
	return nil
}

func (b *bench) closeWindows() error {
	var errs []error
	for i, w := range b.windows {
		errs = append(errs, b.devs[i].Memory().FreeAfter(w, nil))
	}
	return errors.Join(errs...)
}

// hops are a copy of n bytes by CUDA.
func (b *bench) hops(from, to int, n uint64) (all []opencl.Hop) {
	for ; n > 0; n -= min(n, most) {
		at := func(i int) devices.Loc { return devices.Loc{Device: b.devs[i], Block: b.windows[i]} }
		all = append(all, opencl.Hop{From: at(from), To: at(to), Size: min(n, most)}) // in one stream
	}
	return all
}

// cuda is the median time of CUDA's own copies.
func (b *bench) cuda(ctx context.Context, hops []opencl.Hop) (time.Duration, error) {
	return median(ctx, b.Reps, func() (time.Duration, error) { return opencl.TimeHops(hops) })
}

// links measures copies over links: small ones piece by piece, both directions at once, parts of a large buffer,
// by window what could go directly, and all devices at once.
func (b *bench) links(ctx context.Context) error {
	for _, f := range []func(context.Context) error{b.bothWays, b.parts, b.byWindow, b.neighbours} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) linkedRow(ctx context.Context, l Linked, hops []opencl.Hop, f func() (time.Duration, error)) (err error) {
	b.say("%s, %d KiB", l.What, l.Size>>10)
	if l.Godwit, err = median(ctx, b.Reps, f); err != nil {
		return err
	}
	if l.CUDA, err = b.cuda(ctx, hops); err != nil {
		return err
	}
	b.report.Linked = append(b.report.Linked, l)
	return nil
}

// bothWays has two devices send half of their blocks to each other.
func (b *bench) bothWays(ctx context.Context) (err error) {
	n := min(slices.Max(b.Sizes), most/2)
	c, err := b.newCopies(ctx, 2*n, 0, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return b.ways(ctx, "both directions at once", c, n)
}

// parts are parts of the largest buffer, and how long they take through the host.
func (b *bench) parts(ctx context.Context) (err error) {
	n := slices.Max(b.Sizes)
	c, err := b.newCopies(ctx, n, 0, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	data := content(n)
	if err := c.with(ctx, 0, data, true); err != nil {
		return err
	}
	for _, part := range []uint64{4 << 10, 16 << 20, 64 << 20} {
		if part > n/2 {
			continue
		}
		r := mem.Range{Start: n / 4, End: n/4 + part}
		timed := func() (time.Duration, error) {
			start := time.Now()
			p, err := c.part(0, []int{1}, r)
			err = errors.Join(err, c.wait(ctx, p))
			return time.Since(start), err
		}
		c.way = mem.Ring
		pinned, err := median(ctx, b.Reps, timed)
		if err != nil {
			return err
		}
		c.way = mem.Same
		l := Linked{What: fmt.Sprintf("%d KiB of %d MiB", part>>10, n>>20), Way: c.chosen(0, 1, part).Phrase(), Size: part, Pinned: pinned}
		if err := b.linkedRow(ctx, l, b.hops(0, 1, part), timed); err != nil {
			return err
		}
		got := make([]byte, n)
		if err := c.with(ctx, 1, got, false); err != nil {
			return err
		}
		for i := r.Start; i < r.End; i++ {
			if got[i] != data[i] {
				return fmt.Errorf("byte %d of a part is %d, not %d: %w", i, got[i], data[i], mem.ErrInvalidValue)
			}
		}
	}
	return nil
}

// byWindow has copies of parts of blocks that lie in no windows, which go by window, one way and both at once.
func (b *bench) byWindow(ctx context.Context) error {
	for _, n := range b.Sizes {
		if n < 64<<20 {
			continue
		}
		if err := b.byWindowOf(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) byWindowOf(ctx context.Context, n uint64) (err error) {
	c, err := b.newCopies(ctx, max(n, plain), 0, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.with(ctx, 0, content(n), true); err != nil {
		return err
	}
	c.way = mem.Windows
	if err := b.linkedRow(ctx, Linked{What: "a ring by window", Way: c.way.Phrase(), Size: n}, b.hops(0, 1, n), func() (time.Duration, error) {
		start := time.Now()
		p, err := c.part(0, []int{1}, mem.Range{End: n})
		err = errors.Join(err, c.wait(ctx, p))
		return time.Since(start), err
	}); err != nil {
		return err
	}
	got := make([]byte, n)
	if err := errors.Join(c.with(ctx, 1, got, false), check(got, 0)); err != nil || n > most/2 {
		return err
	}
	return b.ways(ctx, "a ring by window each way at once", c, n)
}

// ways has two devices send n bytes of their blocks to each other at once.
func (b *bench) ways(ctx context.Context, what string, c *copies, n uint64) error {
	data := [2][]byte{content(2 * n), content(2 * n)}
	for i := range data[1] {
		data[1][i] ^= 0x5a
	}
	for i := range data {
		if err := c.with(ctx, i, data[i], true); err != nil {
			return err
		}
	}
	hops := append(b.hops(0, 1, n), b.hops(1, 0, n)...)
	for i := range hops[1:] {
		hops[i+1].From.Off, hops[i+1].To.Off = n, n
	}
	way := c.way
	if way == mem.Same {
		way = c.chosen(0, 1, n)
	}
	if err := b.linkedRow(ctx, Linked{What: what, Way: way.Phrase(), Size: 2 * n}, hops, func() (time.Duration, error) {
		start := time.Now()
		p, err := c.part(0, []int{1}, mem.Range{End: n})
		q, err2 := c.part(1, []int{0}, mem.Range{Start: n, End: 2 * n})
		err = errors.Join(err, err2, c.wait(ctx, append(p, q...)))
		return time.Since(start), err
	}); err != nil {
		return err
	}
	want := append(slices.Clone(data[0][:n]), data[1][n:]...) // of both
	for i := range data {
		got := make([]byte, 2*n)
		if err := c.with(ctx, i, got, false); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s, %d bytes: device %d has the wrong bytes: %w", what, n, i, mem.ErrInvalidValue)
		}
	}
	return nil
}

// neighbours has each device send to the next one, all at once.
func (b *bench) neighbours(ctx context.Context) (err error) {
	if len(b.devs) < 3 {
		return nil
	}
	const n = 16 << 20
	var all []int
	for i := range b.devs {
		all = append(all, i)
	}
	c, err := b.newCopies(ctx, 2*n, all...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for count := 1; count <= len(all); count += len(all) - 1 {
		var hops []opencl.Hop
		for i := range count {
			hops = append(hops, b.hops(i, (i+1)%len(all), n)...)
			hops[i].To.Off = n
		}
		if err := b.linkedRow(ctx, Linked{What: fmt.Sprintf("neighbours at once: %d", count), Size: uint64(count) * n}, hops, func() (time.Duration, error) {
			start := time.Now()
			var points []mem.Point
			var errs []error
			for i := range count {
				p, err := c.part(i, []int{(i + 1) % len(all)}, mem.Range{End: n})
				points, errs = append(points, p...), append(errs, err)
			}
			errs = append(errs, c.wait(ctx, points))
			return time.Since(start), errors.Join(errs...)
		}); err != nil {
			return err
		}
	}
	return b.star(ctx)
}

// star is CUDA's own way from one device to all others: what "one to all" is to be held
// against.
func (b *bench) star(ctx context.Context) error {
	n, last := slices.Max(b.Sizes), len(b.devs)-1
	var hops []opencl.Hop
	for to := 1; to <= last; to++ {
		hops = append(hops, b.hops(0, to, n)...)
	}
	t, err := b.cuda(ctx, hops)
	if err == nil {
		b.report.Linked = append(b.report.Linked, Linked{What: "CUDA's star", Size: n * uint64(last), CUDA: t})
	}
	return err
}
