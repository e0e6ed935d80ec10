package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit/internal/figures"
	"godwit/internal/input"
	"godwit/internal/yaml"
	"godwit/study/machine"
	"godwit/study/predict"
	"godwit/study/sweep"
)

// predictFlags are the flags of godwit predict.
type predictFlags struct {
	scenarioFlags // --set may be several, as of sweep
	timesFlags
	list, slope    string
	measured       string // a file of earlier predictions
	json, markdown bool
}

func newPredict() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict SCENARIO… | --list FILE --machine MACHINE",
		Short: "Hold a machine's modelled times against times measured here",
		Long: `Hold a machine's modelled times against times measured here.

Each scenario runs on this computer's devices and, in virtual time, on the machine: its makespan
both ways, the error beside the spread of what was measured, where the time went, and the first
place where both part: another plan, or else another time. Beside it stands what bytes over
bandwidth alone would say.

With --slope NAME=FROM,TO times are those of one more of a parameter: the difference of two
runs, so that what happens once does not count. --set takes several values, as godwit sweep does.
A list has a scenario and values of its parameters a line, as in "relay.yaml bytes=12KiB,20KiB";
files are relative to it, and # begins a comment. Several cases are added up by the kind that their
scenarios name. Cases that differ only in a parameter named variant are pairs, of which the faster one
is to be named.

With --measured FILE nothing is measured: what an earlier predict --json found here, or elsewhere, is held
against this machine. So machines are compared by one measurement.

What is read is not verified: that is for run. A line for each case comes on standard error when it is done;
interrupted, the cases that it has are shown.

Exit code: 0 all ran, 1 some could not be finished, 2 bad usage or a faulty scenario, 128 and the
signal's number where it was interrupted.`,
		Example: `  godwit predict examples/overlap.yaml --driver opencl --machine mine.yaml --warm 2 --repeat 5
  godwit predict --list testdata/truth/list --driver opencl --machine mine.yaml --slope rounds=4,12
  godwit predict --list testdata/truth/list --driver opencl --machine mine.yaml --slope rounds=4,12 --markdown > docs/truth.md`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.example == "" && f.list == "" && len(args) == 0:
				return fmt.Errorf("predict: which? want scenarios' files or --list; see %s --help", cmd.CommandPath())
			case f.machine == "":
				return errors.New("predict: on which machine? want --machine: a built-in one (godwit machines lists them) or a file")
			case f.json && f.markdown:
				return errors.New("--json and --markdown: both are to be standard output")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPredict(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, &f)
		},
	}
	f.scenarioFlags.register(cmd)
	f.timesFlags.register(cmd)
	flags := cmd.Flags()
	flags.Lookup("set").Usage = "`NAME=VALUES` of a parameter the scenario declares, or of the machine, machine.NAME=VALUES; several make the product"
	flags.Lookup("machine").Usage = "the `MACHINE` that predicts: a built-in one (godwit machines lists them) or a file"
	flags.Lookup("warm").DefValue, f.warm = "1", 1
	flags.Lookup("repeat").DefValue, f.repeat = "5", 5
	flags.StringVar(&f.list, "list", "", "take the cases of `FILE`, a scenario and values of its parameters a line")
	flags.StringVar(&f.slope, "slope", "", "`NAME=FROM,TO`: times are those of one more of this parameter")
	flags.StringVar(&f.measured, "measured", "", "measure nothing: take what an earlier predict --json has measured of `FILE`")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.markdown, "markdown", false, "print a page of Markdown")
	return cmd
}

// predictOutput is what godwit predict prints with --json.
type predictOutput struct {
	Machine string            `json:"machine"`
	Driver  string            `json:"driver"` // "" where scenarios name theirs
	Warm    int               `json:"warm"`   // times before those that count
	Repeat  int               `json:"repeat"`
	Slope   string            `json:"slope,omitempty"`
	Cases   []predict.Case    `json:"cases"`
	Stopped string            `json:"stopped,omitempty"` // why there are fewer cases than were listed
	Listed  int               `json:"listed"`
	Summary []predict.Summary `json:"summary"`
	Pairs   predict.Pairs     `json:"pairs"`
}

// listed are the scenarios of a list, each with its axes.
func (f *predictFlags) listed(ctx context.Context, files []string) (out []*sweep.Config, err error) {
	bare := f.scenarioFlags
	bare.driver, bare.machine = "", ""
	if f.example != "" {
		c, err := bare.config(ctx, "", f.example)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	for _, file := range files {
		c, err := bare.config(ctx, file, "")
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if f.list == "" {
		return out, nil
	}
	data, err := input.ReadAny(ctx, f.list, yaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		of := bare
		of.set = append(words[1:], f.set...)
		file := words[0]
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(f.list), file)
		}
		c, err := of.config(ctx, file, "")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", f.list, n, err)
		}
		out = append(out, c)
	}
	return out, lines.Err()
}

