package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"godwit/study/alloc/extern"
	"godwit/study/alloc/replay"
	"godwit/study/campaign"
	"godwit/study/sweep"
)

// workFlags are the flags of godwit campaign work.
type workFlags struct {
	natsFlags
	jobs     int
	name     string
	allow    []string
	patience time.Duration
}

func newCampaignWork() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:   "work nats://HOST:PORT",
		Short: "Work for a campaign until it ends",
		Long: `Work for the campaign that godwit campaign serve or fuzz coordinates until it ends. While nobody answers it waits: coordinator and
workers may be started in any order, and be killed at any moment.

The scenario and the values, or the strategies, come from the coordinator, files that a scenario reads are read here. Nothing that comes is
executed: an allocator of one's own (lib:, exec:) is searched only where --allow names it, as the coordinator does. A worker of another build than
the coordinator's is refused.

Exit code: 0 the campaign has ended, 1 this worker may not, or cannot, take part, 128 and the signal's number where it was
interrupted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runWork(cmd.Context(), args[0], &f) },
	}
	host, _ := os.Hostname() // "" will do
	fl := cmd.Flags()
	fl.StringVar(&f.name, "name", fmt.Sprintf("%s-%d", host, os.Getpid()), "what the coordinator calls this worker")
	fl.Lookup("name").DefValue = "its host and process"
	fl.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "`N` points at once")
	fl.Lookup("jobs").DefValue = "as many as there are cores"
	fl.StringArrayVar(&f.allow, "allow", nil, "an `ALLOCATOR` of one's own, lib:PATH or exec:COMMAND, that may be run here; may be given several times")
	patienceFlag(fl, &f.patience)
	f.natsFlags.register(fl)
	return cmd
}

func runWork(ctx context.Context, address string, f *workFlags) (err error) {
	build, err := sweep.Executable()
	if err != nil {
		return failed{err}
	}
	nc, err := f.connect(address, f.name)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer time.AfterFunc(time.Second, func() {
		if !nc.IsConnected() {
			say("nobody answers at %s yet: waiting", address)
		}
	}).Stop()
	var here subjects
	defer func() { err = errors.Join(err, here.close()) }()
	worker := &campaign.Worker{Campaign: f.campaign, Name: f.name, Jobs: f.jobs, Makers: campaign.Makers{Build: build,
		Complete: func(c *sweep.Config) { c.Machine = loadMachine },
		Open: func(ctx context.Context, name string) (subject, hasty replay.Subject, err error) {
			if extern.Is(name) && !slices.Contains(f.allow, name) {
				return nil, nil, fmt.Errorf("%w: %s runs only where --allow names it", campaign.ErrRefused, name)
			}
			return here.both(ctx, name, f.patience)
		}}}
	if err := worker.Work(ctx, nc); err != nil {
		return failed{endOf(ctx, err)}
	}
	return nil
}

func newCampaignStatus() *cobra.Command {
	var f natsFlags
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status nats://HOST:PORT",
		Short: "Say how a campaign goes: what is done, who works, how long it will take",
		Long: `Say how a campaign goes: what is done, at which rate, how long it will take, what failed, and the workers by name with theirs.
The coordinator is asked; it shows the same at --metrics, for Prometheus and as JSON.

Exit code: 0, 1 where no coordinator answers.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			nc, err := f.connect(args[0], "status")
			if err != nil {
				return err
			}
			defer nc.Close()
			s, err := campaign.Ask(cmd.Context(), nc, f.campaign)
			if err != nil {
				return failed{err}
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), s)
			}
			printStatus(cmd.OutOrStdout(), &s)
			return nil
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStatus(w io.Writer, s *campaign.Status) {
	what := map[string]string{"sweep": "points", "fuzz": "units"}[s.Kind]
	line := []string{fmt.Sprintf("%s: %s of %s %s, %.1f a second", s.Campaign, humanize.Comma(int64(s.Done)), humanize.Comma(int64(s.Total)), what, s.Rate)}
	if s.Rounds > 0 {
		line = append(line, fmt.Sprintf("round %d of %d", s.Round, s.Rounds), plural(s.Findings, "finding"))
	}
	if s.ETA >= 0 {
		line = append(line, fmt.Sprintf("%v left", time.Duration(s.ETA*float64(time.Second)).Round(time.Second)))
	}
	if s.Failed > 0 {
		line = append(line, fmt.Sprintf("%d failed", s.Failed))
	}
	fmt.Fprintln(w, strings.Join(line, ", "))
	for _, why := range append(slices.Clone(s.Why), s.Trouble, s.Unlike) {
		if why != "" {
			fmt.Fprintln(w, " ", why)
		}
	}
	if len(s.Workers) > 0 {
		show(w, 2, 0, s.Workers)
	}
}
