package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/internal/figures"
	"godwit/study/compare"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// maxVariants is how many runs stand side by side, at most.
const maxVariants = 8

// compareFlags are the flags of godwit compare.
type compareFlags struct {
	scenarioFlags // --set, --policy, --driver and --graph may be several, as of sweep
	timesFlags
	clock      []string
	json, code bool
}

func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare SCENARIO [SCENARIO…]",
		Short: "Run scenarios, or one with several values, and set them side by side",
		Long: `Run scenarios, or one with several values, and set them side by side: what each moved, by
link and by kind of command, and the first command at which each parts from the first one.

Values are given as to godwit sweep: --set n=2,4 makes two runs of every scenario. There are two
to eight runs in all. With --clock measured,modelled each runs on this computer's devices and on the
machine, which shows where a prediction parts from what it predicts; godwit predict adds many of these up.

Exit code: 0 all runs as expected; 1 some was not, or, with --exit-code, they differ in their
commands or in what these needed; 2 bad usage or a faulty scenario; 128 and the signal's number
where it was interrupted.`,
		Example: `  godwit compare mine.yaml yours.yaml
  godwit compare --example training-step --policy lru,belady
  godwit compare --example train-graph --graph on,off --machine h200x4-nvlink
  godwit compare mine.yaml --set schedule=rows,tiles --set n=4,8
  godwit compare mine.yaml --clock measured,modelled --driver opencl --machine mine-machine.yaml --warm 1 --repeat 5`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.example == "" && len(args) == 0 {
				return fmt.Errorf("%s: which? want scenarios' files, or one and several values; see %s --help", cmd.Name(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), cmd.OutOrStdout(), args, &f)
		},
	}
	f.scenarioFlags.register(cmd)
	f.registerStamps(cmd)
	f.timesFlags.register(cmd)
	describeAxes(cmd)
	cmd.Flags().StringSliceVar(&f.clock, "clock", nil, "run each by these `CLOCKS`: measured, on this computer's devices (--driver), and modelled, on --machine")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&f.code, "exit-code", false, "exit with 1 where the runs differ")
	return cmd
}

// contestant is a run to be.
type contestant struct {
	name     string
	scenario *scenario.Scenario
	how      scenario.RunOptions
}

// contestants reads the scenarios, each at all points.
func (f *compareFlags) contestants(ctx context.Context, files []string) (out []contestant, err error) {
	if f.example != "" {
		files = append([]string{""}, files...)
	}
	clocks, bare := f.clock, f.scenarioFlags
	switch {
	case len(clocks) == 0:
		if err := f.checkMachineSet(); err != nil {
			return nil, err
		}
		clocks = []string{""}
	case f.machine == "":
		return nil, errors.New("--clock: modelled on what? want --machine, too")
	case f.stamps:
		return nil, errors.New("--clock and --stamps: what is measured keeps its bytes")
	default:
		bare.machine, bare.driver = "", ""
	}
	for i, file := range files {
		example := ""
		if i == 0 {
			example = f.example
		}
		c, err := bare.config(ctx, file, example)
		if err == nil {
			err = f.timesFlags.apply(&c.Base)
		}
		if err != nil {
			return nil, err
		}
		points, err := c.Points()
		if err != nil {
			return nil, err
		}
		if n := points.Len() * len(files) * len(clocks); n < 2 || n > maxVariants {
			return nil, fmt.Errorf("compare: %s: want 2 to %d: scenarios, or values of --set, --machine, --policy, --driver and --graph", plural(n, "run"), maxVariants)
		}
		for p := range points.All() {
			var name []string
			if len(files) > 1 {
				name = append(name, strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File)))
			}
			var varied []sweep.Setting
			for _, v := range p {
				if v.Axis.Len() > 1 {
					varied = append(varied, v)
				}
			}
			if points.Len() > 1 {
				name = append(name, sweep.Label(varied))
			}
			for _, clock := range clocks {
				s, how, err := f.at(ctx, c, p, clock)
				if err != nil {
					return nil, err
				}
				called := name
				if clock != "" {
					called = append(name[:len(name):len(name)], clock)
				}
				out = append(out, contestant{strings.Join(called, " "), s, how})
			}
		}
	}
	return out, nil
}

// at is the scenario at a point, by a clock: "" is as the point says.
func (f *compareFlags) at(ctx context.Context, c *sweep.Config, p []sweep.Setting, clock string) (*scenario.Scenario, scenario.RunOptions, error) {
	by := *c
	switch clock {
	case "":
	case "modelled":
		if by.Base.Times > 0 { // of what is measured the last time has a trace, too, and one is as the other
			by.Base.Times = by.Base.Warm + 1
		}
	case "measured":
		by.Base.Driver = f.driver
	default:
		return nil, scenario.RunOptions{}, fmt.Errorf("--clock %q: want measured or modelled", clock)
	}
	s, err := by.Scenario(ctx, p)
	if err != nil {
		return nil, scenario.RunOptions{}, err
	}
	how, err := c.Options(ctx, s, p)
	if clock == "modelled" {
		how.Machine, err = loadMachine(ctx, f.machine, sweep.MachineOptions(s, p))
	}
	return s, how, err
}

