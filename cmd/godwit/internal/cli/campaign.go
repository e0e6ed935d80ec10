package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"godwit/internal/journal"
	"godwit/study/campaign"
	"godwit/study/live"
)

func newCampaign() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "campaign",
		Short: "Have the points of a sweep, or searches, made by workers on any hosts, over NATS JetStream",
		Args:  cobra.ArbitraryArgs,
		RunE:  noSuchVerb,
	}
	cmd.AddCommand(newCampaignServe(), newCampaignFuzz(), newCampaignWork(), newCampaignStatus())
	return cmd
}

// natsFlags say who may connect.
type natsFlags struct{ campaign, tokenFile, cert, key, ca string }

func (f *natsFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.campaign, "campaign", campaign.DefaultName, "the campaign's `NAME`, where a server has several")
	fl.StringVar(&f.tokenFile, "token-file", "", "a `FILE` with the token that both sides have to know")
	fl.StringVar(&f.cert, "tls-cert", "", "this side's TLS certificate, a `FILE` of PEM; both sides have to show one")
	fl.StringVar(&f.key, "tls-key", "", "its key, a `FILE` of PEM")
	fl.StringVar(&f.ca, "tls-ca", "", "who signs the other side's certificate, a `FILE` of PEM")
}

func (f *natsFlags) check() error {
	if n := len(strings.Join([]string{f.cert, f.key, f.ca}, "")); n > 0 && (f.cert == "" || f.key == "" || f.ca == "") {
		return errors.New("--tls-cert, --tls-key and --tls-ca: want all three")
	}
	return campaign.CheckName(f.campaign)
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

// connect connects to a server that somebody names.
func (f *natsFlags) connect(address, name string) (*nats.Conn, error) {
	opts, err := f.options()
	if err = errors.Join(err, f.check()); err != nil {
		return nil, err
	}
	for _, one := range strings.Split(address, ",") {
		if u, err := url.Parse(one); err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
			return nil, fmt.Errorf("%s: want nats://HOST:PORT", one)
		}
	}
	return campaign.Connect(address, name, opts...)
}

// coordinatorFlags say where a campaign is kept, and how workers find it.
type coordinatorFlags struct {
	natsFlags
	store, listen, nats, metrics string
	page                         serveFlag
}

// inStore describes the flags for help texts.
const inStore = `DIR/journal.rows has every row as soon as it is there, for good (fsync). However often coordinator and workers are killed,
the same command with the same --store goes on. A NATS server is a part of this command; it listens on the loopback address unless
--listen says another, which wants --token-file or the --tls flags. Its port is kept in DIR. --nats names a server or
cluster that exists, with JetStream; several campaigns there have each a --campaign NAME of its own.`

func (f *coordinatorFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.store, "store", "", "the campaign's `DIR`: its journal, its port, its streams")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "listen at `HOST:PORT`; port 0 is the one that it had before")
	fl.StringVar(&f.nats, "nats", "", "in place of a server of its own use those at `URLS`, with commas between")
	fl.StringVar(&f.metrics, "metrics", "", "serve figures at `HOST:PORT`: /metrics for Prometheus, /status as JSON; without HOST on the loopback address")
	f.page.register(fl)
	f.natsFlags.register(fl)
}

