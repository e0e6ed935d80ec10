package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit/bufalloc/pack"
	"godwit/examples"
	"godwit/internal/figures"
	"godwit/internal/input"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
	"godwit/study/poolreplay"
	"godwit/study/report"
)

// replayFlags are the flags of godwit replay.
type replayFlags struct {
	strategies []string
	region     string
	align      uint64
	repeats    int
	safe       bool
	leaks      bool
	failOver   float64
	baseline   string
	offline    time.Duration
	series     bool
	json       bool
	report     string
	pools      []string
	hints      string
	plan       string
	perturbed  string
	draws      int
	patience   time.Duration
	faults     string
	examples   []string
	stdin      []byte // what was read there
	commandFlags
}

// replayOutput is the JSON form of what godwit replay says.
type replayOutput struct {
	Traces   []traceInfo         `json:"traces"`
	Results  []replay.Result     `json:"results"`
	Means    []replay.Mean       `json:"means"` // geometric, by strategy
	Pools    []poolreplay.Result `json:"pools,omitempty"`
	Commands []commandReplay     `json:"commands,omitempty"` // of command traces, in place of all of these
}

// traceInfo says what was read.
type traceInfo struct {
	File         string           `json:"file"`
	Name         string           `json:"name" show:"trace"`
	Format       string           `json:"format" show:"format"`
	Events       int              `json:"events" show:"events"`
	Chunks       int              `json:"chunks" show:"chunks"`
	UnknownFrees int              `json:"unknown_frees"`
	MissingFrees int              `json:"missing_frees"`
	FailedAllocs int              `json:"failed_allocs"`
	ZeroSized    int              `json:"zero_sized"`
	LivedBefore  int              `json:"lived_before" show:"before"` // chunks that live since before the recording began
	Held         uint64           `json:"held" show:"held|size|-"`    // the most bytes that the recorded allocator held; 0 where the file does not tell
	First        []formats.Oddity `json:"first,omitempty"`
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE… | - | --example NAME",
		Short: "Replay allocation traces through placement strategies, and command traces under eviction policies",
		Long: `Replay allocation traces through placement strategies, and command traces under eviction policies.

Allocation traces say which chunks are allocated and freed, and nothing of their content:
nothing is moved for them, and nothing is evicted. Command traces, which godwit exec and
godwit run record with --record, say what commands access: see below.

For allocation traces it reads Godwit's CSV (op,id,bytes,time_us: a,1,4096,0 allocates, f,1,,5 frees),
MiniMalloc's CSV (id,lower,upper,size), RMM's log, PyTorch's memory snapshot (pickle or JSON)
and VMA's statistics (JSON), plain or gzip, told apart by content. With --region min, the default, it finds for each strategy the smallest
region in which it never fails, to 0.1 %; overhead is that region divided by the
peak of live bytes. A strategy may fail in a larger region nevertheless: safe is the region, by the
peak too, above which nothing fails of what was tried (every 0.5 % up to twice the peak, 3.2 times
with --align 1, and 64 sizes at random). The means are in its order. "offline" among the strategies is the packer that knows all
lifetimes beforehand: what placement could reach. "recorded" is what the recorded program's
own allocator held, where a file tells (PyTorch's segments, VMA's blocks). What was live when
a recording began is allocated first. "pytorch" and "pytorch-expandable" are models of PyTorch's
caching allocator: their region is the smallest device on which they serve the trace, and
"-reserved" behind their names is what they take from a device that has enough.

` + outside + `

--plan FILE adds "planned" to the strategies: a region that follows the plan of a run, as
godwit pack writes it, where calls come in the recorded order and size, places others where they
do it the least harm, and does as fit where fit alone serves the recorded run.

--hints true tells the strategies how long each chunk lives, as a program may that
knows; --hints SEED tells them wrongly, at random.

--perturbed choose or report replays, in place of each trace, streams made from it:
--draws of each kind of godwit trace perturb, from even seeds to choose rules on
or from odd ones to report on. A rule that was tuned on a trace has to bear them.

--pool also runs the traces twice through pools of buffers, which round sizes up
and keep what is freed: power-of-two, leading-bits, and either with ":1.1" for a
ceiling of 1.1 times the peak of live bytes. Held over peak compares with
overhead: both are bytes taken from the device for a byte in use.

A command trace is replayed by the runtime on modelled devices that keep no bytes, once for
each --policy and each --memory. It prints the bytes moved; of these the compulsory ones,
which had to move if no memory had a limit; those due to capacity, which are all others;
and the bound that no policy's are below. belady knows the trace to its end.
--memory says what each device has: a size, a percentage of what the trace uses at most
with memory without limit, "recorded" (the default), or "all", which is without limit.
With --machine copies and links cost what they do there, and its time is printed.
A trace has no waits, pins, user events and content sizes: docs/eviction.md says what follows.

With --fail-over or --baseline it prints a line for each trace and strategy in place of the
tables, and exits with 1 where one fails: docs/allocator.md has a recipe for CI.

Exit status: 0; 1 where --region or --memory is given and something did not fit, where
--fail-over or --baseline is not met, or an allocator broke its contract; 2 for bad
usage or input.`,
		Example: `  godwit replay --example resnet50 --strategy all
  godwit exec --record=program.commands -- ./program
  godwit replay program.commands --policy lru,cost,belady --memory 50%,70%,90%
  godwit replay program.commands --memory 8GiB --machine h200-pcie --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(f.examples) > 0 {
				return nil
			}
			return atLeastOne("a trace", math.MaxInt)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.stdin, err = readStdin(cmd.Context(), args, formats.MaxBytes); err != nil {
				return err
			}
			switch files, err := f.commandTraces(cmd, args); {
			case err != nil:
				return err
			case files != nil:
				return replayCommands(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), files, f)
			}
			g, err := f.newGate(cmd.Context(), cmd.Flags().Changed("fail-over"))
			if err != nil {
				return err
			}
			return runReplay(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f, g)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVarP(&f.strategies, "strategy", "s", []string{"fit", "bestfit", "goodfit"},
		"strategies, or all: "+knownStrategies())
	fl.StringVar(&f.region, "region", "min", "size of the region (64MiB, 2GB), or min to search the smallest")
	fl.Uint64Var(&f.align, "align", 0, "alignment in bytes; sizes are rounded up to it (default 256, MiniMalloc 1)")
	fl.IntVar(&f.repeats, "repeats", 3, "repeats of the timed replays; 0 takes no times")
	fl.BoolVar(&f.safe, "safe", true, "search the safe region too, which takes some 200 replays more")
	fl.BoolVar(&f.leaks, "leaks", false, "an allocator outside that refuses with nothing live what it gave so before breaks its contract")
	fl.Float64Var(&f.failOver, "fail-over", 0, "exit with 1 where a region, safe or smallest, is more than so many times the peak")
	fl.StringVar(&f.baseline, "baseline", "", "exit with 1 where a region is larger than in `FILE`, which --json wrote, or anything of it is missing")
	fl.DurationVar(&f.offline, "offline-limit", 10*time.Second, "time limit of the offline packer for each trace")
	fl.StringSliceVar(&f.pools, "pool", nil, "pools of buffers to run the traces through as well, such as power-of-two,leading-bits:1.1")
	fl.StringVar(&f.plan, "plan", "", "add a region that follows the plan in `FILE`, which godwit pack wrote")
	fl.StringVar(&f.hints, "hints", "none", "what the strategies are told of lifetimes: none, true, or a seed (1, 2, …) for wrong ones")
	fl.StringVar(&f.perturbed, "perturbed", "", "replay perturbed traces, of the half to choose on or of that to report on: `choose` or report")
	fl.IntVar(&f.draws, "draws", 5, "with --perturbed: streams of each kind for each trace")
	patienceFlag(fl, &f.patience)
	fl.StringVar(&f.faults, "faults", "godwit-faults", "directory for the streams that show an allocator's faults")
	fl.StringSliceVar(&f.examples, "example", nil, "also replay the built-in trace `NAME` (godwit examples lists them)")
	fl.BoolVar(&f.series, "series", false, "with --json: also live bytes and holes over time")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	f.commandFlags.register(fl)
	fl.StringVar(&f.report, "report", "", "write a self-contained HTML report to `FILE`")
	return cmd
}

func knownStrategies() string {
	var names []string
	for _, s := range replay.Subjects() {
		names = append(names, s.Name())
	}
	return strings.Join(append(names, replay.OfflineName, replay.PyTorchName, replay.PyTorchExpandableName), ", ")
}

func runReplay(ctx context.Context, out, errOut io.Writer, files []string, f replayFlags, g *gate) (err error) {
	named, err := parseSubjects(ctx, f.strategies, f.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, named.close()) }()
	strategies := named.list
	if f.plan != "" {
		planned, err := openPlan(ctx, f.plan)
		if err != nil {
			return err
		}
		strategies = append(strategies, planned)
	}
	if f.repeats < 0 || f.offline < 0 {
		return errors.New("--repeats and --offline-limit cannot be negative")
	}
	o := replay.Options{Repeats: f.repeats, Safe: f.safe}
	if f.region != "min" {
		if o.Region, err = parseBytes(f.region); err != nil {
			return fmt.Errorf("--region: %w", err)
		}
		if o.Region == 0 || o.Region > 1<<63 {
			return fmt.Errorf("--region %s: want 1 byte to 2^63", f.region)
		}
	}
	if err := besideTraces(ctx, given{"--report", f.report}, files...); err != nil {
		return err
	}
	traces, streams, infos, err := f.readTraces(ctx, files, errOut)
	if err != nil {
		return err
	}
	if f.perturbed != "" {
		if traces, streams, err = perturbAll(traces, streams, f); err != nil {
			return err
		}
	}
	if err := hintStreams(streams, f.hints); err != nil {
		return err
	}
	pools, err := replayPools(ctx, traces, f.pools)
	if err != nil {
		return err
	}
	bar := newProgress(len(streams)*len(strategies), "replaying")
	o.Progress = func() { bar.add(1) }
	results, err := replay.Measure(ctx, streams, strategies, o)
	bar.finish()
	if err != nil {
		return err
	}
	views := make([]report.View, len(streams))
	for i, st := range streams {
		views[i] = report.View{Trace: traces[i], Stream: st, Results: results[i*len(strategies) : (i+1)*len(strategies) : (i+1)*len(strategies)]}
	}
	if f.perturbed == "" {
		if err := addRecorded(ctx, views); err != nil {
			return err
		}
	}
	if err := addReserved(ctx, views, strategies); err != nil {
		return err
	}
	if named.offline {
		if err := addOffline(ctx, views, f); err != nil {
			return err
		}
	}
	results = results[:0:0]
	for _, v := range views {
		results = append(results, v.Results...)
	}
	faulty := saveFaults(ctx, errOut, f.faults, results)
	if f.report != "" {
		if err := writeReport(ctx, f.report, views, strategies); err != nil {
			return err
		}
	}
	if !f.series {
		for i := range results {
			results[i].Series = nil
		}
	}
	judged, printed := error(nil), out
	if g != nil && f.json {
		printed = errOut // the verdicts, beside the JSON
	}
	if g != nil {
		judged = g.judge(printed, results)
	}
	switch {
	case f.json:
		err = writeJSON(out, replayOutput{Traces: infos, Results: results, Means: replay.Means(results), Pools: pools})
	case g == nil:
		if f.perturbed == "" { // else there are hundreds of streams: --json has them
			printReplay(out, results)
		}
		show(out, 1, 0, replay.Means(results))
		printPlans(out, results)
		printPools(out, pools)
	}
	if err != nil {
		return err
	}
	if err := cmp.Or(faulty, judged); err != nil {
		return err
	}
	return replayVerdict(results)
}

// openPlan is a region that follows the plan in the file.
func openPlan(ctx context.Context, file string) (replay.Subject, error) {
	f, err := input.Open(ctx, file, formats.MaxBytes)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	plan, err := pack.ReadPlan(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return replay.Follow(plan), nil
}

// printPlans says what plans were worth.
func printPlans(w io.Writer, results []replay.Result) {
	for _, r := range results {
		switch p := r.Plan; {
		case p == nil:
		case !p.Followed:
			_, _ = fmt.Fprintf(w, "\n%s: fit alone serves the recorded run in %s: the plan is passed over\n", r.Trace, figures.Size(r.Region)) // as show
		default:
			_, _ = fmt.Fprintf(w, "\n%s, of %d allocations: %d as planned, %d where something lay in the way, %d of another size, %d new, %d without the plan (found again %d times)\n",
				r.Trace, p.Planned+p.Taken+p.Resized+p.Added+p.Left, p.Planned, p.Taken, p.Resized, p.Added, p.Left, p.Found) // as show
		}
	}
}

// perturbAll makes of every trace the streams that --perturbed and --draws say.
func perturbAll(traces []*formats.Allocs, streams []*replay.Stream, f replayFlags) ([]*formats.Allocs, []*replay.Stream, error) {
	var made []*formats.Allocs
	var of []*replay.Stream
	for i, st := range streams {
		list, err := replay.Perturbed(st, f.perturbed, f.draws)
		if err != nil {
			return nil, nil, fmt.Errorf("--perturbed: %w", err)
		}
		for _, x := range list {
			t := x.Trace()
			t.Format = traces[i].Format
			made, of = append(made, t), append(of, x)
		}
	}
	return made, of, nil
}

// saveFaults saves what shows the faults of results; see reportFaults.
func saveFaults(ctx context.Context, errOut io.Writer, dir string, results []replay.Result) error {
	var faults []*replay.Fault
	for _, r := range results {
		faults = append(faults, r.Fault)
	}
	return reportFaults(ctx, errOut, dir, faults)
}

// hintStreams tells streams what --hints says.
func hintStreams(streams []*replay.Stream, hints string) error {
	seed := uint64(0)
	switch hints {
	case "none":
		return nil
	case "true":
	default:
		var err error
		if seed, err = strconv.ParseUint(hints, 10, 64); err != nil || seed == 0 {
			return fmt.Errorf("--hints %q: want none, true or a seed from 1 on", hints)
		}
	}
	for i, st := range streams {
		streams[i] = st.WithHints(seed)
	}
	return nil
}

// replayVerdict is the exit status: failures in a given region are a result
// that was not expected.
func replayVerdict(results []replay.Result) error {
	n := 0
	for _, r := range results {
		n += r.Failures
	}
	if n > 0 {
		return failed{fmt.Errorf("%d allocations did not fit their region", n)}
	}
	return nil
}

// readTraces reads all files, says what was odd, and makes streams of them.
func (f *replayFlags) readTraces(ctx context.Context, files []string, errOut io.Writer) (traces []*formats.Allocs, streams []*replay.Stream, infos []traceInfo, err error) {
	for i, file := range append(f.examples[:len(f.examples):len(f.examples)], files...) {
		var all []*formats.Allocs
		switch {
		case i < len(f.examples):
			file, all, err = exampleTrace(ctx, file)
		case file == "-":
			file = stdinName
			all, err = formats.ReadAllocs(ctx, bytes.NewReader(f.stdin), file)
		default:
			all, err = formats.OpenAllocs(ctx, file)
			err = orExample(err, file, examples.Trace)
		}
		if err != nil {
			return nil, nil, nil, err
		}
		for _, t := range all {
			st, err := replay.FromTrace(t, cmp.Or(f.align, defaultAlign(t)))
			if err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			st.Leaks = f.leaks
			traces, streams = append(traces, t), append(streams, st)
			infos = append(infos, info(file, t))
			sayOddities(errOut, file, t)
		}
		if len(all) == 0 {
			return nil, nil, nil, fmt.Errorf("%s: no device recorded anything", file)
		}
	}
	return traces, streams, infos, nil
}

// defaultAlign is 256, what GPUs ask for; MiniMalloc's units are not bytes.
func defaultAlign(t *formats.Allocs) uint64 {
	if t.Format == formats.FormatMiniMalloc {
		return 1
	}
	return 256
}

func info(file string, t *formats.Allocs) traceInfo {
	o := t.Oddities
	return traceInfo{file, t.Name, string(t.Format), len(t.Events), t.Chunks,
		o.UnknownFrees, o.MissingFrees, o.FailedAllocs, o.ZeroSized, t.LivedBefore, t.Held, o.First}
}

func sayOddities(w io.Writer, file string, t *formats.Allocs) {
	o := t.Oddities
	if o.Total() == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "godwit: %s: passed over %d frees of what is not live, %d missing frees, %d failed and %d empty allocations\n",
		file, o.UnknownFrees, o.MissingFrees, o.FailedAllocs, o.ZeroSized) // stderr: nothing to do about an error
	for _, l := range o.First[:min(len(o.First), 3)] {
		_, _ = fmt.Fprintf(w, "godwit: %s:%d: %s\n", file, l.Line, l.Text)
	}
}

func printReplay(w io.Writer, results []replay.Result) {
	region := func(r *replay.Result) string {
		switch {
		case r.Fault != nil:
			return string(r.Fault.Kind)
		case r.Region == 0:
			return "never fits"
		}
		return figures.Size(r.Region)
	}
	worst := func(r *replay.Result) string {
		if r.Times == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f, %s #%d", r.Worst.NS, r.Worst.Op, r.Worst.Index)
	}
	show(w, 2, 1, results, special[replay.Result]{"region", region}, special[replay.Result]{"worst ns", worst})
}
