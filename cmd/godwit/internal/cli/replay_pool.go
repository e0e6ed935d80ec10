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
	defer bar.finish()
	var results []poolreplay.Result
	for _, t := range traces {
		for _, k := range kinds {
			r, err := poolreplay.Run(ctx, t, k, poolPasses)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
			bar.add(1)
		}
	}
	return results, nil
}

// poolPass is a row of the table of pools.
type poolPass struct {
	poolreplay.Result
	Number int `show:"pass"`
	poolreplay.Pass
}

func printPools(w io.Writer, results []poolreplay.Result) {
	var rows []poolPass
	for _, r := range results {
		for i, p := range r.Passes {
			rows = append(rows, poolPass{r, i + 1, p})
		}
	}
	show(w, 2, 1, rows)
}
