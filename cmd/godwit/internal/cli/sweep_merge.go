package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"godwit/internal/journal"
	"godwit/study/sweep"
)

func newSweepMerge() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "merge ROWS…",
		Short: "Make the results of a sweep from the journals of its shards",
		Long: `Make the results of a sweep from the journals of its shards (FILE.K-of-N.rows, which godwit sweep --shard leaves),
in any order and also concatenated: the same files as one process would have written. Neither the scenario nor
its files are needed. Where two journals have a point, one row is taken; rows that differ in anything but
measured times are an error: figures are to be the same wherever they are made.

Where points have no row the error says how many, and which is the first: godwit sweep SCENARIO … --resume ROWS…
makes them.

Exit code: 0 all points as expected, 1 some were not (the results are written all the same), have no row, or
have two that differ, 2 bad usage.`,
		Example: `  godwit sweep merge --out study.csv --out study.jsonl study.*-of-64.rows`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("sweep merge: which? want the journals of shards")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMerge(cmd.Context(), cmd.OutOrStdout(), args, &f)
		},
	}
	f.registerResults(cmd)
	return cmd
}

func runMerge(ctx context.Context, w io.Writer, journals []string, f *sweepFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	var outputs []given
	for _, path := range f.plots {
		outputs = append(outputs, given{"--plot", path})
	}
	for _, path := range f.out {
		outputs = append(outputs, given{"--out", path})
	}
	var reads []given
	for _, path := range journals {
		reads = append(reads, given{"a journal", path})
	}
	if err := errors.Join(apart(outputs, reads...), makeable(ctx, outputs...)); err != nil {
		return err
	}
	var files texts
	defer func() { err = errors.Join(err, files.close()) }()
	var all []sweep.Text
	for _, path := range journals {
		t, err := files.open(path)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	debug.SetGCPercent(20) // a word of each row is held, whose room need not be had twice
	m, err := sweep.Merge(all)
	if errors.Is(err, sweep.ErrMissing) || errors.Is(err, journal.ErrUnlike) {
		return failed{err}
	}
	if err == nil {
		err = f.checkPoints(m.Points)
	}
	if err != nil {
		return err
	}
	if err := f.write(ctx, w, journals[0], m); err != nil {
		return failed{err}
	}
	return asExpected(fmt.Sprintf("merge of %s", plural(len(journals), "journal")), m)
}
