package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"godwit/internal/outfile"
	"godwit/mem/trace"
	"godwit/study/live"
	"godwit/study/machine"
	"godwit/study/page"
	"godwit/study/scenario"
)

// runFlags are the flags of godwit run.
type runFlags struct {
	scenarioFlags
	json     bool
	timeline string
	html     string
	serve    serveFlag
	paused   bool
	all      bool
	stats    bool
	profile  bool
	twice    int
	summary  bool
	explain  []string
	dot      string
	record   string
	timesFlags
	seed uint64 // this and what follows is of runs in virtual time
	csv  string
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO | - | --example NAME",
		Short: "Run a scenario, show every copy and why, verify every byte",
		Long: `Run a scenario, show every copy and why, verify every byte.

A scenario is a YAML file that says which devices there are, which buffers, and
which commands run on them; docs/scenarios.md describes the language. The examples
are built in: --example NAME runs one, godwit examples lists them. - is standard input.
SCENARIO --help lists the parameters of a scenario, and --set gives them values.
The run shows for every command which copies were inserted and why, where every
buffer's bytes are at the end, and the bytes moved beside the lower bound. Every byte
read, and every buffer at the end, is compared with a plain run of the same commands
on one flat memory.

Exit code: 0 as expected, 1 an expectation failed, a byte differed or the run could
not be finished, 2 bad usage or a faulty scenario, 128 and the signal's number where it was interrupted.`,
		Example: `  godwit run --example overlap
  godwit run --example matmul-tiles --help             # its parameters
  godwit run --example matmul-tiles --set n=3 --set percent=50
  godwit run examples/pingpong.yaml
  godwit run examples/histogram.yaml --input text=README.md
  godwit run examples/overlap.yaml --driver opencl     # on real devices
  godwit run examples/svm.yaml --stats --profile
  godwit run examples/overlap.yaml --driver opencl --warm 2 --repeat 5   # how long that takes
  godwit run examples/halo.yaml --machine h200-nvlink  # in virtual time
  godwit run examples/halo.yaml --machine h200-nvlink --html halo.html   # a page of it, to click
  godwit run examples/halo.yaml --machine h200-nvlink --serve --paused   # the same while it runs, by steps
  godwit run examples/halo.yaml --timeline halo.json   # open in ui.perfetto.dev
  godwit run examples/halo.yaml --summary              # totals: by command, link and buffer
  godwit run examples/overlap.yaml --explain 'low[0:1KiB]'   # what became of these bytes
  godwit run examples/overlap.yaml --dot - | dot -Tsvg -o overlap.svg`,
		Args: f.oneScenario,
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runScenario(cmd.Context(), cmd.OutOrStdout(), file, f)
		},
	}
	f.scenarioFlags.register(cmd)
	f.registerStamps(cmd)
	f.timesFlags.register(cmd)
	cmd.Flags().StringVar(&f.csv, "csv", "", "with --machine, or on real devices: write what ran, a line for each command and copy, to `FILE`; - is standard output")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "with --machine: draw the order of what happens at one instant by `N`; 0 leaves it as it comes")
	helpOfScenario(cmd, &f.scenarioFlags)
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&f.html, "html", "", "write the run as one page for a browser to `FILE`: lanes, memories, links, who holds what; - is standard output")
	f.serve.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.paused, "paused", false, "with --serve and --machine: wait until a viewer of the page lets it go on")
	cmd.Flags().StringVar(&f.timeline, "timeline", "", "write the run as Perfetto-readable JSON to `FILE`; - is standard output")
	cmd.Flags().StringVar(&f.dot, "dot", "", "write commands and copies, and which bytes go from one to the other, as a graph for GraphViz to `FILE`; - is standard output")
	cmd.Flags().StringVar(&f.record, "record", "", "write what each command accesses to `FILE`, for godwit replay: other policies, other capacities")
	cmd.Flags().BoolVar(&f.summary, "summary", false, "show totals by command, link and buffer, not every command; with --json these alone")
	cmd.Flags().StringArrayVar(&f.explain, "explain", nil, "show the journey of these `BYTES`, as in a, a[0:4KiB] or 'a[0,4096)', not every command")
	cmd.Flags().BoolVar(&f.stats, "stats", false, "show what each memory's resources have given and taken back")
	cmd.Flags().IntVar(&f.twice, "twice", 0, "with --machine: run again for each of the `N` links, switches and memories that were full longest, with that one twice as fast, and say what the run took")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "show when every command was submitted, started and ended")
	cmd.Flags().BoolVar(&f.all, "all", false, "show every round of a repeat")
	return cmd
}

// timesFlags say how often a scenario's commands run, to see how long they take.
type timesFlags struct{ warm, repeat int }

func (f *timesFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.warm, "warm", 0, "run the commands `N` times before those that count, over the same buffers and queues")
	cmd.Flags().IntVar(&f.repeat, "repeat", 0, "run the commands `M` times, without taking other times, and say how long: median, least, most")
}

