//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// What the time of a small copy over a link is made of: stamps that the driver and its engine take at
// each hand-over of single copies between windows, and of copies between two fills. What the mover and
// the runtime add is a difference of medians.

// mostPieced is the largest size that is taken apart, in bytes: of larger ones nearly all is the copy.
const mostPieced = 4 << 20

// piecesReps is how many copies the medians are over.
const piecesReps = 101

// pieced are the durations of each piece, in order.
type pieced struct {
	what []string
	took [][]time.Duration
}

// add adds a duration to the k-th piece.
func (p *pieced) add(k int, what string, d time.Duration) {
	if k == len(p.what) {
		p.what, p.took = append(p.what, what), append(p.took, nil)
	}
	p.took[k] = append(p.took[k], d)
}

func (p *pieced) into(r *Report, n uint64) {
	for k, what := range p.what {
		slices.Sort(p.took[k])
		r.Pieces = append(r.Pieces, Piece{What: what, Size: n, Time: p.took[k][len(p.took[k])/2]})
	}
}

// pieces takes copies of the small sizes apart, from the first device to the second.
func (b *bench) pieces(ctx context.Context) error {
	for _, m := range b.report.Moves {
		if m.From != 0 || m.To != 1 || m.Size > mostPieced {
			continue
		}
		b.say("%d KiB, piece by piece", m.Size>>10)
		if err := b.piecesOf(ctx, m); err != nil {
			return fmt.Errorf("%d bytes, piece by piece: %w", m.Size, err)
		}
	}
	return nil
}

func (b *bench) piecesOf(ctx context.Context, m Move) (err error) {
	c, err := b.newCopies(ctx, m.Size, 0, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if c.class(0) != mem.Window || c.class(1) != mem.Window {
		return nil // nothing goes over the link directly
	}
	if err := c.with(ctx, 0, content(m.Size), true); err != nil {
		return err
	}
	var queues [2]*opencl.Queue
	for i := range queues {
		q, err := b.devs[i].NewQueue(devices.QueueOptions{Name: "pieces", OutOfOrder: true, Profiling: true})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.Close()) }()
		queues[i] = q.(*opencl.Queue)
	}
	h := hand{copies: c, queues: queues, size: m.Size}
	c.way = mem.Linked
	var whole time.Duration
	var alone, between pieced
	for i := -piecesReps / 8; i < piecesReps; i++ {
		if i == 0 {
			alone = pieced{} // what was before warms up
		}
		if err := errors.Join(ctx.Err(), h.alone(ctx, &alone)); err != nil {
			return err
		}
	}
	if whole, err = median(ctx, piecesReps, func() (time.Duration, error) { return c.timed(ctx, 0, 1) }); err != nil {
		return err
	}
	got := make([]byte, m.Size)
	if err := errors.Join(c.with(ctx, 1, got, false), check(got, 0)); err != nil {
		return err
	}
	for i := -piecesReps / 8; i < piecesReps; i++ {
		if i == 0 {
			between = pieced{}
		}
		if err := errors.Join(ctx.Err(), h.between(ctx, &between)); err != nil {
			return err
		}
	}
	buf, err := b.ctx.CreateBuffer(m.Size, runtime.ReadWrite, content(m.Size))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buf.Release()) }()
	migrate, err := b.migration(ctx, 1, buf, piecesReps, func() error {
		_, err := timed(ctx, func() (runtime.Event, error) { return b.touch(ctx, 0, buf) })
		return err
	})
	if err != nil {
		return err
	}
	r := b.report
	alone.into(r, m.Size)
	r.Pieces = append(r.Pieces, Piece{"the mover, beyond that", m.Size, whole - r.Pieces[len(r.Pieces)-1].Time},
		Piece{"the runtime, beyond that: the plan, the command and its end", m.Size, migrate - whole}, Piece{"migrate, in all", m.Size, migrate})
	between.into(r, m.Size)
	return nil
}

// hand takes copies from hand to hand.
type hand struct {
	copies *copies
	queues [2]*opencl.Queue
	size   uint64
}

func (h *hand) loc(i int) devices.Loc {
	return devices.Loc{Device: h.copies.devs[i], Block: h.copies.blocks[i]}
}

