//go:build cgo

package migratebench

import (
	"context"
	"errors"
	"slices"
	"time"

	"godwit/mem"
)

// spreads measures how one device's content gets to all others: by one transfer with
// several destinations, as a star (each copies from the first) and as a chain (each
// copies from the one before it, in pieces, so that the links of all work at once).
func (b *bench) spreads(ctx context.Context) (err error) {
	n := slices.Max(b.Sizes)
	b.say("one device to %d others", len(b.devs)-1)
	var all, others []int
	for i := range b.devs {
		all = append(all, i)
	}
	others = all[1:]
	c, err := b.newCopies(ctx, n, all...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.with(ctx, 0, content(n), true); err != nil {
		return err
	}
	zero, got := make([]byte, n), make([]byte, n)
	for _, how := range []struct {
		name   string
		spread func() (time.Duration, error)
	}{
		{"one command", func() (time.Duration, error) { return c.timed(ctx, 0, others...) }},
		{"star", func() (time.Duration, error) { return c.inPieces(ctx, 1, func(int) int { return 0 }) }},
		{"chain, 16 pieces", func() (time.Duration, error) { return c.inPieces(ctx, 16, func(to int) int { return to - 1 }) }},
		{"chain, 64 pieces", func() (time.Duration, error) { return c.inPieces(ctx, 64, func(to int) int { return to - 1 }) }},
	} {
		before := c.m.Stats().Legs
		t, err := median(ctx, b.Reps, how.spread)
		if err != nil {
			return err
		}
		legs := (c.m.Stats().Legs - before) / uint64(b.Reps)
		b.report.Spread = append(b.report.Spread, Spread{Size: n, How: how.name, Time: t, Rate: rate(n*uint64(len(others)), t), Legs: legs})
		for _, d := range others {
			if err := c.with(ctx, d, got, false); err != nil {
				return err
			}
			if err := errors.Join(check(got, 0), c.with(ctx, d, zero, true)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inPieces brings the first device's block to all others, each from its source.
func (c *copies) inPieces(ctx context.Context, pieces uint64, source func(to int) int) (time.Duration, error) {
	arrived := make([]mem.Point, len(c.devs)) // of the piece, by device
	var all []mem.Point
	piece := c.size / pieces
	start := time.Now()
	for at := uint64(0); at < c.size; at += piece {
		for to := 1; to < len(c.devs); to++ {
			from := source(to)
			var waits []mem.Wait
			if from > 0 {
				waits = []mem.Wait{{Point: arrived[from], Kind: mem.Data}}
			}
			p, err := c.part(from, []int{to}, mem.Range{Start: at, End: min(at+piece, c.size)}, waits...)
			if err != nil {
				return 0, err
			}
			arrived[to] = p[0]
			all = append(all, p[0])
		}
	}
	err := c.wait(ctx, all)
	return time.Since(start), err
}
