package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"godwit/bufalloc/fuzz"
)

// fuzzFlags are the flags of godwit fuzz.
type fuzzFlags struct {
	strategies []string
	objective  string
	seed       uint64
	ops, evals int
	limit      time.Duration
	out        string
	json       bool
}

func newFuzz() *cobra.Command {
	var f fuzzFlags
	cmd := &cobra.Command{
		Use:   "fuzz",
		Short: "Search for sequences that hurt a placement strategy",
		Long: `Search for sequences of allocations and frees that hurt a placement strategy.

A guided search keeps the worst sequences, mutates and crosses them, and starts
afresh when nothing more comes of it. The worst is shrunk and saved in --out: a
trace for godwit replay, and under corpus/ an entry for the fuzz target
FuzzStrategies of bufalloc/fuzz. The objectives are counted, not timed, so that
the same --seed finds the same on every machine, unless --for or Ctrl-C ends the
search first; then it keeps what it found.

  overhead       smallest region / what an offline packing of the sequence needs
  fragmentation  1 - largest hole / free, in a region of twice the peak
  failure        free / request when one fails, in a region of 5/4 of the peak
  slow-op        holes and chunks that one operation looks at, in a region of 5/4`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runFuzz(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVarP(&f.strategies, "strategy", "s", []string{"fit"}, "strategies, or all")
	fl.StringVar(&f.objective, "objective", string(fuzz.Overhead), "overhead, fragmentation, failure or slow-op")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the random numbers")
	fl.IntVar(&f.ops, "ops", 400, "operations of a sequence, at most")
	fl.IntVar(&f.evals, "evals", 4000, "sequences to try for each strategy; with --for, as many as there is time for unless given")
	fl.DurationVar(&f.limit, "for", 0, "stop after this time (30s, 5m)")
	fl.StringVar(&f.out, "out", "godwit-fuzz", "directory for what is found")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Flags().Changed("for") && !cmd.Flags().Changed("evals") {
			f.evals = 1 << 40
		}
	}
	return cmd
}

func runFuzz(ctx context.Context, out, errOut io.Writer, f fuzzFlags) error {
	strategies, err := onlineOnly(f.strategies)
	if err != nil {
		return err
	}
	objective, err := fuzz.ParseObjective(f.objective)
	if err != nil {
		return err
	}
	if f.ops < 1 || f.evals < 1 || f.limit < 0 {
		return errors.New("--ops and --evals must be at least 1, --for positive")
	}
	if f.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.limit)
		defer cancel()
	}
	total := f.evals * len(strategies)
	if f.limit > 0 && f.evals == 1<<40 {
		total = -1 // a spinner: nobody knows how many
	}
	bar := newProgress(total, "searching")
	findings := make([]*fuzz.Finding, len(strategies))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range strategies {
		g.Go(func() (err error) {
			findings[i], err = fuzz.Search(ctx, fuzz.Options{Strategy: s, Objective: objective, Seed: f.seed,
				Ops: f.ops, Evals: f.evals, Progress: func() { _ = bar.Add(1) }}) // a bar that cannot be drawn is no error
			if err != nil {
				return fmt.Errorf("%v: %w", s, err)
			}
			return findings[i].Save(ctx, f.out)
		})
	}
	err = g.Wait()
	_ = bar.Finish()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(errOut, "godwit: stopped early; what was found is kept") // stderr: nothing to do about an error
	}
	if f.json {
		return writeJSON(out, findings)
	}
	printFindings(out, findings)
	return nil
}

func printFindings(w io.Writer, findings []*fuzz.Finding) {
	t := newTable(w, 3, "strategy", "objective", "score", "sequences", "ops", "peak live", "region", "/ peak", "/ offline", "Robson / peak", "scans", "worst ns", "scan ns")
	for _, f := range findings {
		if f.Stream == nil {
			t.AppendRow([]any{f.Strategy, f.Objective, "-", f.Evals})
			continue
		}
		scan := "-"
		if f.ScanNS > 0 {
			scan = fmt.Sprintf("%.0f", f.ScanNS)
		}
		region, over, price := "never fits", "-", "-"
		if f.MinRegion > 0 {
			region, over, price = sizeOf(f.MinRegion), fmt.Sprintf("%.4f", f.Overhead), fmt.Sprintf("%.4f", f.Price)
		}
		t.AppendRow([]any{f.Strategy, f.Objective, fmt.Sprintf("%.4f", f.Score), f.Evals, f.Ops, sizeOf(f.PeakLive),
			region, over, price, fmt.Sprintf("%.3f", f.Robson), f.Scans, fmt.Sprintf("%.0f", f.WorstNS), scan})
	}
	t.Render()
	for _, f := range findings {
		if f.TraceFile != "" {
			_, _ = fmt.Fprintf(w, "%s\n%s\n", f.TraceFile, f.CorpusFile) // as the table above
		}
	}
}