// alone is one copy that waits for nothing.
func (h *hand) alone(ctx context.Context, p *pieced) error {
	cmd := devices.Command{Op: devices.OpCopy, Size: h.size, Src: h.loc(0), Dst: h.loc(1)}
	q := h.queues[1]
	start := time.Now()
	point, err := q.Submit(&cmd, nil)
	if err == nil {
		err = q.Wait(settled(ctx), point, devices.Park)
	}
	end := time.Now()
	if err != nil {
		return err
	}
	at, ok := q.Handovers(point)
	if !ok {
		return fmt.Errorf("a copy without times: %w", mem.ErrInvalidOperation)
	}
	for k, s := range []struct {
		what string
		d    time.Duration
	}{
		{"Submit: until the command is understood", at.Queued.Sub(start)},
		{"until the engine has the copy", at.Accepted.Sub(at.Queued)},
		{"until the engine's thread has taken it", at.Ready.Sub(at.Accepted)},
		{"until it calls CUDA", at.Given.Sub(at.Ready)},
		{"CUDA's calls: the copy, the event behind it", at.Called.Sub(at.Given)},
		{"until CUDA says that it has ended", at.Seen.Sub(at.Called)},
		{"until the thread that waits is told", at.Told.Sub(at.Seen)},
		{"until the point ends", at.Ended.Sub(at.Told)},
		{"until its Wait has returned", end.Sub(at.Ended)},
		{"in all, on the driver's queue", end.Sub(start)},
	} {
		p.add(k, s.what, s.d)
	}
	return nil
}

// between is a copy that waits for a fill on the source, and for which a fill on the destination waits.
func (h *hand) between(ctx context.Context, p *pieced) error {
	fill := func(i int, waits ...mem.Wait) (mem.Point, error) {
		to := h.loc(i)
		cmd := devices.Command{Op: devices.OpFill, Size: min(h.size, 4096), Dst: to, Pattern: []byte{1, 2, 3, 4}}
		return h.queues[i].Submit(&cmd, waits)
	}
	start := time.Now()
	first, err := fill(0)
	var hop, last mem.Point
	if err == nil {
		cmd := devices.Command{Op: devices.OpCopy, Size: h.size, Src: h.loc(0), Dst: h.loc(1)}
		hop, err = h.queues[1].Submit(&cmd, []mem.Wait{{Point: first, Kind: mem.Data}})
	}
	if err == nil {
		last, err = fill(1, mem.Wait{Point: hop, Kind: mem.Data})
	}
	if err == nil {
		err = h.queues[1].Wait(settled(ctx), last, devices.Park)
	}
	end := time.Now()
	if err == nil {
		err = h.queues[0].Wait(settled(ctx), first, devices.Park)
	}
	if err != nil {
		return err
	}
	at, ok := h.queues[1].Handovers(hop)
	before, ok2 := h.times(0, first)
	behind, ok3 := h.times(1, last)
	if !ok || !ok2 || !ok3 {
		return fmt.Errorf("a copy between fills without times: %w", mem.ErrInvalidOperation)
	}
	for k, s := range []struct {
		what string
		d    time.Duration
	}{
		{"fill, copy, fill: from the first fill's end until the engine's thread has seen it", at.Ready.Sub(before[3])},
		{"from the end of the copy's point until OpenCL has the second fill", behind[1].Sub(at.Ended)},
		{"until that runs", behind[2].Sub(behind[1])},
		{"from its end until the Wait has returned", end.Sub(behind[3])},
		{"fill, copy, fill, in all", end.Sub(start)},
	} {
		p.add(k, s.what, s.d)
	}
	return nil
}

// times are those of a command on a device's queue, by the host's clock: queued, submitted, started, ended.
// The two clocks are held together by a marker, so that they are some microseconds off.
func (h *hand) times(i int, p mem.Point) (at [4]time.Time, ok bool) {
	t, ok := h.queues[i].Times(p)
	device, err := h.copies.devs[i].(*opencl.Device).Clock()
	now := time.Now()
	for k, s := range []uint64{t.Queued, t.Submitted, t.Started, t.Ended} {
		at[k] = now.Add(time.Duration(s - device))
	}
	return at, ok && err == nil
}
