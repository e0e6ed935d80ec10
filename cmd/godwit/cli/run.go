package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"godwit/devices/model/machine"
	"godwit/examples"
	"godwit/outfile"
	"godwit/scenario"
)

// runFlags are the flags of godwit run.
type runFlags struct {
	inputs   []string
	json     bool
	timeline string
	all      bool
	driver   string
	stats    bool
	profile  bool
	memory   string
	example  string
	policy   string
	let      []string
	machine  string
	seed     uint64
	csv      string
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO | --example NAME",
		Short: "Run a scenario, show every copy and why, verify every byte",
		Long: `Run a scenario, show every copy and why, verify every byte.

A scenario is a YAML file that says which devices there are, which buffers, and
which commands run on them; docs/scenarios.md describes the language. The examples
are built in: --example NAME runs one, godwit examples lists them. The run shows for every command which copies were
inserted and why, where every buffer's bytes are at the end, and the bytes moved
beside the lower bound. Every byte read, and every buffer at the end, is compared
with a plain run of the same commands on one flat memory.

Exit code: 0 as expected, 1 an expectation failed, a byte differed or the run could
not be finished, 2 bad usage or a faulty scenario, 128 and the signal's number where it was interrupted.`,
		Example: `  godwit run --example overlap
  godwit run examples/pingpong.yaml
  godwit run examples/histogram.yaml --input text=README.md
  godwit run examples/overlap.yaml --driver opencl     # on real devices
  godwit run examples/svm.yaml --stats --profile
  godwit run examples/halo.yaml --machine h200-nvlink  # in virtual time
  godwit run examples/halo.yaml --timeline halo.json   # open in ui.perfetto.dev`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.example == "" {
				return atLeastOne("a scenario", 1)(cmd, args)
			}
			if len(args) > 0 {
				return fmt.Errorf("run: a scenario's file, %q, or --example %s, not both", args[0], f.example)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runScenario(cmd.Context(), cmd.OutOrStdout(), file, f)
		},
	}
	cmd.Flags().StringVar(&f.example, "example", "", "run the built-in example `NAME` (godwit examples lists them)")
	cmd.Flags().StringArrayVar(&f.inputs, "input", nil, "`NAME=FILE`: the file for an input the scenario declares")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&f.timeline, "timeline", "", "write the run as Perfetto-readable JSON to `FILE`")
	cmd.Flags().StringVar(&f.driver, "driver", "", "open all devices with driver `NAME` instead: cpu, tce, null, opencl")
	cmd.Flags().StringVar(&f.policy, "policy", "", "which blocks go first where a memory is short, by `NAME`: cost, lru, belady, none")
	cmd.Flags().StringArrayVar(&f.let, "let", nil, "`NAME=NUMBER` in place of the number that the scenario gives this name")
	cmd.Flags().StringVar(&f.machine, "machine", "", "run in virtual time on `MACHINE`: a built-in one (godwit machines lists them) or a file")
	cmd.Flags().StringVar(&f.csv, "csv", "", "with --machine: write what ran, a line for each command and copy, to `FILE`")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "with --machine: draw the order of what happens at one instant by `N`; 0 leaves it as it comes")
	cmd.Flags().BoolVar(&f.stats, "stats", false, "show what each memory's resources have given and taken back")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "show when every command was submitted, started and ended")
	cmd.Flags().StringVar(&f.memory, "memory", "4GiB", "`BYTES` that the scenario may name in all: buffers, content, what it reads")
	cmd.Flags().BoolVar(&f.all, "all", false, "show every round of a repeat")
	return cmd
}

