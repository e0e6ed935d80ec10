package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit/eviction"
	"godwit/internal/icd/tracelog"
	"godwit/internal/outfile"
	"godwit/internal/resource"
	"godwit/internal/suggest"
	"godwit/mem/trace"
	"godwit/study/alloc/replay"
	"godwit/study/machine"
	"godwit/study/page"
	cmdreplay "godwit/study/replay"
)

// commandFlags are the flags of godwit replay for command traces.
type commandFlags struct {
	policies []string
	memory   []string
	machine  string
	set      []string
	html     string
	timeline string
}

// commandOnly are their names, and bothKinds those of the flags that do not say which kind of
// trace is meant.
var commandOnly, bothKinds = []string{"policy", "memory", "machine", "set", "html", "timeline"}, []string{"json", "help"}

func (f *commandFlags) register(fl *pflag.FlagSet) {
	fl.StringSliceVar(&f.policies, "policy", []string{"lru", "cost", eviction.Belady}, "of command traces: eviction policies: "+strings.Join(eviction.Policies(), ", "))
	fl.StringSliceVar(&f.memory, "memory", []string{recordedMemory}, "of command traces: what each device has: sizes, percentages of the peak (50%), recorded, all")
	fl.StringArrayVar(&f.set, "set", nil, "of command traces: `machine.NAME=VALUE` of a parameter of the machine")
	fl.StringVar(&f.html, "html", "", "of command traces: write the replays as one page for a browser to `FILE`")
	fl.StringVar(&f.timeline, "timeline", "", "of command traces: write the replay, which is to be one, as Perfetto-readable JSON to `FILE`")
	fl.StringVar(&f.machine, "machine", "", "of command traces: replay on `MACHINE`, a built-in one (godwit machines) or a file, in its time")
}

// commandReplay is a replay of one context of a command trace.
type commandReplay struct {
	Trace    string         `json:"trace" show:"trace"`   // the file
	Context  string         `json:"context"`              // of the file's
	Memory   string         `json:"memory" show:"memory"` // as it was asked for
	Policy   string         `json:"policy" show:"policy"`
	Each     []deviceMemory `json:"capacities"`
	Makespan uint64         `json:"makespan_ns,omitempty" show:"time|span|"` // on --machine
	Cut      bool           `json:"cut,omitempty"`                           // the file ends within a line: the rest of the run is missing
	Counted  int            `json:"counted,omitempty"`                       // commands for which a content size said how much was copied: more moves here
	Error    string         `json:"error,omitempty"`                         // why it could not go on: what found no room
	tracelog.Summary
	picture *page.Run
}

// deviceMemory is what a device had in a replay.
type deviceMemory struct {
	Name     string `json:"name"`
	Capacity uint64 `json:"capacity_bytes"` // 0 is without limit
}

// commandFile is a file of command traces.
type commandFile struct {
	path     string
	contexts []*trace.CommandTrace
}

// commandTraces reads the arguments, if they are command traces; nil where they are allocation
// traces. Flags of the other kind are refused.
func (f *replayFlags) commandTraces(cmd *cobra.Command, args []string) (files []commandFile, err error) {
	for _, path := range args {
		var contexts []*trace.CommandTrace
		if path == "-" {
			path = stdinName
			contexts, err = trace.ReadCommands(cmd.Context(), bytes.NewReader(f.stdin), path)
		} else {
			contexts, err = trace.OpenCommands(cmd.Context(), path)
		}
		switch {
		case errors.Is(err, trace.ErrNotCommands) && len(files) > 0:
			return nil, fmt.Errorf("%s: an allocation trace, and %s is a command trace: want them apart", path, files[0].path)
		case errors.Is(err, trace.ErrNotCommands):
			return nil, f.refuse(cmd, commandOnly, true, path+" is no command trace (--record of godwit exec and run), and nothing moves for others")
		case errors.Is(err, fs.ErrNotExist) && len(files) == 0:
			return nil, nil // whoever reads allocation traces knows what to say, and of built-in ones
		case err != nil:
			return nil, err
		case len(contexts) == 0:
			return nil, fmt.Errorf("%s: no command accessed anything", path)
		}
		files = append(files, commandFile{path, contexts})
	}
	if len(files) == 0 {
		return nil, f.refuse(cmd, commandOnly, true, "the examples are allocation traces, for which nothing moves")
	}
	return files, f.refuse(cmd, append(slices.Clone(commandOnly), bothKinds...), false, args[0]+" is a command trace")
}