func (f *timesFlags) apply(opt *scenario.Options) error {
	switch {
	case f.warm < 0 || f.repeat < 0:
		return fmt.Errorf("--warm %d --repeat %d: want no negative numbers", f.warm, f.repeat)
	case f.warm > 0 && f.repeat == 0:
		return errors.New("--warm: it is for --repeat: say how often, too")
	case f.repeat > 0:
		opt.Times, opt.Warm = f.warm+f.repeat, f.warm
	}
	return nil
}

func runScenario(ctx context.Context, out io.Writer, file string, f runFlags) (err error) {
	var writes []given
	for _, o := range f.targets() {
		writes = append(writes, o.given)
	}
	if err := apart(writes, f.reads(file)...); err != nil {
		return err
	}
	if err := f.oneOnStdout(); err != nil {
		return err
	}
	if f.paused && (!f.serve.wanted() || f.machine == "") {
		return errors.New("--paused: it is the page that lets a run on a machine go on: want --serve and --machine, too")
	}
	opt, err := f.options(true)
	if err == nil {
		err = f.timesFlags.apply(&opt)
	}
	if err != nil {
		return err
	}
	s, file, err := loadScenario(ctx, file, f.example, opt)
	if err != nil {
		if f.json {
			return errors.Join(f.writeJSON(out, scenario.Failed(file, endOf(ctx, err))), err)
		}
		return err
	}
	if f.twice < 0 {
		return fmt.Errorf("--twice %d: want a number of links, 0 or more", f.twice)
	}
	if f.twice > 0 && f.machine == "" {
		return errors.New("--twice: links have a speed on a --machine only")
	}
	if f.twice > 0 && f.summary {
		return errors.New("--twice: a --summary shows no links")
	}
	run := scenario.RunOptions{Profile: f.profile, Stats: f.stats, Timeline: f.timeline != "" || f.html != "" || f.serve.wanted()}
	if err := f.apply(ctx, s, &run); err != nil {
		return err
	}
	for _, text := range f.explain {
		p, err := s.Place(text)
		if err != nil {
			return fmt.Errorf("--explain: %w", err)
		}
		run.Explain = append(run.Explain, p)
	}
	targets := f.targets()
	toOut := false
	for _, o := range targets {
		toOut = toOut || o.path == stdout
		if err := o.open(ctx, out); err != nil { // before the run: a file that cannot be is bad usage
			return err
		}
		defer func() { err = errors.Join(err, o.abort()) }()
		if o.write == nil {
			run.Record = o.record()
		}
	}
	end, closePage, err := f.shown(ctx, s, &run)
	if err != nil {
		return err
	}
	defer closePage()
	res, err := scenario.Run(ctx, s, run)
	end(res, err)
	if err == nil && f.twice > 0 {
		err = scenario.WhatIf(ctx, s, run, res, f.twice)
	}
	finished := err == nil
	for _, o := range targets {
		if ctx.Err() == nil && (o.whole && finished || !o.whole && len(res.Commands) > 0) { // else the file stays as it was
			err = errors.Join(err, o.commit(res))
		}
	}
	if toOut { // which has something else
		return runError(res, err)
	}
	if f.json {
		err = errors.Join(err, f.writeJSON(out, res))
	} else if err == nil || len(res.Commands) > 0 || res.Interrupted != nil { // else there is nothing but the error to show
		opt := printOptions(f.all)
		opt.Summary = f.summary
		opt.NoReason = true // main shows it
		res.Print(out, opt)
	}
	return runError(res, err)
}

// writeJSON writes a result, or its totals where these are wanted.
func (f *runFlags) writeJSON(out io.Writer, res *scenario.Result) error {
	if f.summary {
		return writeJSON(out, res.Digest())
	}
	return writeJSON(out, res)
}

// loadScenario reads a scenario's file, standard input or an example, and says what
// its errors call it.
func loadScenario(ctx context.Context, file, example string, opt scenario.Options) (*scenario.Scenario, string, error) {
	t, err := readScenario(ctx, file, example)
	if err != nil {
		return nil, file, err
	}
	s, err := t.parse(ctx, opt)
	return s, t.file, err
}

// apply has a run be on the machine that the flags name, if any.
func (f *runFlags) apply(ctx context.Context, s *scenario.Scenario, opt *scenario.RunOptions) (err error) {
	switch {
	case f.machine == "" && f.csv != "" && !s.Measured():
		return errors.New("--csv: it lists what ran on a machine or on real devices: want --machine, --driver opencl or --repeat, too")
	case f.machine == "" && f.seed != 0:
		return errors.New("--seed: it draws the order of what happens at one instant of virtual time: want --machine, too")
	case f.machine == "":
		return errors.Join(f.checkStamps(), f.checkMachineSet())
	case f.driver != "":
		return fmt.Errorf("--machine %s and --driver %s: a run is on a machine or on a driver's devices", f.machine, f.driver)
	}
	opt.Seed, opt.Stamps = f.seed, f.stamps
	set, err := setOfMachine(f.set)
	if err == nil {
		opt.Machine, err = loadMachine(ctx, f.machine, machine.Options{Devices: len(s.Devices), Set: set})
	}
	return err
}

