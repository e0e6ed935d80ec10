package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"godwit/bufalloc/pack"
	"godwit/internal/figures"
	"godwit/internal/outfile"
	"godwit/study/alloc/formats"
)

// packFlags are the flags of godwit pack.
type packFlags struct {
	traceEdit
	capacity string
	align    uint64
	limit    time.Duration
}

func newPack() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack TRACE",
		Short: "Place the chunks of a trace whose lifetimes are known, in as little memory as can be",
		Long: `Place the chunks of a trace whose lifetimes are known, in as little memory as can be.

All formats of godwit replay are read. The offsets are written as MiniMalloc's solvers write
them (id,lower,upper,size,offset), with the ids and times of MiniMalloc's files, else with the
numbers of chunks and events. With --capacity any placement that fits into it is good enough;
without, the lowest is searched until it is proved to be that, or --limit is over. Every
placement is checked before it is written. docs/packing.md says how it works.

Exit status: 0; 1 where none was found that fits --capacity, and then nothing is written; 2
for bad usage or input.`,
		Example: `  godwit pack A.1048576.csv --capacity 1048576 -o offsets.csv
  godwit pack snapshot.pickle --limit 60s -o offsets.csv`,
		Args: atLeastOne("a trace", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPack(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.index, "index", -1, "which of a file's traces, from 0 on; -1 is the only one")
	fl.StringVarP(&f.out, "out", "o", "-", "file to write, - for standard output")
	fl.StringVar(&f.capacity, "capacity", "", "the memory that there is (64MiB, 2GB); without it the least is searched")
	fl.Uint64Var(&f.align, "align", 0, "alignment in bytes; sizes are rounded up to it (default 256, MiniMalloc 1)")
	fl.DurationVar(&f.limit, "limit", 60*time.Second, "time to search for")
	return cmd
}

func runPack(ctx context.Context, out, errOut io.Writer, file string, f packFlags) error {
	var o pack.Options
	if f.capacity != "" {
		var err error
		if o.Capacity, err = parseBytes(f.capacity); err != nil || o.Capacity == 0 {
			return fmt.Errorf("--capacity %q: want a size of 1 byte or more (64MiB, 2GB)", f.capacity)
		}
	}
	if f.limit <= 0 {
		return errors.New("--limit must be positive")
	}
	t, err := f.open(ctx, file)
	if err != nil {
		return err
	}
	sayOddities(errOut, file, t)
	items, err := t.Items(cmp.Or(f.align, defaultAlign(t)))
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	began := time.Now()
	res, err := pack.Minimize(limited, items, o)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = pack.Verify(items, res.Offsets)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(errOut, "godwit: %s\n", packSummary(t, res, time.Since(began))) // stderr: nothing to do about an error
	if o.Capacity > 0 && res.Height > o.Capacity {
		why := "none was found in time"
		if res.Bound > o.Capacity {
			why = fmt.Sprintf("no placement needs less than %d bytes", res.Bound)
		}
		return failed{fmt.Errorf("%s: nothing that fits into %d bytes: %s", t.Name, o.Capacity, why)}
	}
	write := func(w io.Writer) error { return t.WriteOffsets(w, res.Offsets) }
	if f.out == "-" {
		return write(out)
	}
	return outfile.Fill(ctx, f.out, write)
}

func packSummary(t *formats.Allocs, res pack.Result, took time.Duration) string {
	proven := ""
	if res.Proven {
		proven = ", which is the least"
	}
	return fmt.Sprintf("%s: %d chunks in %d bytes (%s)%s; no placement needs less than %d; %s",
		t.Name, len(res.Offsets), res.Height, figures.Size(res.Height), proven, res.Bound, took.Round(time.Millisecond))
}
