package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/examples"
	"godwit/internal/expr"
	"godwit/internal/input"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// scenarioFlags are the flags of verbs that take a scenario: which one, and what it
// is given.
type scenarioFlags struct {
	inputs  []string
	set     []string
	driver  string
	memory  string
	limits  map[string]int
	example string
	policy  string
	graph   string
	machine string
	stamps  bool
}

func (f *scenarioFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.example, "example", "", "take the built-in example `NAME` (godwit examples lists them)")
	cmd.Flags().StringArrayVar(&f.inputs, "input", nil, "`NAME=FILE`: the file for an input the scenario declares")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "`NAME=VALUE` of a parameter the scenario declares (SCENARIO --help lists them), or of the machine, machine.NAME=VALUE (godwit machines MACHINE)")
	cmd.Flags().StringVar(&f.driver, "driver", "", "open all devices with driver `NAME` instead: cpu, tce, null, opencl")
	cmd.Flags().StringVar(&f.policy, "policy", "", "which blocks go first where a memory is short, by `NAME`: cost, lru, belady, none")
	cmd.Flags().StringVar(&f.graph, "graph", "", "`on`, or off: repeats that are graphs are not recorded, but enqueued round by round")
	cmd.Flags().StringVar(&f.memory, "memory", "4GiB", "`BYTES` that the scenario may name in all: buffers, content, what it reads")
	cmd.Flags().StringToIntVar(&f.limits, "limit", nil, "`NAME=N`: another bound of what the scenario may ask for: "+strings.Join(slices.Sorted(maps.Keys(scenario.Limits())), ", "))
	cmd.Flags().StringVar(&f.machine, "machine", "", "run in virtual time on `MACHINE`: a built-in one (godwit machines lists them) or a file")
	completeParameters(cmd, f)
}

// registerStamps is for verbs that run scenarios on machines alone, too.
func (f *scenarioFlags) registerStamps(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.stamps, "stamps", false, "with --machine: its devices keep no bytes, but who wrote them, and that is what is verified")
}

// checkStamps refuses stamps where nobody keeps them.
func (f *scenarioFlags) checkStamps() error {
	if f.stamps && f.machine == "" {
		return errors.New("--stamps: modelled devices keep who wrote bytes in their place: want --machine, too")
	}
	return nil
}

// options are what the flags say, but for the values of parameters where set is false.
func (f *scenarioFlags) options(set bool) (opt scenario.Options, err error) {
	opt = scenario.Options{Inputs: make(map[string]string), Set: make(map[string]string), Driver: f.driver, Policy: f.policy, Graph: f.graph}
	if opt.Memory, err = parseBytes(f.memory); err != nil || opt.Memory == 0 {
		return opt, fmt.Errorf("--memory %q: want a number of bytes such as 4GiB", f.memory)
	}
	known := scenario.Limits()
	for name, n := range f.limits {
		if known[name] == 0 || n < 1 || n > math.MaxInt32 {
			return opt, fmt.Errorf("--limit %s=%d: want a number of %s from 1 to %d", name, n, suggest.Among(name, slices.Sorted(maps.Keys(known))), math.MaxInt32)
		}
	}
	opt.Limits = f.limits
	for _, in := range f.inputs {
		name, path, ok := strings.Cut(in, "=")
		if !ok || name == "" || path == "" {
			return opt, fmt.Errorf("--input %q: want NAME=FILE", in)
		}
		opt.Inputs[name] = path
	}
	for _, given := range f.set {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return opt, fmt.Errorf("--set %q: want NAME=VALUE", given)
		}
		if strings.HasPrefix(name, sweep.OfMachine) {
			continue
		}
		if before, twice := opt.Set[name]; twice && before != value && set {
			return opt, fmt.Errorf("--set %s: it is set twice, to %q and to %q", name, before, value)
		}
		if set {
			opt.Set[name] = value
		}
	}
	return opt, nil
}

// scenarioText is a scenario's text, and what its errors call it.
type scenarioText struct {
	file  string
	data  []byte
	files map[string][]byte // of an example: what stands beside it
}

// setOfMachine is what a list of NAME=VALUE sets of a machine's parameters.
func setOfMachine(set []string) (map[string]string, error) {
	out := make(map[string]string)
	for _, given := range set {
		name, value, _ := strings.Cut(given, "=")
		name, ok := strings.CutPrefix(name, sweep.OfMachine)
		if !ok {
			continue
		}
		if before, twice := out[name]; twice && before != value {
			return nil, fmt.Errorf("--set machine.%s: it is set twice, to %q and to %q", name, before, value)
		}
		out[name] = value
	}
	return out, nil
}

// checkMachineSet refuses parameters of a machine where there is none.
func (f *scenarioFlags) checkMachineSet() error {
	i := slices.IndexFunc(f.set, func(s string) bool { return strings.HasPrefix(s, sweep.OfMachine) })
	if i < 0 || f.machine != "" {
		return nil
	}
	return fmt.Errorf("--set %s: of which machine? want --machine, too", f.set[i])
}

