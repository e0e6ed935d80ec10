package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"godwit/study/alloc/fuzz"
	"godwit/study/campaign"
	"godwit/study/sweep"
)

// serveFlags are the flags of godwit campaign serve.
type serveFlags struct {
	sweepFlags
	coordinatorFlags
}

func newCampaignServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve SCENARIO | --example NAME --store DIR",
		Short: "Coordinate a campaign of a sweep: keep its journal, hand out its points",
		Long: `Coordinate a campaign: the points are those of godwit sweep with the same flags, made by godwit campaign work,
on this host and others. The results are the same files as godwit sweep writes.

` + inStore + `

Exit code: as of godwit sweep; 1, too, where two workers made a point differently.`,
		Example: `  godwit campaign serve study.yaml --set n=1..100000 --fast --store campaign --out study.csv
  godwit campaign work nats://127.0.0.1:40031
  godwit campaign status nats://127.0.0.1:40031`,
		Args: f.oneScenario,
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runServe(cmd.Context(), cmd.OutOrStdout(), file, &f)
		},
	}
	f.sweepFlags.scenarioFlags.register(cmd)
	f.registerStamps(cmd)
	describeAxes(cmd)
	f.registerResults(cmd)
	cmd.Flags().BoolVar(&f.fast, "fast", false, "keep no times")
	f.coordinatorFlags.register(cmd.Flags())
	return cmd
}

func runServe(ctx context.Context, w io.Writer, file string, f *serveFlags) (err error) {
	l, err := f.coordinatorFlags.check()
	if err == nil && !f.fast && f.machine == "" {
		err = errors.New("a campaign: times that are measured would be of unlike hosts: want --fast, which keeps no times, or --machine, whose times are virtual")
	}
	if err != nil {
		return err
	}
	c, rows, err := f.begin(ctx, file)
	if err != nil {
		return err
	}
	j, err := f.openStore(sweep.JournalName, rows.Keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	co := &campaign.Coordinator{Build: c.Build, Work: &campaign.Sweep{Rows: rows, Config: c}, Sync: j.Sync}
	if err := f.coordinate(ctx, l, co); err != nil {
		return f.campaignError(ctx, err)
	}
	res, err := rows.Results()
	if err == nil {
		err = f.write(ctx, w, c.File, res)
	}
	if err == nil {
		err = co.Finding()
	}
	if err != nil {
		return failed{err}
	}
	return asExpected(c.File, res)
}

func newCampaignFuzz() *cobra.Command {
	var f fuzzFlags
	var co coordinatorFlags
	cmd := &cobra.Command{
		Use:   "fuzz --rounds N --store DIR",
		Short: "Coordinate a campaign of searches: keep its journal and its corpus, hand out its units",
		Long: `Coordinate a campaign of searches in rounds, as godwit fuzz --rounds makes them with the same flags: the results are the
same files. Searches, and what makes their findings smaller, are units for godwit campaign work, on this host and others. Allocators of one's own
(lib:, exec:) run with workers alone, which have to allow each by name (--allow).

` + inStore + `

Exit code: as of godwit fuzz; 1, too, where two workers made a unit differently.`,
		Example: `  godwit campaign fuzz -s all --seeds 16 --rounds 20 --store campaign --out found
  godwit campaign work nats://127.0.0.1:40031`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCampaignFuzz(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &f, &co)
		},
	}
	f.registerSearch(cmd.Flags())
	f.registerRounds(cmd.Flags(), 10)
	co.register(cmd.Flags())
	return cmd
}

func runCampaignFuzz(ctx context.Context, out, errOut io.Writer, f *fuzzFlags, flags *coordinatorFlags) (err error) {
	l, err := flags.check()
	if err != nil {
		return err
	}
	rounds, build, err := f.begin(ctx)
	if err != nil {
		return err
	}
	j, err := flags.openStore(fuzz.JournalName, rounds.Keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	co := &campaign.Coordinator{Build: build, Work: rounds, Sync: j.Sync}
	if err := flags.coordinate(ctx, l, co); err != nil {
		return flags.campaignError(ctx, err)
	}
	err = f.tellRounds(ctx, out, errOut, rounds, func() error { return nil }) // the store keeps its journal
	if found := co.Finding(); found != nil {
		err = errors.Join(err, failed{found})
	}
	return err
}
