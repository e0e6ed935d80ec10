package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"godwit/study/alloc/formats"
	"godwit/study/poolreplay"
)

// poolPasses is how often a trace goes through a pool that keeps its buffers:
// the first pass fills it, the second shows what a long run sees.
const poolPasses = 2

// replayPools replays every trace through every pool named.
func replayPools(ctx context.Context, traces []*formats.Allocs, names []string) ([]poolreplay.Result, error) {
	var kinds []poolreplay.Kind
	for _, name := range names {
		k, err := poolreplay.ParseKind(strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("--pool: %w", err)
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	bar := newProgress(len(traces)*len(kinds), "pooling")
	var results []poolreplay.Result
	for _, t := range traces {
		for _, k := range kinds {
			r, err := poolreplay.Run(ctx, t, k, poolPasses)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
			_ = bar.Add(1) // a bar that cannot be drawn is no error
		}
	}
	_ = bar.Finish()
	return results, nil
}

func printPools(w io.Writer, results []poolreplay.Result) {
	if len(results) == 0 {
		return
	}
	t := newTable(w, 3, "trace", "pool", "peak live", "held", "held/peak", "hit rate", "2nd pass", "refused", "ns/op")
	last := ""
	for _, r := range results {
		if last != "" && r.Trace != last {
			t.appendSeparator()
		}
		last = r.Trace
		a, b := r.Passes[0], r.Passes[len(r.Passes)-1]
		held, over := max(a.Held, b.Held), max(a.Overhead, b.Overhead)
		t.appendRow([]any{r.Trace, r.Pool, sizeOf(r.PeakLive), sizeOf(held), fmt.Sprintf("%.3f", over),
			fmt.Sprintf("%.4f", a.HitRate), fmt.Sprintf("%.4f", b.HitRate), a.Failures + b.Failures, fmt.Sprintf("%.0f", b.NsPerOp)})
	}
	t.render()
}