// readScenario reads the scenario that a verb's argument and flags name: a file, - for
// standard input, or an example. It is read once, and may be parsed many times.
func readScenario(ctx context.Context, file, example string) (scenarioText, error) {
	switch {
	case example != "":
		name, content, err := findExample(example, examples.Scenario)
		return scenarioText{name, content, examples.Files()}, err
	case file == "-":
		var data bytes.Buffer
		err := copyStdin(ctx, &data, yaml.MaxBytes)
		return scenarioText{stdinName, data.Bytes(), nil}, err
	}
	data, err := input.ReadAny(ctx, file, yaml.MaxBytes)
	return scenarioText{file, data, nil}, orExample(err, file, examples.Scenario)
}

// parse is the scenario that opt makes of the text.
func (t *scenarioText) parse(ctx context.Context, opt scenario.Options) (*scenario.Scenario, error) {
	opt.Files = t.files
	return scenario.Parse(ctx, t.file, t.data, opt)
}

// oneScenario wants a scenario's file, -, or --example.
func (f *scenarioFlags) oneScenario(cmd *cobra.Command, args []string) error {
	if f.example == "" {
		return atLeastOne("a scenario", 1)(cmd, args)
	}
	if len(args) > 0 {
		return fmt.Errorf("%s: a scenario's file, %q, or --example %s, not both", cmd.Name(), args[0], f.example)
	}
	return nil
}

// helpOfScenario makes --help beside a scenario list what the scenario is given.
func helpOfScenario(cmd *cobra.Command, f *scenarioFlags) {
	plain := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		file := cmd.Flags().Arg(0)
		if file == "" && f.example == "" {
			plain(cmd, args)
			return
		}
		d, err := f.describe(cmp.Or(cmd.Context(), context.Background()), file) // cobra asks for help before it runs anything
		if err != nil {
			failHelp(cmd, err)
			return
		}
		describeScenario(cmd, d)
	})
}

// helpFailed is where the root command keeps why help could not be given: cobra
// expects no error of it.
const helpFailed = "help failed"

func failHelp(cmd *cobra.Command, err error) {
	cmd.Root().Annotations = map[string]string{helpFailed: err.Error()}
}

// helpError is what failHelp noted.
func helpError(root *cobra.Command) error {
	if why := root.Annotations[helpFailed]; why != "" {
		return errors.New(why)
	}
	return nil
}

// describe says what the scenario is given that a verb's argument and flags name.
func (f *scenarioFlags) describe(ctx context.Context, file string) (*scenario.Description, error) {
	t, err := readScenario(ctx, file, f.example)
	if err != nil {
		return nil, err
	}
	return scenario.Describe(ctx, t.file, t.data, scenario.Options{Files: t.files})
}

func describeScenario(cmd *cobra.Command, d *scenario.Description) {
	out := cmd.OutOrStdout()
	fmt.Fprint(out, d.Name)
	if d.About != "" {
		fmt.Fprintf(out, ": %s", strings.TrimSpace(d.About))
	}
	fmt.Fprintln(out)
	describeParams(out, "", d.Params)
	if len(d.Inputs) > 0 {
		fmt.Fprintf(out, "\nInputs, --input NAME=FILE:\n")
		g := newTable(4, "name", "default", "")
		for _, in := range d.Inputs {
			def := in.Default
			if def == "" {
				def = "(to be given)"
			}
			g.Row(in.Name, def, in.About)
		}
		g.Print(out, screenWidth())
	}
	if len(d.Params)+len(d.Inputs) == 0 {
		fmt.Fprintf(out, "\nIt has no parameters and no inputs.\n")
	}
	fmt.Fprintf(out, "\n%s --help lists the flags.\n", cmd.CommandPath())
}

// describeParams lists parameters, whose names have something before them where they are set.
func describeParams(out io.Writer, before string, params []expr.Param) {
	if len(params) == 0 {
		return
	}
	fmt.Fprintf(out, "\nParameters, --set %sNAME=VALUE:\n", before)
	g := newTable(6, "name", "type", "default", "may be", "")
	for _, p := range params {
		def := p.Default
		if p.Required {
			def = "(to be set)"
		}
		g.Row(p.Name, typeText(&p), def, boundsText(&p), p.About)
	}
	g.Print(out, screenWidth())
}

// typeText is a parameter's type for people.
func typeText(p *expr.Param) string {
	if p.Type == expr.ListType {
		return "list of " + string(p.Of)
	}
	return string(p.Type)
}

// boundsText says what a parameter may be.
func boundsText(p *expr.Param) string {
	switch {
	case len(p.Values) > 0:
		return strings.Join(p.Values, ", ")
	case p.Min != "" && p.Max != "":
		return p.Min + " to " + p.Max
	case p.Min != "":
		return "at least " + p.Min
	case p.Max != "":
		return "at most " + p.Max
	}
	return "any"
}
