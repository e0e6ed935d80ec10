package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit/study/campaign"
	"godwit/study/sweep"
)

func newCampaign() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Have the points of a sweep made by workers on any hosts, over NATS JetStream",
		Args:  cobra.ArbitraryArgs,
		RunE:  noSuchVerb,
	}
	cmd.AddCommand(newCampaignServe(), newCampaignWork())
	return cmd
}

// natsFlags say who may connect.
type natsFlags struct{ tokenFile, cert, key, ca string }

func (f *natsFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.tokenFile, "token-file", "", "a `FILE` with the token that both sides have to know")
	fl.StringVar(&f.cert, "tls-cert", "", "this side's TLS certificate, a `FILE` of PEM; both sides have to show one")
	fl.StringVar(&f.key, "tls-key", "", "its key, a `FILE` of PEM")
	fl.StringVar(&f.ca, "tls-ca", "", "who signs the other side's certificate, a `FILE` of PEM")
}

func (f *natsFlags) check() error {
	if n := len(strings.Join([]string{f.cert, f.key, f.ca}, "")); n > 0 && (f.cert == "" || f.key == "" || f.ca == "") {
		return errors.New("--tls-cert, --tls-key and --tls-ca: want all three")
	}
	return nil
}

func (f *natsFlags) token() (string, error) {
	if f.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.tokenFile)
	if token := strings.TrimSpace(string(text)); err != nil || token != "" {
		return token, err
	}
	return "", fmt.Errorf("--token-file %s: it is empty", f.tokenFile)
}

// options are those of a client.
func (f *natsFlags) options() (opts []nats.Option, err error) {
	token, err := f.token()
	if token != "" {
		opts = append(opts, nats.Token(token))
	}
	if f.cert != "" {
		opts = append(opts, nats.ClientCert(f.cert, f.key), nats.RootCAs(f.ca))
	}
	return opts, err
}

// serveFlags are the flags of godwit campaign serve.
type serveFlags struct {
	sweepFlags
	natsFlags
	store, listen string
}

func newCampaignServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve SCENARIO | --example NAME --store DIR",
		Short: "Coordinate a campaign: keep its journal, hand out its points",
		Long: `Coordinate a campaign: the points are those of godwit sweep with the same flags, made by godwit campaign work,
on this host and others. The results are the same files as godwit sweep writes.

DIR/journal.rows has every row as soon as it is there, for good (fsync). However often coordinator and workers are killed,
serve with the same --store goes on. A NATS server is a part of this command; it listens on the loopback address unless
--listen says another, which wants --token-file or the --tls flags. Its port is kept in DIR.

Exit code: as of godwit sweep; 1, too, where two workers made a point differently.`,
		Example: `  godwit campaign serve study.yaml --set n=1..100000 --fast --store campaign --out study.csv
  godwit campaign work nats://127.0.0.1:40031`,
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
	fl := cmd.Flags()
	fl.BoolVar(&f.fast, "fast", false, "keep no times")
	fl.StringVar(&f.store, "store", "", "the campaign's `DIR`: its journal, its port, its streams")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "listen at `HOST:PORT`; port 0 is the one that it had before")
	f.natsFlags.register(fl)
	return cmd
}

