package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"godwit/internal/outfile"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
)

// newTrace is the parent of what is done to traces.
func newTrace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Convert, look at, cut, merge, perturb and shrink allocation traces",
		Long: `Convert, look at, cut, merge, perturb and shrink allocation traces.

All formats of godwit replay are read: Godwit's CSV, MiniMalloc's CSV, RMM's log,
PyTorch's memory snapshot (pickle or JSON) and VMA's statistics. A file with
several traces, such as a snapshot of several devices, needs --index.`,
		Args: cobra.ArbitraryArgs,
		RunE: noSuchVerb,
	}
	cmd.AddCommand(newTraceConvert(), newTraceInfo(), newTraceCut(), newTraceMerge(), newTracePerturb(), newTraceShrink())
	return cmd
}

// traceEdit are the flags of the verbs that write a trace.
type traceEdit struct {
	index int
	out   string
	to    string
}

func (e *traceEdit) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&e.index, "index", -1, "which of a file's traces, from 0 on; -1 is the only one")
	fl.StringVarP(&e.out, "out", "o", "-", "file to write, - for standard output")
	fl.StringVar(&e.to, "to", string(formats.FormatGodwit), "format to write: godwit, minimalloc, rmm or pytorch (JSON)")
}

// open reads the trace of a file.
func (e *traceEdit) open(ctx context.Context, file string) (*formats.Allocs, error) {
	if err := besideTraces(ctx, given{"--out", e.out}, file); err != nil {
		return nil, err
	}
	all, err := formats.OpenAllocs(ctx, file)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 1 && e.index < 0:
		return all[0], nil
	case e.index >= 0 && e.index < len(all):
		return all[e.index], nil
	}
	return nil, fmt.Errorf("%s holds %d traces; --index says which, from 0 on", file, len(all))
}

// write writes a trace to --out.
func (e *traceEdit) write(ctx context.Context, stdout io.Writer, t *formats.Allocs) error {
	form, ok := map[string]func(io.Writer) error{
		string(formats.FormatGodwit): t.WriteGodwit, string(formats.FormatMiniMalloc): t.WriteMiniMalloc,
		string(formats.FormatRMM): t.WriteRMM, string(formats.FormatPyTorch): t.WritePyTorch,
	}[e.to]
	if !ok {
		return fmt.Errorf("--to %q: want godwit, minimalloc, rmm or pytorch", e.to)
	}
	if e.out == "-" {
		return form(stdout)
	}
	if e.to == string(formats.FormatGodwit) {
		return formats.SaveAllocs(ctx, e.out, t) // compressed where the name says so
	}
	return outfile.Fill(ctx, e.out, form)
}

// editing is a verb that writes what edit makes of a trace, which is file's.
func editing(use, short, long string, edit func(cmd *cobra.Command, file string, t *formats.Allocs) (*formats.Allocs, error)) *cobra.Command {
	var e traceEdit
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: atLeastOne("a trace", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := e.open(cmd.Context(), args[0])
			if err == nil {
				t, err = edit(cmd, args[0], t)
			}
			if err != nil {
				return err
			}
			return e.write(cmd.Context(), cmd.OutOrStdout(), t)
		},
	}
	e.flags(cmd)
	return cmd
}

func newTraceConvert() *cobra.Command {
	return editing("convert TRACE", "Write a trace in another format", "", func(cmd *cobra.Command, file string, t *formats.Allocs) (*formats.Allocs, error) {
		sayOddities(cmd.ErrOrStderr(), file, t)
		return t, nil
	})
}

// traceFigures are what godwit trace info says of a trace. Sizes in bytes.
type traceFigures struct {
	traceInfo
	NeverFreed int    `json:"never_freed" show:"never freed"` // chunks
	Bytes      uint64 `json:"bytes"`                          // of all allocations
	Smallest   uint64 `json:"smallest" show:"smallest|size"`
	Median     uint64 `json:"median" show:"median|size"`
	Largest    uint64 `json:"largest" show:"largest|size"`
	Sizes      int    `json:"sizes" show:"sizes"`              // different ones
	MedianLife int    `json:"median_life" show:"median life"`  // events
	PeakLive   uint64 `json:"peak_live" show:"peak live|size"` // sizes as they are
	PeakAt     int    `json:"peak_at" show:"at"`               // event
}

func figuresOf(file string, t *formats.Allocs) traceFigures {
	f := traceFigures{traceInfo: info(file, t)}
	var sizes []uint64
	var lives []int
	for _, l := range t.Lifetimes() {
		sizes, lives = append(sizes, l.Size), append(lives, l.End-l.Start)
		f.Bytes += l.Size
		if l.End == len(t.Events) {
			f.NeverFreed++
		}
	}
	if len(sizes) > 0 {
		slices.Sort(sizes)
		slices.Sort(lives)
		f.Smallest, f.Median, f.Largest = sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]
		f.MedianLife = lives[len(lives)/2]
		f.Sizes = len(slices.Compact(sizes))
	}
	f.PeakLive, f.PeakAt = t.PeakLive()
	return f
}

func newTraceInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info TRACE…",
		Short: "Say what is in traces",
		Args:  atLeastOne("a trace", math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []traceFigures
			for _, file := range args {
				traces, err := formats.OpenAllocs(cmd.Context(), file)
				if err != nil {
					return err
				}
				for _, t := range traces {
					all = append(all, figuresOf(file, t))
				}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			show(cmd.OutOrStdout(), 2, 0, all, special[traceFigures]{"odd", func(f *traceFigures) string {
				return fmt.Sprint(f.UnknownFrees + f.MissingFrees + f.FailedAllocs + f.ZeroSized)
			}})
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newTraceCut() *cobra.Command {
	var from, to int
	cmd := editing("cut TRACE", "A part of a trace; what is live at its start is allocated first", "", func(_ *cobra.Command, _ string, t *formats.Allocs) (*formats.Allocs, error) {
		if to < 0 {
			to = len(t.Events)
		}
		return t.Cut(t.Name+"-cut", from, to)
	})
	cmd.Flags().IntVar(&from, "from", 0, "first event")
	cmd.Flags().IntVar(&to, "until", -1, "event to stop before (default: the end)")
	return cmd
}

func newTraceMerge() *cobra.Command {
	var e traceEdit
	cmd := &cobra.Command{
		Use:   "merge TRACE…",
		Short: "Several traces at once, evenly mixed, as programs that share a memory",
		Args:  atLeastOne("a trace", math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := besideTraces(cmd.Context(), given{"--out", e.out}, args...); err != nil {
				return err
			}
			var all []*formats.Allocs
			for _, file := range args {
				traces, err := formats.OpenAllocs(cmd.Context(), file)
				if err != nil {
					return err
				}
				all = append(all, traces...)
			}
			merged, err := formats.Merge("merged", all...)
			if err != nil {
				return err
			}
			return e.write(cmd.Context(), cmd.OutOrStdout(), merged)
		},
	}
	e.flags(cmd)
	return cmd
}

func newTracePerturb() *cobra.Command {
	var kinds []string
	var seed uint64
	cmd := editing("perturb TRACE", "Make a similar trace: what a rule chosen on the one has to bear", `Make a similar trace: what a rule chosen on the one has to bear.

  backwards  time turned round
  resized    every chunk's size by up to a tenth
  alike      every size by up to a tenth, the same for chunks of one size
  late       begins in the first half; what is live there is allocated first
  early      ends in the second half
  reordered  operations change places with near ones
  changed    another run of the program: a tenth of the allocations new or resized`, func(_ *cobra.Command, _ string, t *formats.Allocs) (*formats.Allocs, error) {
		st, err := replay.FromTrace(t, 1)
		for _, kind := range kinds {
			var p replay.Perturbation
			if err == nil {
				p, err = replay.ParsePerturbation(kind)
			}
			if err == nil {
				st, err = replay.Perturb(st, p, seed)
			}
		}
		if err != nil {
			return nil, err
		}
		return st.Trace(), nil
	})
	cmd.Flags().StringSliceVar(&kinds, "kind", []string{string(replay.Reordered)}, "one or several, in order")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the random numbers")
	return cmd
}

func newTraceShrink() *cobra.Command {
	var s shrinking
	cmd := editing("shrink TRACE --keep CONDITION", "The few operations of a trace that show an effect", `The few operations of a trace that show an effect.

The condition bounds overheads, the smallest region of a strategy over the peak of
live bytes: --keep "fit > 1.2", --keep "fit / bestfit > 1.1 and bestfit < 1.3".
Chunks are left out, alone and in groups, and sizes rounded, as long as it holds.`, s.run)
	fl := cmd.Flags()
	fl.StringVar(&s.keep, "keep", "", "the condition")
	fl.Uint64Var(&s.align, "align", 0, "alignment in bytes (default 256, MiniMalloc 1)")
	fl.IntVar(&s.tries, "tries", 20000, "sequences to try, at most")
	fl.DurationVar(&s.limit, "for", 0, "stop after this time (30s, 5m) and keep the smallest")
	patienceFlag(fl, &s.patience)
	return cmd
}

// shrinking are the flags of godwit trace shrink.
type shrinking struct {
	keep            string
	align           uint64
	tries           int
	limit, patience time.Duration
}

func (s *shrinking) run(cmd *cobra.Command, _ string, t *formats.Allocs) (_ *formats.Allocs, err error) {
	ctx := cmd.Context()
	if s.tries < 1 || s.limit < 0 {
		return nil, errors.New("--tries must be at least 1, --for positive")
	}
	var named subjects
	defer func() { err = errors.Join(err, named.close()) }()
	c, err := fuzz.ParseCondition(s.keep, func(name string) (replay.Subject, error) { return named.open(ctx, name, s.patience) })
	if err != nil {
		return nil, fmt.Errorf("--keep: %w", err)
	}
	st, err := replay.FromTrace(t, cmp.Or(s.align, defaultAlign(t)))
	if err != nil {
		return nil, err
	}
	if s.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	small, err := fuzz.Shrink(ctx, st, c, s.tries)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "godwit: %d operations of %d show %s\n", len(small.Ops), len(st.Ops), strings.TrimSpace(s.keep)) // stderr: nothing to do about an error
	return small.Trace(), nil
}