// stdout is the name of standard output as a file.
const stdout = "-"

// target is a file that shows a run, or a record of it as it goes.
type target struct {
	given
	whole bool                                    // written only of a run that was finished
	write func(*scenario.Result, io.Writer) error // at the end

	w    io.Writer
	file *outfile.File // nil where it is standard output
}

// targets are the files that are wanted.
func (f *runFlags) targets() []*target {
	all := []*target{
		{given: given{"--html", f.html}, write: (*scenario.Result).WritePage},
		{given: given{"--timeline", f.timeline}, write: (*scenario.Result).WriteTimeline},
		{given: given{"--dot", f.dot}, write: (*scenario.Result).WriteDOT},
		{given: given{"--csv", f.csv}, write: (*scenario.Result).WriteCSV},
		{given: given{"--record", f.record}, whole: true},
	}
	return slices.DeleteFunc(all, func(o *target) bool { return o.path == "" })
}

// open makes the file, or takes standard output, which is out.
func (o *target) open(ctx context.Context, out io.Writer) (err error) {
	if o.w = out; o.path == stdout {
		return nil
	}
	if o.file, err = outfile.Create(ctx, o.path); err != nil {
		return fmt.Errorf("%s: %w", o.as, err)
	}
	o.w = o.file
	return nil
}

// record has the file be a trace of commands, which are written as they come.
func (o *target) record() *trace.CommandWriter {
	buffer := bufio.NewWriter(o.w)
	writer := trace.NewCommandWriter(buffer, "")
	o.write = func(*scenario.Result, io.Writer) error { return errors.Join(writer.Err(), buffer.Flush()) }
	return writer
}

// commit writes what is written at the end.
func (o *target) commit(res *scenario.Result) error {
	err := o.write(res, o.w)
	if err == nil && o.file != nil {
		err = o.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.as, err)
	}
	return nil
}

func (o *target) abort() error {
	if o.file == nil {
		return nil
	}
	return o.file.Abort()
}

// oneOnStdout refuses that standard output be two things.
func (f *runFlags) oneOnStdout() error {
	var on []string
	for _, o := range f.targets() {
		if o.path == stdout {
			on = append(on, o.as+" -")
		}
	}
	if len(on) > 0 {
		for _, other := range []struct {
			flag  string
			given bool
		}{{"--json", f.json}, {"--summary", f.summary}, {"--explain", len(f.explain) > 0}} {
			if other.given {
				on = append(on, other.flag)
			}
		}
	}
	if len(on) > 1 {
		return fmt.Errorf("%s and %s: both are to be standard output", on[0], on[1])
	}
	return nil
}

// shown has a run show how far it is, by a bar and by a page where one is wanted, until end is called with what came of it; viewers may
// stay until closePage is.
func (f *runFlags) shown(ctx context.Context, s *scenario.Scenario, opt *scenario.RunOptions) (end func(*scenario.Result, error), closePage func(), err error) {
	bar := newProgress(len(s.Commands), "starting")
	opt.Progress = func(now string, done, total int) {
		bar.describe(now)
		bar.set(int64(done), int64(total))
	}
	contexts := live.Of()
	o := live.Options{Title: s.Name, State: bar.state, Pictures: contexts}
	if f.serve.wanted() {
		opt.Watch = func(clock string, memories []string, capacity []uint64) trace.CommandSink {
			return contexts.Add(page.NewWindow(s.Name, clock, memories, capacity))
		}
		if opt.Machine != nil {
			o.Pace = live.NewPace(f.paused)
			opt.Step = func(now int64) { o.Pace.Wait(ctx, now) }
		}
	}
	served, err := f.serve.serve(ctx, o)
	if err != nil {
		bar.finish()
		return nil, nil, err
	}
	return func(res *scenario.Result, err error) {
		var last []*page.Run
		if f.serve.wanted() {
			if whole, perr := res.Picture(); perr == nil { // else it stays as it was
				last = append(last, whole)
			}
		}
		served.end(err, last...)
		bar.finish()
	}, served.close, nil
}

// runError turns what came of a run into an error with the right exit code:
// faults of the scenario are bad input, everything else is a failed run.
func runError(res *scenario.Result, err error) error {
	var bad scenario.Errors
	switch {
	case errors.As(err, &bad):
		return err
	case err != nil:
		return failed{err}
	case !res.OK():
		return failed{fmt.Errorf("%s: not as expected", res.File)}
	}
	return nil
}

// printOptions fit the report to standard output.
func printOptions(all bool) scenario.PrintOptions {
	return scenario.PrintOptions{All: all, Width: screenWidth(), Color: os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(os.Stdout.Fd()))}
}
