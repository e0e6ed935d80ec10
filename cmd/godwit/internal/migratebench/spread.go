//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"slices"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// spreads measures how one device's content gets to all others: as a star (each
// copies from the first) and as a chain (each copies from the one before it, in
// pieces, so that the links of all work at once).
func (b *bench) spreads(ctx context.Context) error {
	n := slices.Max(b.Sizes)
	b.say("one device to %d others", len(b.devs)-1)
	var blocks []mem.Block
	var queues []devices.Queue
	defer func() {
		for i, blk := range blocks {
			_ = b.devs[i].Memory().FreeAfter(blk, nil) // live until here
		}
		for _, q := range queues {
			_ = q.Close()
		}
	}()
	for _, d := range b.devs {
		blk, err := block(d, n)
		if err != nil {
			return err
		}
		blocks = append(blocks, blk)
		q, err := d.NewQueue(devices.QueueOptions{Name: "spread", OutOfOrder: true})
		if err != nil {
			return err
		}
		queues = append(queues, q)
	}
	data := content(n)
	p, err := queues[0].Submit(&devices.Command{Op: devices.OpCopy, Size: n, Src: devices.Loc{Bytes: data}, Dst: devices.Loc{Device: b.devs[0], Block: blocks[0]}}, nil)
	if err == nil {
		err = queues[0].Wait(settled(ctx), p)
	}
	if err != nil {
		return err
	}
	for _, how := range []struct {
		name   string
		pieces uint64
		source func(to int) int
	}{
		{"star", 1, func(int) int { return 0 }},
		{"chain, 16 pieces", 16, func(to int) int { return to - 1 }},
		{"chain, 64 pieces", 64, func(to int) int { return to - 1 }},
	} {
		t, err := median(ctx, b.Reps, func() (time.Duration, error) { return b.spread(ctx, queues, blocks, n, how.pieces, how.source) })
		if err != nil {
			return err
		}
		b.report.Spread = append(b.report.Spread, Spread{Size: n, How: how.name, Time: t, Rate: rate(n*uint64(len(b.devs)-1), t)})
	}
	got := make([]byte, n)
	last := len(b.devs) - 1
	p, err = queues[last].Submit(&devices.Command{Op: devices.OpCopy, Size: n, Dst: devices.Loc{Bytes: got}, Src: devices.Loc{Device: b.devs[last], Block: blocks[last]}}, nil)
	if err == nil {
		err = queues[last].Wait(settled(ctx), p)
	}
	return errors.Join(err, check(got, 0))
}

func (b *bench) spread(ctx context.Context, queues []devices.Queue, blocks []mem.Block, n, pieces uint64, source func(int) int) (time.Duration, error) {
	arrived := make([]mem.Point, len(b.devs)) // of the piece, by device
	var all []mem.Point
	piece := n / pieces
	start := time.Now()
	for at := uint64(0); at < n; at += piece {
		for to := 1; to < len(b.devs); to++ {
			from, size := source(to), min(piece, n-at)
			var waits []mem.Wait
			if from > 0 {
				waits = []mem.Wait{{Point: arrived[from], Kind: mem.Data}}
			}
			p, err := queues[to].Submit(&devices.Command{Op: devices.OpCopy, Size: size,
				Src: devices.Loc{Device: b.devs[from], Block: blocks[from], Off: at}, Dst: devices.Loc{Device: b.devs[to], Block: blocks[to], Off: at}}, waits)
			if err != nil {
				return 0, err
			}
			arrived[to] = p
			all = append(all, p)
		}
	}
	for _, p := range all {
		if err := p.Wait(settled(ctx)); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
