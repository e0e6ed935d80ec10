package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"godwit/internal/process"
	"godwit/study/alloc/extern"
	"godwit/study/alloc/replay"
)

// newBench is the parent of the benchmarks.
func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure allocation, migration, transfers and pools on this machine",
		Args:  cobra.ArbitraryArgs,
		RunE:  noSuchVerb,
	}
	cmd.AddCommand(newBenchAlloc(), newBenchMigrate(), newBenchTransfer(), newBenchPool())
	return cmd
}

// benchAllocFlags are the flags of godwit bench alloc.
type benchAllocFlags struct {
	strategies []string
	live       []int
	pairs      int
	rounds     int
	pocl       string
	patience   time.Duration
	faults     string
	json       bool
}

// benchAllocOutput is the JSON form of what godwit bench alloc says.
type benchAllocOutput struct {
	CPUs   int               `json:"cpus"`
	Go     string            `json:"go"`
	Pairs  int               `json:"pairs"`
	Rounds int               `json:"rounds"`
	PoCL   string            `json:"pocl"` // "built", or why it is missing
	Rows   []replay.BenchRow `json:"rows"`
}

func newBenchAlloc() *cobra.Command {
	var f benchAllocFlags
	cmd := &cobra.Command{
		Use:   "alloc",
		Short: "Time the placement strategies on the workloads W1 and W2",
		Long: `Time the placement strategies on the workloads W1 and W2.

W1 is the steady state: so many live chunks of 256 B to 16 MiB, free one and
allocate another. W2 is what kernels do: groups of 3 to 8 buffers that come and
go together. Every contender runs in a region of twice the peak of live bytes,
in turns with the others. "yardstick" is a bare two-level-bitmap good-fit with
the same nodes and none of the placement rules; ratios are to it. "pocl-c-…" is
PoCL's own bufalloc.c, compiled for the occasion where Debian's package
pocl-source and gcc are installed.

` + outside + `
What is asked by lines takes no times.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchAlloc(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVarP(&f.strategies, "strategy", "s", []string{"fit", "bestfit", "goodfit"}, "strategies, or all")
	fl.IntSliceVar(&f.live, "live", []int{1000, 10000, 100000}, "live chunks of W1")
	fl.IntVar(&f.pairs, "pairs", 200000, "timed pairs of free and allocation")
	fl.IntVar(&f.rounds, "rounds", 7, "rounds that the medians are over")
	patienceFlag(fl, &f.patience)
	fl.StringVar(&f.faults, "faults", "godwit-faults", "directory for the streams that show an allocator's faults")
	fl.StringVar(&f.pocl, "pocl", "", "PoCL's source: an archive or a tree (default /usr/src/pocl.tar.xz; - leaves it out)")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func runBenchAlloc(ctx context.Context, out, errOut io.Writer, f benchAllocFlags) (err error) {
	o := replay.BenchOptions{Live: f.live, Pairs: f.pairs, Rounds: f.rounds}
	named, err := onlineOnly(ctx, f.strategies, f.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, named.close()) }()
	if f.pairs < 1 || f.rounds < 1 {
		return errors.New("--pairs and --rounds must be at least 1")
	}
	streams, err := replay.BenchStreams(o)
	if err != nil {
		return err
	}
	report := benchAllocOutput{CPUs: runtime.NumCPU(), Go: runtime.Version(), Pairs: f.pairs, Rounds: f.rounds, PoCL: "left out"}
	if f.pocl != "-" {
		dir, remove, terr := process.TempDir(ctx, "", "godwit-pocl")
		if terr != nil {
			return terr
		}
		defer func() { err = errors.Join(err, remove()) }()
		report.PoCL = "built"
		pools, err := extern.OpenPoCL(ctx, dir, f.pocl, extern.Options{Patience: f.patience})
		switch {
		case errors.Is(err, extern.ErrNoPoCL):
			report.PoCL = err.Error()
			_, _ = fmt.Fprintln(errOut, "godwit: without PoCL:", err) // stderr: nothing to do about an error
		case err != nil:
			return err
		}
		for _, p := range pools {
			named.list = append(named.list, named.keep(p))
		}
	}
	o.Subjects = named.list
	bar := newProgress(o.Steps(len(streams)), "benchmark")
	o.Progress = func() { bar.add(1) }
	report.Rows, err = replay.Bench(ctx, streams, o)
	bar.finish()
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(out, report)
	} else {
		printBenchAlloc(out, report)
	}
	var faults []*replay.Fault
	for _, r := range report.Rows {
		faults = append(faults, r.Fault)
	}
	return errors.Join(err, reportFaults(ctx, errOut, f.faults, faults))
}

func printBenchAlloc(w io.Writer, b benchAllocOutput) {
	show(w, 2, 1, b.Rows)
	_, _ = fmt.Fprintf(w, "%d CPUs, %s, %d pairs, medians of %d rounds; PoCL's bufalloc.c: %s\n", b.CPUs, b.Go, b.Pairs, b.Rounds, b.PoCL) // w keeps its first error
}