func runPredict(ctx context.Context, w, told io.Writer, files []string, f *predictFlags) (err error) {
	start := time.Now()
	c := predict.Config{Driver: f.driver, Warm: f.warm, Repeat: f.repeat}
	defer func() { err = errors.Join(err, c.Close()) }()
	if f.warm < 0 || f.repeat < 1 {
		return fmt.Errorf("--warm %d --repeat %d: want at least 0 and 1", f.warm, f.repeat)
	}
	c.Machine = func(ctx context.Context, opt machine.Options) (*machine.Machine, error) {
		return loadMachine(ctx, f.machine, opt)
	}
	if f.slope != "" {
		if c.Slope, err = predict.ParseSlope(f.slope); err != nil {
			return fmt.Errorf("--slope %w", err)
		}
	}
	configs, err := f.listed(ctx, files)
	if err != nil {
		return err
	}
	type todo struct {
		of *sweep.Config
		at []sweep.Setting
	}
	var all []todo
	for _, of := range configs {
		points, err := of.Points()
		if err != nil {
			return err
		}
		for p := range points.All() {
			if err := c.Check(ctx, of, p); err != nil {
				return endOf(ctx, err)
			}
			all = append(all, todo{of, p})
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: it lists no case; want a scenario a line", f.list)
	}
	out := predictOutput{Machine: f.machine, Driver: f.driver, Warm: f.warm, Repeat: f.repeat, Slope: f.slope, Listed: len(all), Cases: []predict.Case{}}
	if err := f.earlier(ctx, &c, &out); err != nil {
		return err
	}
	var stopped error // what there is by then is shown
	for i, t := range all {
		k, err := c.Run(ctx, t.of, t.at)
		if err != nil {
			stopped = failed{endOf(ctx, err)}
			break
		}
		out.Cases = append(out.Cases, k)
		_, _ = fmt.Fprintf(told, "godwit: %3.0f s, %d of %d: %s\n", time.Since(start).Seconds(), i+1, len(all), oneCase(&k))
	}
	if stopped != nil {
		if len(out.Cases) == 0 {
			return stopped
		}
		out.Stopped = stopped.Error()
	}
	out.Summary, out.Pairs = predict.Summarize(out.Cases), predict.CountPairs(out.Cases)
	switch {
	case f.json:
		err = writeJSON(w, out)
	case f.markdown:
		out.markdown(w)
	default:
		out.print(w)
	}
	if err == nil {
		err = stopped
	}
	if n := out.Summary[0].Failed; n > 0 && err == nil {
		err = failed{fmt.Errorf("predict: %s of %d could not be measured and modelled", plural(n, "case"), len(all))}
	}
	return err
}

// earlier takes what was measured before, and how, from a file.
func (f *predictFlags) earlier(ctx context.Context, c *predict.Config, out *predictOutput) error {
	if f.measured == "" {
		return nil
	}
	data, err := input.ReadAny(ctx, f.measured, mostMeasured)
	if err != nil {
		return err
	}
	var was predictOutput
	if err := json.Unmarshal(data, &was); err != nil {
		return fmt.Errorf("--measured %s: want what predict --json printed: %w", f.measured, err)
	}
	if was.Warm < 0 || was.Repeat < 1 {
		return fmt.Errorf("--measured %s: want what predict --json printed: its warm is %d, its repeat %d", f.measured, was.Warm, was.Repeat)
	}
	if was.Slope != f.slope {
		return fmt.Errorf("--measured %s: its times are of --slope %q, these are to be of %q", f.measured, was.Slope, f.slope)
	}
	c.Earlier, c.Warm, c.Repeat = append([]predict.Case{}, was.Cases...), was.Warm, was.Repeat
	out.Driver, out.Warm, out.Repeat = was.Driver, was.Warm, was.Repeat
	return nil
}

// mostMeasured is the most that a file of earlier predictions may have, in bytes.
const mostMeasured = 256 << 20

// oneCase is a case in a line.
func oneCase(k *predict.Case) string {
	what := strings.TrimSpace(k.Scenario + " " + k.Settings)
	if k.Failed != "" {
		return what + ": " + k.Failed
	}
	return fmt.Sprintf("%s: measured %s (spread %s), modelled %s, %s", what, figures.Text("span", k.Measured), share(k.Spread), figures.Text("span", k.Modelled), percent(k.Error))
}

func percent(ratio float64) string { return fmt.Sprintf("%+.1f %%", 100*ratio) }

func share(ratio float64) string { return fmt.Sprintf("%.1f %%", 100*ratio) }

// caseColumns are the columns of cases beside their times.
var caseColumns = []special[predict.Case]{
	{"spread", func(k *predict.Case) string { return unlessFailed(k, share(k.Spread)) }},
	{"error", func(k *predict.Case) string { return unlessFailed(k, percent(k.Error)) }},
	{"of bytes over bandwidth", func(k *predict.Case) string { return unlessFailed(k, percent(k.BandwidthError)) }},
}

func unlessFailed(k *predict.Case, text string) string {
	if k.Failed != "" {
		return "-"
	}
	return text
}

var summaryColumns = []special[predict.Summary]{
	{"median error", func(s *predict.Summary) string { return share(s.Median) }},
	{"90 %", func(s *predict.Summary) string { return share(s.P90) }},
	{"worst", func(s *predict.Summary) string { return share(s.Worst) }},
	{"median spread", func(s *predict.Summary) string { return share(s.Spread) }},
	{"bytes over bandwidth", func(s *predict.Summary) string { return share(s.Bandwidth) }},
}

// explained is how many cases are told of in words.
const explained = 10

func (o *predictOutput) print(w io.Writer) {
	if o.Stopped != "" {
		fmt.Fprintf(w, "%d of %d cases: %s\n", len(o.Cases), o.Listed, o.Stopped)
	}
	show(w, 3, 0, o.Cases, caseColumns...)
	for _, k := range predict.Worst(o.Cases, explained) {
		fmt.Fprintf(w, "%s %s: %s; %s\n", k.Scenario, k.Settings, percent(k.Error), k.Why())
	}
	for _, k := range o.Cases {
		if k.Failed != "" {
			fmt.Fprintf(w, "%s %s: %s\n", k.Scenario, k.Settings, k.Failed)
		}
	}
	if len(o.Cases) > 1 {
		show(w, 1, 0, o.Summary, summaryColumns...)
		fmt.Fprintln(w, o.pairsText())
	}
}

func (o *predictOutput) pairsText() string {
	if o.Pairs.Differ == 0 {
		return "no pair of variants differs by a tenth"
	}
	return fmt.Sprintf("%s of variants by a tenth or more: of %d the faster one is named, %s", plural(o.Pairs.Differ, "pair"), o.Pairs.Right, share(float64(o.Pairs.Right)/float64(o.Pairs.Differ)))
}

// markdown is the page docs/truth.md.
func (o *predictOutput) markdown(w io.Writer) {
	row := func(cells ...string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	span := func(ns int64) string { return figures.Text("span", ns) }
	per := "makespans"
	if o.Slope != "" {
		name, _, _ := strings.Cut(o.Slope, "=")
		per = "those of one more of " + name + ", as the slope of " + o.Slope
	}
	if o.Stopped != "" {
		per += fmt.Sprintf(". It stopped after %d of %d cases (%s): these", len(o.Cases), o.Listed, o.Stopped)
	}
	fmt.Fprintf(w, `# Modelled time against measured time

Made by `+"`godwit predict --markdown`"+`, machine `+"`%s`"+`, of %d cases. Times are %s; %d times before do not count, and of
%d that count the median is shown, with the spread from the least to the most. An error is the modelled time over the
measured one, less 1; summaries take its size. Bytes over bandwidth is a model that knows nothing but how many bytes
the busiest link or memory carries.

`, filepath.Base(o.Machine), len(o.Cases), per, o.Warm, o.Repeat)
	row("cases", "number", "failed", "median error", "90 %", "worst", "median spread", "bytes over bandwidth: median error")
	row("---", "---", "---", "---", "---", "---", "---", "---")
	for _, s := range o.Summary {
		row(s.Of, fmt.Sprint(s.Cases), fmt.Sprint(s.Failed), share(s.Median), share(s.P90), share(s.Worst), share(s.Spread), share(s.Bandwidth))
	}
	fmt.Fprintf(w, "\n%s.\n\n## The worst\n\n", o.pairsText())
	row("scenario", "with", "error", "why")
	row("---", "---", "---", "---")
	for _, k := range predict.Worst(o.Cases, explained) {
		row(k.Scenario, k.Settings, percent(k.Error), k.Why())
	}
	fmt.Fprint(w, "\n## All\n\n")
	row("kind", "scenario", "with", "measured", "spread", "modelled", "error", "bytes over bandwidth", "its error")
	row("---", "---", "---", "---", "---", "---", "---", "---", "---")
	for _, k := range o.Cases {
		if k.Failed != "" {
			row(k.Kind, k.Scenario, k.Settings, "failed: "+k.Failed, "", "", "", "", "")
			continue
		}
		row(k.Kind, k.Scenario, k.Settings, span(k.Measured), share(k.Spread), span(k.Modelled), percent(k.Error), span(k.Bandwidth), percent(k.BandwidthError))
	}
}