// check refuses what a campaign cannot be, and says where its server is to listen.
func (f *coordinatorFlags) check() (*campaign.Listen, error) {
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
	case f.nats == "" && f.tokenFile == "" && f.cert == "" && !isLoopback(host):
		return nil, fmt.Errorf("--listen %s: anybody might connect: want --token-file, or --tls-cert, --tls-key and --tls-ca", f.listen)
	}
	if f.metrics != "" {
		if host, port, err = net.SplitHostPort(f.metrics); err != nil {
			return nil, fmt.Errorf("--metrics %s: %w", f.metrics, err)
		}
		if host == "" {
			f.metrics = net.JoinHostPort("127.0.0.1", port)
		}
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

// openStore opens the journal of a store, which keep is to take rows from.
func (f *coordinatorFlags) openStore(name string, keep func(*journal.File) (dropped int, err error)) (*journal.File, error) {
	if err := os.MkdirAll(f.store, 0o700); err != nil {
		return nil, err
	}
	return openJournal(filepath.Join(f.store, "journal.rows"), name, takeJournal(keep))
}

// openJournal opens the journal at path, which keep is to take rows from.
func openJournal(path, name string, keep func(*journal.File) (dropped int, err error)) (*journal.File, error) {
	j, err := journal.Open(path, name)
	switch {
	case errors.Is(err, journal.ErrBusy):
		return nil, failed{err}
	case errors.Is(err, journal.ErrNone):
		return nil, fmt.Errorf("%w: its first line is damaged, or it is another file: move it away; godwit sweep --resume takes whole rows from where it is then", err)
	case err != nil:
		return nil, err
	}
	dropped, err := keep(j)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	sayDropped(path, dropped)
	return j, nil
}

// takeJournal is keep, whose errors are no usage's.
func takeJournal(keep func(*journal.File) (int, error)) func(*journal.File) (int, error) {
	return func(j *journal.File) (int, error) {
		dropped, err := keep(j)
		if err != nil {
			err = failed{err}
		}
		return dropped, err
	}
}

// coordinate runs the campaign until its end, with a new server where one has failed: the journal lacks nothing by it.
func (f *coordinatorFlags) coordinate(ctx context.Context, l *campaign.Listen, co *campaign.Coordinator) (err error) {
	debug.SetGCPercent(40) // rows come and go
	host, _ := os.Hostname()
	store, _ := filepath.Abs(f.store)
	co.Name, co.Owner, co.Say = f.campaign, host+":"+store, say
	if err := co.Probe(ctx); err != nil {
		return err
	}
	if f.metrics != "" {
		at, wait, err := campaign.Expose(ctx, f.metrics, co.Status)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		say("figures are at http://%v/metrics and /status", at)
		defer func() { err = errors.Join(err, wait()) }()
	}
	bar := newProgressOf(co.Status().Total, "points", func(s *live.State) { *s = campaignState(co.Status()) })
	defer bar.finish()
	page, err := f.page.serve(ctx, live.Options{Title: "Campaign " + f.campaign, State: bar.state})
	if err != nil {
		return err
	}
	defer func() {
		page.end(err)
		page.close()
	}()
	taken := time.Now().Add(15 * time.Second) // a lock that nobody has any more has expired by then
	for first := true; ; first = false {
		known, err := f.once(ctx, l, co)
		if err == nil || ctx.Err() != nil || first && !known || errors.Is(err, campaign.ErrFault) || errors.Is(err, journal.ErrChanged) ||
			errors.Is(err, campaign.ErrTaken) && time.Now().After(taken) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			return err
		}
		say("%v; trying again", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// once runs the campaign with a server. It is not known what is wrong where there is none: of what it was told, a port, a certificate, a directory.
func (f *coordinatorFlags) once(ctx context.Context, l *campaign.Listen, co *campaign.Coordinator) (known bool, err error) {
	if f.nats != "" {
		nc, err := f.connect(f.nats, "coordinator")
		if err != nil {
			return false, err
		}
		defer nc.Close()
		err = co.Run(ctx, nc)
		if nc.IsClosed() {
			return false, errors.Join(nc.LastError(), err)
		}
		return true, err
	}
	opts, err := f.options()
	if err != nil {
		return false, err
	}
	server, err := l.Start(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		server.Shutdown()
		server.WaitForShutdown()
	}()
	say("workers connect to %s", server.ClientURL())
	nc, err := campaign.Connect(server.ClientURL(), "coordinator", append(opts, nats.InProcessServer(server))...)
	if err != nil {
		return false, err
	}
	defer nc.Close()
	return true, co.Run(ctx, nc)
}

// campaignState is how a campaign goes, for a bar and a page.
func campaignState(c campaign.Status) (s live.State) {
	s = live.State{Stage: "points", Done: int64(c.Done), Total: int64(c.Total), Elapsed: c.Elapsed, ETA: c.ETA, Facts: []live.Fact{{Value: fmt.Sprint(c.Active()), Name: "workers"}}}
	if c.Kind == "fuzz" {
		s.Stage = fmt.Sprintf("round %d of %d, units", c.Round, c.Rounds)
	}
	for name, n := range map[string]int{"findings": c.Findings, "sequences": c.Evals, "failed": c.Failed, "given up": c.Given} {
		if n > 0 {
			s.Facts = append(s.Facts, live.Fact{Value: humanize.Comma(int64(n)), Name: name})
		}
	}
	slices.SortFunc(s.Facts, func(a, b live.Fact) int { return strings.Compare(b.Name, a.Name) })
	workers := live.Table{Title: "workers", Header: []string{"worker", "jobs", "made", "a second", "silent for"}}
	for _, w := range c.Workers {
		workers.Rows = append(workers.Rows, []string{w.Name, fmt.Sprint(w.Jobs), humanize.Comma(int64(w.Made)), fmt.Sprintf("%.1f", w.Rate), roughly(w.Silent)})
	}
	failed := live.Table{Title: "what went wrong", Header: []string{"why"}}
	for _, why := range append([]string{c.Trouble, c.Unlike}, c.Why...) {
		if why != "" {
			failed.Rows = append(failed.Rows, []string{why})
		}
	}
	s.Tables = []live.Table{workers, failed}
	return s
}

// campaignError is what a campaign ended with.
func (f *coordinatorFlags) campaignError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w; what is done is in %s: the same command with the same --store goes on", endOf(ctx, err), f.store)
	}
	return sweepError(ctx, err)
}