// refuse fails where one of the flags named, or one that is not, was given.
func (f *replayFlags) refuse(cmd *cobra.Command, names []string, named bool, why string) (err error) {
	cmd.Flags().Visit(func(x *pflag.Flag) {
		if cmd.LocalNonPersistentFlags().Lookup(x.Name) != nil && slices.Contains(names, x.Name) == named && err == nil {
			err = fmt.Errorf("--%s: %s", x.Name, why)
		}
	})
	return err
}

// The words for memory that are no size.
const (
	recordedMemory = "recorded"
	allMemory      = "all"
)

// replayCommands replays command traces under every policy with every memory.
func replayCommands(ctx context.Context, out, errOut io.Writer, files []commandFile, f replayFlags) error {
	if len(f.memory) == 0 {
		f.memory = []string{""}
	}
	if len(f.policies) == 0 {
		f.policies = []string{""}
	}
	writes, reads := []given{{"--html", f.html}, {"--timeline", f.timeline}}, []given{{"--machine", f.machine}}
	for _, file := range files {
		reads = append(reads, given{"the trace", file.path})
	}
	if err := apart(writes, reads...); err != nil {
		return err
	}
	if err := makeable(ctx, writes...); err != nil {
		return err
	}
	for _, m := range f.memory {
		if _, err := capacityOf(m, 0, 0); err != nil {
			return err
		}
	}
	for _, p := range f.policies {
		if !slices.Contains(eviction.Policies(), p) {
			return fmt.Errorf("--policy %q: want one of %s%s", p, strings.Join(eviction.Policies(), ", "), suggest.For(p, eviction.Policies()))
		}
	}
	var all []commandReplay
	for _, file := range files {
		if file.contexts[0].Cut {
			_, _ = fmt.Fprintf(errOut, "godwit: %s: ends within a line: the figures are of what comes before, the rest of the run is missing\n", file.path)
		}
		for _, t := range file.contexts {
			if n := t.Counted(); n > 0 {
				_, _ = fmt.Fprintf(errOut, "godwit: %s: context %s: for %d commands a content size said how much was copied: a replay moves whole ranges, so that moved and compulsory bytes are more than they were\n", file.path, t.Name, n)
			}
			if t.Tenants() > 0 {
				_, _ = fmt.Fprintf(errOut, "godwit: %s: context %s has tenants: their caps and floors are kept, and the bound does not count them: it holds, and may be out of reach\n", file.path, t.Name)
			}
			list, err := replayContext(ctx, file.path, t, f)
			if err != nil {
				return err
			}
			all = append(all, list...)
		}
	}
	if err := f.drawReplays(ctx, all); err != nil {
		return err
	}
	if f.json {
		if err := writeJSON(out, replayOutput{Traces: []traceInfo{}, Results: []replay.Result{}, Means: []replay.Mean{}, Commands: all}); err != nil {
			return err
		}
	} else {
		printCommandReplays(out, all)
	}
	stuck := slices.DeleteFunc(all, func(r commandReplay) bool { return r.Error == "" })
	if len(stuck) > 0 {
		return failed{fmt.Errorf("%d replays could not go on: the first, %s with memory %s: %s", len(stuck), stuck[0].Policy, stuck[0].Memory, stuck[0].Error)}
	}
	return nil
}