func runScenario(ctx context.Context, out io.Writer, file string, f runFlags) (err error) {
	opt := scenario.Options{Inputs: make(map[string]string), Let: make(map[string]string), Driver: f.driver, Policy: f.policy}
	if opt.Memory, err = parseBytes(f.memory); err != nil || opt.Memory == 0 {
		return fmt.Errorf("--memory %q: want a number of bytes such as 4GiB", f.memory)
	}
	for _, in := range f.inputs {
		name, path, ok := strings.Cut(in, "=")
		if !ok || name == "" || path == "" {
			return fmt.Errorf("--input %q: want NAME=FILE", in)
		}
		opt.Inputs[name] = path
	}
	for _, let := range f.let {
		name, number, ok := strings.Cut(let, "=")
		if !ok || name == "" || number == "" {
			return fmt.Errorf("--let %q: want NAME=NUMBER", let)
		}
		opt.Let[name] = number
	}
	s, err := loadScenario(ctx, &file, f.example, opt)
	if err != nil {
		if f.json {
			return errors.Join(writeJSON(out, scenario.Failed(file, err)), err)
		}
		return err
	}
	ropt := scenario.RunOptions{Profile: f.profile, Stats: f.stats, Seed: f.seed}
	if err := onMachine(ctx, s, f, &ropt); err != nil {
		return err
	}
	var timeline *outfile.File // made before the run: a file that cannot be is bad usage
	if f.timeline != "" {
		if timeline, err = outfile.Create(ctx, f.timeline); err != nil {
			return fmt.Errorf("--timeline: %w", err)
		}
		defer func() { err = errors.Join(err, timeline.Abort()) }()
	}
	res, err := runShowingProgress(ctx, s, ropt)
	if f.csv != "" && res.Model != nil && len(res.Commands) > 0 && ctx.Err() == nil {
		err = errors.Join(err, writeSpans(ctx, res, f.csv))
	}
	if timeline != nil && len(res.Commands) > 0 && ctx.Err() == nil { // else the file stays as it was
		err = errors.Join(err, writeTimeline(res, timeline))
	}
	if f.json {
		err = errors.Join(err, writeJSON(out, res))
	} else if err == nil || len(res.Commands) > 0 { // else there is nothing but the error to show
		opt := printOptions(f.all)
		opt.NoReason = true // main shows it
		res.Print(out, opt)
	}
	return runError(res, err)
}

// onMachine adds the machine that a run is to be on.
func onMachine(ctx context.Context, s *scenario.Scenario, f runFlags, opt *scenario.RunOptions) (err error) {
	switch {
	case f.machine == "" && f.csv != "":
		return errors.New("--csv: it lists what ran in virtual time: want --machine, too")
	case f.machine == "" && f.seed != 0:
		return errors.New("--seed: it draws the order of what happens at one instant of virtual time: want --machine, too")
	case f.machine == "":
		return nil
	case f.driver != "":
		return fmt.Errorf("--machine %s and --driver %s: a run is on a machine or on a driver's devices", f.machine, f.driver)
	}
	opt.Machine, err = loadMachine(ctx, f.machine, machine.Options{Devices: len(s.Devices)})
	return err
}

// writeSpans writes what ran on a machine as CSV.
func writeSpans(ctx context.Context, res *scenario.Result, path string) error {
	var out bytes.Buffer
	if err := res.WriteCSV(&out); err != nil {
		return err
	}
	if err := outfile.Write(ctx, path, out.Bytes()); err != nil {
		return fmt.Errorf("--csv: %w", err)
	}
	return nil
}

// loadScenario reads a scenario's file, or an example, whose name it writes to file.
func loadScenario(ctx context.Context, file *string, example string, opt scenario.Options) (*scenario.Scenario, error) {
	if example == "" {
		return scenario.Load(ctx, *file, opt)
	}
	name, content, err := findExample(example, examples.Scenario)
	if err != nil {
		return nil, err
	}
	*file, opt.Files = name, map[string][]byte{name: content}
	return scenario.Parse(ctx, name, content, opt)
}

func writeTimeline(res *scenario.Result, f *outfile.File) error {
	err := res.WriteTimeline(f)
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		return fmt.Errorf("--timeline: %w", err)
	}
	return nil
}

// runShowingProgress runs s under a bar that is redrawn while one command takes
// long.
func runShowingProgress(ctx context.Context, s *scenario.Scenario, opt scenario.RunOptions) (*scenario.Result, error) {
	bar := newProgress(len(s.Commands), "starting")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.RenderBlank() // a bar that cannot be drawn is no reason to stop
			case <-stop:
				return
			}
		}
	}()
	stage := ""
	opt.Progress = func(now string, done, total int) {
		if now != stage {
			stage = now
			bar.Describe(now)
			bar.ChangeMax(total)
		}
		_ = bar.Set(min(done, total-1)) // a full bar draws itself no more
	}
	res, err := scenario.Run(ctx, s, opt)
	close(stop)
	<-stopped
	_ = bar.Finish()
	return res, err
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

// pipedWidth is how many columns a report takes where it goes to no terminal, and
// COLUMNS says nothing.
const pipedWidth = 160

// printOptions fit the report to standard output.
func printOptions(all bool) scenario.PrintOptions {
	opt := scenario.PrintOptions{All: all, Width: pipedWidth, Color: os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(os.Stdout.Fd()))}
	if width := screenWidth(); width > 0 {
		opt.Width = width
	}
	return opt
}