// check refuses what a campaign cannot be.
func (f *serveFlags) check() (*campaign.Listen, error) {
	host, port, err := net.SplitHostPort(f.listen)
	l := &campaign.Listen{Store: f.store, Host: host, Cert: f.cert, Key: f.key, CA: f.ca}
	if err == nil {
		l.Port, err = net.LookupPort("tcp", port)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("--listen %s: %w", f.listen, err)
	case f.store == "":
		return nil, errors.New("--store: where is the campaign to be kept?")
	case !f.fast && f.machine == "":
		return nil, errors.New("a campaign: times that are measured would be of unlike hosts: want --fast, which keeps no times, or --machine, whose times are virtual")
	case f.tokenFile == "" && f.cert == "" && !isLoopback(host):
		return nil, fmt.Errorf("--listen %s: anybody might connect: want --token-file, or --tls-cert, --tls-key and --tls-ca", f.listen)
	}
	if err := f.natsFlags.check(); err != nil {
		return nil, err
	}
	l.Token, err = f.token()
	return l, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func runServe(ctx context.Context, w io.Writer, file string, f *serveFlags) (err error) {
	l, err := f.check()
	if err != nil {
		return err
	}
	c, err := f.sweepOf(ctx, file)
	if err != nil {
		return err
	}
	rows, err := c.Rows(ctx)
	if err != nil {
		return sweepError(ctx, err)
	}
	points := rows.Points().Len()
	if err := f.checkPoints(points); err != nil {
		return err
	}
	debug.SetGCPercent(40) // rows come and go
	if err := os.MkdirAll(f.store, 0o700); err != nil {
		return err
	}
	journal, err := openCampaign(f.store, rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	bar := newProgress(points, "points")
	co := &campaign.Coordinator{Config: c, Rows: rows, Sync: journal.Sync, Say: say, Progress: func(done, workers int) {
		bar.Describe(plural(workers, "worker"))
		_ = bar.Set(min(done, points-1))
	}}
	err = serve(ctx, f, l, co)
	_ = bar.Finish()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; what is done is in %s: serve with the same --store goes on", endOf(ctx, err), f.store)
	}
	if err != nil {
		return sweepError(ctx, err)
	}
	res, err := rows.Results()
	if err == nil {
		err = f.write(ctx, w, c.File, res)
	}
	if err != nil {
		return failed{err}
	}
	if found := co.Finding(); found != nil {
		return failed{found}
	}
	return asExpected(c.File, res)
}

// openCampaign opens a campaign's journal.
func openCampaign(store string, rows *sweep.Rows) (*sweep.Journal, error) {
	path := filepath.Join(store, "journal.rows")
	j, err := sweep.OpenJournal(path)
	if errors.Is(err, sweep.ErrBusy) {
		return nil, failed{err}
	}
	if err != nil {
		return nil, err
	}
	dropped, err := rows.Keep(j)
	if err != nil {
		return nil, errors.Join(failed{err}, j.Close())
	}
	sayDropped(path, dropped)
	return j, nil
}

// serve runs the campaign until its end, with a new server where one has failed: the journal lacks nothing by it.
func serve(ctx context.Context, f *serveFlags, l *campaign.Listen, co *campaign.Coordinator) error {
	if err := co.Probe(ctx); err != nil {
		return err
	}
	for first := true; ; first = false {
		server, err := l.Start(ctx)
		if err != nil && first {
			return err // of what it was told: a port, a certificate, a directory
		}
		if err == nil {
			err = serveOnce(ctx, f, server, co)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, campaign.ErrFault) {
			return err
		}
		say("%v; a new server is started", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func serveOnce(ctx context.Context, f *serveFlags, server *server.Server, co *campaign.Coordinator) error {
	defer func() {
		server.Shutdown()
		server.WaitForShutdown()
	}()
	say("workers connect to %s", server.ClientURL())
	opts, err := f.options()
	if err != nil {
		return err
	}
	nc, err := campaign.Connect(server.ClientURL(), "coordinator", append(opts, nats.InProcessServer(server))...)
	if err != nil {
		return err
	}
	defer nc.Close()
	return co.Run(ctx, nc)
}

func newCampaignWork() *cobra.Command {
	var f natsFlags
	jobs, name := 0, ""
	cmd := &cobra.Command{
		Use:   "work nats://HOST:PORT",
		Short: "Work for a campaign until it ends",
		Long: `Work for the campaign that godwit campaign serve coordinates until it ends. While nobody answers it waits: coordinator and
workers may be started in any order, and be killed at any moment.

The scenario and the values come from the coordinator, files that the scenario reads are read here. Nothing that comes is
executed. A worker of another build than the coordinator's is refused.

Exit code: 0 the campaign has ended, 1 this worker may not, or cannot, take part, 128 and the signal's number where it was
interrupted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			build, err := sweep.Executable()
			if err != nil {
				return failed{err}
			}
			opts, err := f.options()
			if err = errors.Join(err, f.check()); err != nil {
				return err
			}
			if u, err := url.Parse(args[0]); err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" {
				return fmt.Errorf("campaign work %s: want nats://HOST:PORT, as campaign serve prints it", args[0])
			}
			nc, err := campaign.Connect(args[0], name, opts...)
			if err != nil {
				return err
			}
			defer nc.Close()
			defer time.AfterFunc(time.Second, func() {
				if !nc.IsConnected() {
					say("nobody answers at %s yet: waiting", args[0])
				}
			}).Stop()
			worker := &campaign.Worker{Name: name, Build: build, Jobs: jobs, Complete: func(c *sweep.Config) { c.Machine = loadMachine }}
			if err := worker.Work(ctx, nc); err != nil {
				return failed{endOf(ctx, err)}
			}
			return nil
		},
	}
	host, _ := os.Hostname() // "" will do
	cmd.Flags().StringVar(&name, "name", fmt.Sprintf("%s-%d", host, os.Getpid()), "what the coordinator calls this worker")
	cmd.Flags().Lookup("name").DefValue = "its host and process"
	cmd.Flags().IntVar(&jobs, "jobs", runtime.GOMAXPROCS(0), "`N` points at once")
	cmd.Flags().Lookup("jobs").DefValue = "as many as there are cores"
	f.register(cmd.Flags())
	return cmd
}
