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
	overhead   bool
	pocl       string
	patience   time.Duration
	faults     string
	json       bool
}

// benchAllocOutput is the JSON form of what godwit bench alloc says.
type benchAllocOutput struct {
	CPUs     int               `json:"cpus"`
	Go       string            `json:"go"`
	Pairs    int               `json:"pairs"`
	Rounds   int               `json:"rounds"`
	PoCL     string            `json:"pocl"` // "built", or why it is missing
	Rows     []replay.BenchRow `json:"rows"`
	GrowthTo map[string]string `json:"growth,omitempty"` // by contender: W1 at most live / at 1,000
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
	fl.IntVar(&f.rounds, "rounds", 5, "rounds that the medians are over")
	fl.BoolVar(&f.overhead, "overhead", true, "also search the smallest region of each strategy")
	patienceFlag(fl, &f.patience)
	fl.StringVar(&f.faults, "faults", "godwit-faults", "directory for the streams that show an allocator's faults")
	fl.StringVar(&f.pocl, "pocl", "", "PoCL's source: an archive or a tree (default /usr/src/pocl.tar.xz; - leaves it out)")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func runBenchAlloc(ctx context.Context, out, errOut io.Writer, f benchAllocFlags) (err error) {
	o := replay.BenchOptions{Live: f.live, Pairs: f.pairs, Rounds: f.rounds, Overhead: f.overhead}
	named, err := onlineOnly(ctx, f.strategies, f.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, named.close()) }()
	o.Subjects = named.list
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
		if o.PoCL, err = replay.BuildPoCL(ctx, dir, f.pocl, 0); err != nil {
			if !errors.Is(err, replay.ErrNoPoCL) {
				return err
			}
			report.PoCL = err.Error()
			_, _ = fmt.Fprintln(errOut, "godwit: without PoCL:", err) // stderr: nothing to do about an error
		}
	}
	bar := newProgress(o.Steps(len(streams)), "benchmark")
	o.Progress = func() { _ = bar.Add(1) } // a bar that cannot be drawn is no error
	if report.Rows, err = replay.Bench(ctx, streams, o); err != nil {
		return err
	}
	_ = bar.Finish()
	report.GrowthTo = growth(report.Rows)
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

// growth is each contender's time at the last W1 over that at the first.
func growth(rows []replay.BenchRow) map[string]string {
	first, out := make(map[string]replay.BenchRow), make(map[string]string)
	for _, r := range rows {
		if r.Workload != fmt.Sprintf("W1-%d", r.Live) || r.NSPerPair == 0 {
			continue
		}
		if f, ok := first[r.Contender]; ok {
			out[r.Contender] = fmt.Sprintf("%.2f x from %d to %d live (best %.2f x)",
				r.NSPerPair/f.NSPerPair, f.Live, r.Live, r.BestNS/f.BestNS)
		} else {
			first[r.Contender] = r
		}
	}
	return out
}

func printBenchAlloc(w io.Writer, b benchAllocOutput) {
	t := newTable(w, 3, "workload", "contender", "ns/pair", "ratio", "best ns", "best ratio", "worst ns", "scans", "worst scan", "heap allocs", "B/chunk", "overhead", "failures")
	last := ""
	for _, r := range b.Rows {
		if last != "" && r.Workload != last {
			t.appendSeparator()
		}
		last = r.Workload
		worst, scan, overhead, allocs := "-", "-", "-", "-"
		if r.Worst != nil {
			worst, allocs = fmt.Sprintf("%.0f", r.Worst.NS), fmt.Sprintf("%.3g", r.AllocsPair)
		}
		if r.WorstScan != nil {
			scan = fmt.Sprintf("%.0f", r.WorstScan.NS)
		}
		if r.Overhead > 0 {
			overhead = fmt.Sprintf("%.4f", r.Overhead)
		}
		ns, ratio, best, bestRatio, chunk := "-", "-", "-", "-", "-"
		if r.NSPerPair > 0 {
			ns, ratio = fmt.Sprintf("%.1f", r.NSPerPair), fmt.Sprintf("%.2f", r.Ratio)
			best, bestRatio = fmt.Sprintf("%.1f", r.BestNS), fmt.Sprintf("%.2f", r.BestRatio)
		}
		if r.BytesChunk > 0 {
			chunk = fmt.Sprintf("%.0f", r.BytesChunk)
		}
		t.appendRow([]any{r.Workload, r.Contender, ns, ratio, best, bestRatio, worst, r.Scans, scan, allocs, chunk, overhead, r.Failures})
	}
	t.render()
	g, grown := newTable(w, 2, "W1 growth", "time"), len(b.GrowthTo) > 0
	for _, r := range b.Rows {
		if x, ok := b.GrowthTo[r.Contender]; ok {
			g.appendRow([]any{r.Contender, x})
			delete(b.GrowthTo, r.Contender)
		}
	}
	if grown {
		g.render()
	}
	_, _ = fmt.Fprintf(w, "%d CPUs, %s, %d pairs, medians of %d rounds; PoCL's bufalloc.c: %s\n", b.CPUs, b.Go, b.Pairs, b.Rounds, b.PoCL) // as the tables above
}
