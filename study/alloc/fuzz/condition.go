package fuzz

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"godwit/mem"
	"godwit/study/alloc/replay"
)

// condition is what a shrunk stream still has to show: bounds on overheads, the
// smallest region that works over the peak of live bytes.
type condition struct {
	text   string
	bounds []bound
}

// bound is "A > x", "A < x", "A / B > x" or "A / B < x".
type bound struct {
	a, b    replay.Subject // b may be nil
	greater bool
	limit   float64
}

var boundForm = regexp.MustCompile(`^\s*([^<>]+?)(?:\s+/\s+([^<>]+?))?\s*([<>])\s*([0-9.]+)\s*$`)

// ParseCondition reads bounds that all have to hold, joined by "and": "fit > 1.2",
// "fit / bestfit > 1.1 and bestfit < 1.3". find knows strategies by name. It
// fails with mem.ErrInvalidValue for anything else.
func ParseCondition(text string, find func(name string) (replay.Subject, error)) (*condition, error) {
	c := &condition{text: text}
	for _, part := range strings.Split(text, " and ") {
		m := boundForm.FindStringSubmatch(part)
		if m == nil {
			return nil, fmt.Errorf("%q: want a bound such as fit > 1.2 or fit / bestfit > 1.1: %w", part, mem.ErrInvalidValue)
		}
		limit, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w: %w", part, err, mem.ErrInvalidValue)
		}
		x := bound{greater: m[3] == ">", limit: limit}
		if x.a, err = find(m[1]); err == nil && m[2] != "" {
			x.b, err = find(m[2])
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		c.bounds = append(c.bounds, x)
	}
	return c, nil
}

// Holds reports whether st shows it.
func (c *condition) Holds(ctx context.Context, st *replay.Stream) (bool, error) {
	for _, x := range c.bounds {
		ok, err := x.holds(ctx, st)
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (x *bound) holds(ctx context.Context, st *replay.Stream) (bool, error) {
	if x.b == nil && x.greater {
		// One replay is enough to see that it does not: in most tries.
		size := uint64(x.limit*float64(st.PeakLive)) &^ (st.Align - 1)
		if size >= st.PeakLive {
			run, err := replay.Replay(ctx, st, x.a, size)
			if err != nil || run.Failures == 0 {
				return false, err
			}
		}
	}
	v, err := overhead(ctx, x.a, st)
	if err == nil && x.b != nil {
		var other float64
		other, err = overhead(ctx, x.b, st)
		v /= other
	}
	return err == nil && (v > x.limit) == x.greater && v != x.limit, err
}

func overhead(ctx context.Context, s replay.Subject, st *replay.Stream) (float64, error) {
	m, err := replay.MinRegion(ctx, st, s)
	return float64(m.Region) / float64(st.PeakLive), err
}

// Shrink makes a stream smaller while the condition holds, by at most so many
// tries or until ctx ends, and returns the smallest it found. It fails with
// mem.ErrInvalidValue where the condition does not hold to begin with, and with ctx's
// error where ctx ends before that is known.
func Shrink(ctx context.Context, st *replay.Stream, c *condition, tries int) (*replay.Stream, error) {
	if ok, err := c.Holds(ctx, st); err != nil || !ok {
		if err == nil {
			err = fmt.Errorf("%s does not show %q: %w", st.Name, c.text, mem.ErrInvalidValue)
		}
		return nil, err
	}
	k := &shrinker{left: tries, ops: renumber(st.Ops)}
	best := st
	k.keeps = func(_ context.Context, ops []replay.Op, _ uint64) (bool, error) {
		small, err := replay.NewStream(st.Name+"-shrunk", st.Align, ops)
		if err != nil {
			return false, nil //nolint:nilerr // nothing is allocated in it any more
		}
		ok, err := c.Holds(ctx, small)
		if ctx.Err() != nil { // this try does not count
			return false, nil
		}
		if ok {
			best = small
		}
		return ok, err
	}
	err := k.untilNoSmaller(ctx)
	return best, err
}

// untilNoSmaller repeats the passes while they still remove something.
func (k *shrinker) untilNoSmaller(ctx context.Context) error {
	for n := -1; n != len(k.ops) && k.left > 0 && ctx.Err() == nil; {
		n = len(k.ops)
		if err := k.run(ctx); err != nil {
			return err
		}
	}
	return nil
}