func runCompare(ctx context.Context, w io.Writer, files []string, f *compareFlags) error {
	all, err := f.contestants(ctx, files)
	if err != nil {
		return err
	}
	var variants []compare.Variant
	for _, c := range all {
		end, _, err := new(runFlags).shown(ctx, c.scenario, &c.how)
		if err != nil {
			return err
		}
		res, err := scenario.Run(ctx, c.scenario, c.how)
		end(res, err)
		var bad scenario.Errors
		if ctx.Err() != nil || errors.As(err, &bad) {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		variants = append(variants, compare.Of(c.name, res))
	}
	c, err := compare.Runs(variants...)
	if err != nil {
		return err
	}
	if f.json {
		if err := writeJSON(w, c); err != nil {
			return err
		}
	} else {
		printComparison(w, c)
	}
	switch {
	case !c.OK():
		var which []string
		for _, v := range c.Variants {
			if !v.Digest.OK {
				which = append(which, v.Name)
			}
		}
		return failed{fmt.Errorf("compare: not all runs were as expected: %s", strings.Join(which, ", "))}
	case f.code && c.Differ():
		return failed{errors.New("compare: the runs differ")}
	}
	return nil
}

func printComparison(w io.Writer, c *compare.Comparison) {
	t := newTable(2, comparedHeader("", c)...)
	for _, fig := range figures.Of[compare.Variant]() {
		if fig.Header == "" {
			continue
		}
		var values []any
		for i := range c.Variants {
			values = append(values, fig.Value(&c.Variants[i]))
		}
		if slices.ContainsFunc(values, func(v any) bool { n, _ := sweep.Number(v); return n > 0 }) {
			t.Row(comparedRow(fig.Header, fig.Format, values...)...)
		}
	}
	t.Print(w, screenWidth())
	for _, v := range c.Variants {
		if first, _, _ := strings.Cut(v.Digest.Error, "\n"); first != "" {
			fmt.Fprintf(w, "%s was not finished: %s\n", v.Name, first)
		}
	}
	comparedTable(w, "copied, by link", c, c.Links)
	comparedTable(w, "copied, by command", c, c.Kinds)
	for _, d := range c.Differences {
		printDifference(w, c.Variants[0].Name, &d)
	}
}

// comparedHeader is a column for each run; beside two, how many times the second has.
func comparedHeader(first string, c *compare.Comparison) []any {
	header := []any{first}
	for _, v := range c.Variants {
		header = append(header, v.Name)
	}
	if len(c.Variants) == 2 {
		header = append(header, "times")
	}
	return header
}

func comparedRow(name, format string, values ...any) []any {
	row := []any{name}
	for _, v := range values {
		row = append(row, figures.Text(format, v))
	}
	if len(values) == 2 {
		first, _ := sweep.Number(values[0])
		if second, _ := sweep.Number(values[1]); first > 0 {
			row = append(row, fmt.Sprintf("%.2f", second/first))
		}
	}
	return row
}

// shownLinks is how many rows a table of what was copied has, at most.
const shownLinks = 12

func comparedTable(w io.Writer, what string, c *compare.Comparison, rows []compare.Row) {
	t := newTable(2, comparedHeader(what, c)...)
	for i, r := range rows {
		if i == shownLinks {
			t.Row(fmt.Sprintf("and %d more", len(rows)-shownLinks))
			break
		}
		var bytes []any
		for _, n := range r.Bytes {
			bytes = append(bytes, n)
		}
		t.Row(comparedRow(r.Name, "bytes", bytes...)...)
	}
	t.Print(w, screenWidth())
}

// printDifference says where a run parts from the first.
func printDifference(w io.Writer, first string, d *compare.Difference) {
	if d.Commands == nil && d.Effects == nil {
		fmt.Fprintf(w, "%s and %s: the same commands, which needed the same\n", first, d.Variant)
	}
	show := func(what string, p *compare.Pair) {
		if p == nil {
			return
		}
		fmt.Fprintf(w, "%s and %s first differ in %s:\n", first, d.Variant, what)
		for _, s := range []struct {
			name string
			side *compare.Side
		}{{first, &p.First}, {d.Variant, &p.Other}} {
			if s.side.Number == 0 {
				fmt.Fprintf(w, "  %s: no more commands\n", s.name)
				continue
			}
			fmt.Fprintf(w, "  %s: #%d %s: %s\n", s.name, s.side.Number, s.side.Queue, s.side.Text)
			for i, e := range s.side.Effects {
				if i == shownLinks {
					fmt.Fprintf(w, "      and %d more\n", len(s.side.Effects)-shownLinks)
					break
				}
				fmt.Fprintf(w, "      %s\n", e)
			}
			if len(s.side.Effects) == 0 {
				fmt.Fprintf(w, "      needs no copy\n")
			}
		}
	}
	if d.Time != "" {
		fmt.Fprintln(w, d.Time)
	}
	show("what a command needed", d.Effects)
	show("their commands", d.Commands)
}