// drawReplays writes the pictures that are wanted.
func (f *replayFlags) drawReplays(ctx context.Context, all []commandReplay) error {
	if f.timeline != "" && len(all) > 1 {
		return fmt.Errorf("--timeline: of one replay, and these are %d: want one context, one --policy and one --memory", len(all))
	}
	var runs []*page.Run
	for i := range all {
		if run := all[i].picture; run != nil {
			run.Name = fmt.Sprintf("%s, %s, memory %s", all[i].name(), all[i].Policy, all[i].Memory)
			runs = append(runs, run)
		}
	}
	if f.html != "" {
		err := outfile.Fill(ctx, f.html, func(w io.Writer) error { return page.Write(w, "Replays of "+all[0].Trace, runs...) })
		if err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	if f.timeline != "" && len(runs) > 0 {
		if err := outfile.Fill(ctx, f.timeline, func(w io.Writer) error { return page.WriteTimeline(w, runs[0]) }); err != nil {
			return fmt.Errorf("--timeline: %w", err)
		}
	}
	return nil
}

// replayContext replays one context.
func replayContext(ctx context.Context, path string, t *trace.CommandTrace, f replayFlags) (all []commandReplay, err error) {
	var o cmdreplay.Options
	set, err := setOfMachine(f.set)
	switch {
	case err == nil && len(set) < len(f.set):
		err = fmt.Errorf("--set %s: want machine.NAME=VALUE, of a parameter of --machine, each once", strings.Join(f.set, " "))
	case err == nil && len(set) > 0 && f.machine == "":
		err = fmt.Errorf("--set %s: of which machine? want --machine, too", f.set[0])
	}
	if err != nil {
		return nil, err
	}
	if f.machine != "" {
		if o.Machine, err = loadMachine(ctx, f.machine, machine.Options{Devices: len(t.Memories) - 1, Set: set}); err != nil {
			return nil, err
		}
	}
	o.Draw = f.html != "" || f.timeline != ""
	var peak []uint64 // by memory
	if slices.ContainsFunc(f.memory, func(m string) bool { return strings.HasSuffix(m, "%") }) {
		res, err := cmdreplay.Run(ctx, t, cmdreplay.Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: without limit: %w", path, err)
		}
		for _, d := range res.Devices {
			peak = append(peak, d.Peak)
		}
	}
	bar := newProgress(len(f.memory)*len(f.policies)*len(t.Steps), "replaying")
	defer bar.finish()
	for _, memory := range f.memory {
		o.Capacity = make([]uint64, len(t.Memories))
		for m := range o.Capacity[1:] {
			used := uint64(0)
			if peak != nil {
				used = peak[m+1]
			}
			if o.Capacity[m+1], err = capacityOf(memory, t.Memories[m+1].Capacity, used); err != nil {
				return nil, err
			}
		}
		for _, policy := range f.policies {
			o.Policy = policy
			res, err := cmdreplay.Run(ctx, t, o)
			bar.add(len(t.Steps))
			row := commandReplay{Trace: path, Context: t.Name, Policy: policy, Memory: memory, Cut: t.Cut, Counted: t.Counted(), Makespan: res.Makespan, Summary: res.Summary, picture: res.Picture}
			var full *resource.OutOfMemory
			switch {
			case errors.As(err, &full):
				row.Error = err.Error()
			case err != nil:
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			for m, d := range t.Memories {
				if m > 0 {
					row.Each = append(row.Each, deviceMemory{d.Name, res.Capacities[m]})
				}
			}
			all = append(all, row)
		}
	}
	return all, nil
}

// capacityOf is what a device has by a word of --memory, in bytes; 0 is without limit.
func capacityOf(text string, recorded, peak uint64) (uint64, error) {
	switch {
	case text == recordedMemory:
		return recorded, nil
	case text == allMemory:
		return 0, nil
	case strings.HasSuffix(text, "%"):
		percent, err := strconv.ParseUint(strings.TrimSuffix(text, "%"), 10, 16)
		if err != nil || percent == 0 {
			return 0, fmt.Errorf("--memory %q: want 1%% to 65535%% of what the trace uses", text)
		}
		high, low := bits.Mul64(peak, percent)
		if high >= 100 {
			return 0, nil // more than there can be
		}
		n, rest := bits.Div64(high, low, 100)
		if rest > 0 && n < math.MaxUint64 {
			n++
		}
		return n, nil
	}
	n, err := parseBytes(text)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("--memory %q: want a size (64MiB), a percentage of what the trace uses (50%%), recorded or all", text)
	}
	return n, nil
}

// printCommandReplays prints a row for each replay, and where there are several traces, whose.
func printCommandReplays(w io.Writer, all []commandReplay) {
	several := slices.ContainsFunc(all, func(r commandReplay) bool { return r.name() != all[0].name() })
	show(w, 3, 2, all, special[commandReplay]{"trace", func(r *commandReplay) string {
		if several {
			return r.name()
		}
		return ""
	}}, special[commandReplay]{"over bound", func(r *commandReplay) string {
		switch {
		case r.Error != "":
			return "no room"
		case r.CapacityBound == 0:
			return "-"
		}
		return fmt.Sprintf("%.2f", float64(r.Summary.Capacity)/float64(r.CapacityBound))
	}})
}

// name is the file, and the context's name in it.
func (r *commandReplay) name() string { return r.Trace + "#" + r.Context }
