package campaign_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	_ "godwit/devices/cpu"
	"godwit/internal/journal"
	"godwit/study/campaign"
	"godwit/study/sweep"
)

const swept = `
params: {n: {type: integer, default: 1}}
devices: [{name: d, driver: cpu, memory: 64 KiB}]
buffers: [{name: a, size: 256, fill: 1}]
commands: [{fill: a, offset: 0, size: 4 + 4 * (n % 32), pattern: 1}]
`

// site is a campaign of some points, with a server, and a connection of whoever plays a worker.
type site struct {
	co     *campaign.Coordinator
	rows   *sweep.Rows
	config *sweep.Config
	nc     *nats.Conn
	js     jetstream.JetStream
	id     string
	url    string
	own    *nats.Conn // the coordinator's
	stop   context.CancelFunc
	done   chan error
}

func begin(t *testing.T, values string) *site {
	t.Helper()
	return beginWith(t, values, func(w *campaign.Sweep) campaign.Work { return w })
}

// beginWith is begin with something between the coordinator and its rows.
func beginWith(t *testing.T, values string, as func(*campaign.Sweep) campaign.Work) *site {
	t.Helper()
	axis, err := sweep.ParseAxis("n=" + values)
	require.NoError(t, err)
	c := &sweep.Config{File: "s.yaml", Data: []byte(swept), Build: "this", Fast: true, Axes: []sweep.Axis{axis}}
	rows, err := c.Rows(t.Context())
	require.NoError(t, err)
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.rows"), sweep.JournalName)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	_, err = rows.Keep(j)
	require.NoError(t, err)
	server, err := (&campaign.Listen{Store: t.TempDir(), Host: "127.0.0.1"}).Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	s := &site{id: rows.ID(), done: make(chan error, 1)}
	s.rows, s.config, s.url = rows, c, server.ClientURL()
	s.co = &campaign.Coordinator{Name: "c", Owner: "me", Build: "this", Work: as(&campaign.Sweep{Rows: rows, Config: c}), Sync: j.Sync, Say: t.Logf}
	require.NoError(t, s.co.Probe(t.Context()))
	s.own, err = campaign.Connect(server.ClientURL(), "coordinator")
	require.NoError(t, err)
	t.Cleanup(s.own.Close)
	s.nc, err = campaign.Connect(server.ClientURL(), "worker")
	require.NoError(t, err)
	t.Cleanup(s.nc.Close)
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	s.run(t)
	require.Eventually(t, func() bool {
		_, err := s.js.Consumer(t.Context(), "GODWIT_"+s.id+"_UNITS", "workers")
		return err == nil
	}, time.Minute, time.Millisecond)
	return s
}

// run has the coordinator run until stop.
func (s *site) run(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	s.stop = stop
	go func() { s.done <- s.co.Run(ctx, s.own) }()
}

// work has a worker of a build work until the campaign ends.
func (s *site) work(ctx context.Context, build string) error {
	w := &campaign.Worker{Campaign: "c", Name: "w", Jobs: 2, Makers: campaign.Makers{Build: build, Complete: func(*sweep.Config) {}}}
	return w.Work(ctx, s.nc)
}

// lease is the next unit.
func (s *site) lease(t *testing.T) jetstream.Msg {
	t.Helper()
	cons, err := s.js.Consumer(t.Context(), "GODWIT_"+s.id+"_UNITS", "workers")
	require.NoError(t, err)
	for { // as a worker: a consumer that has just been made may have nobody yet who answers
		msg, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
		if !errors.Is(err, nats.ErrNoResponders) {
			require.NoError(t, err)
			return msg
		}
	}
}

func TestAWorkerOfAnotherBuildIsRefused(t *testing.T) {
	s := begin(t, "1..10")
	err := s.work(t.Context(), "that")
	require.ErrorIs(t, err, campaign.ErrRefused)
	require.ErrorContains(t, err, "it is of build that, the campaign of this")
	require.NoError(t, s.work(t.Context(), "this"))
	require.NoError(t, <-s.done)
	res, err := s.rows.Results()
	require.NoError(t, err)
	require.Equal(t, []int{10, 0}, []int{res.Points, res.Failed})
	require.Empty(t, s.co.Finding())
	require.Len(t, s.co.Status().Workers, 1)
}

// TestRowsThatDifferAreFound: whoever was first has its rows taken, and the coordinator says which are not the same.
func TestRowsThatDifferAreFound(t *testing.T) {
	s := begin(t, "1..40")
	var u struct{ Lo, Hi, Chunk int }
	require.NoError(t, json.Unmarshal(s.lease(t).Data(), &u)) // its worker says nothing any more: another gets it
	points := s.rows.Points()
	row, err := s.config.Row(t.Context(), points.At(u.Lo))
	require.NoError(t, err)
	wrong := strings.Replace(string(row), `"commands":1`, `"commands":2`, 1)
	_, err = s.js.Publish(t.Context(), "godwit."+s.id+".rows.other.1", journal.Encode(u.Lo, []byte(wrong)))
	require.NoError(t, err)
	require.NoError(t, s.work(t.Context(), "this"))
	require.NoError(t, <-s.done)
	require.ErrorIs(t, s.co.Finding(), journal.ErrUnlike)
	res, err := s.rows.Results()
	require.NoError(t, err)
	require.Equal(t, 40, res.Points)
}

// TestAPointThatEndsItsWorkersHasARow: its unit is divided, so that the others of it are made, and the point has an
// error.
func TestAPointThatEndsItsWorkersHasARow(t *testing.T) {
	s := begin(t, "1..8")
	const deadly = 2 // of the indices: not one that is made as a probe
	kills := 0
	for s.rows.Have() < 8 {
		cons, err := s.js.Consumer(t.Context(), "GODWIT_"+s.id+"_UNITS", "workers")
		if err != nil {
			break // the campaign has ended
		}
		msg, err := cons.Next(jetstream.FetchMaxWait(200 * time.Millisecond))
		if err != nil {
			continue
		}
		var u struct{ Lo, Hi, Chunk int }
		require.NoError(t, json.Unmarshal(msg.Data(), &u))
		if u.Lo <= deadly && deadly < u.Hi {
			kills++
			require.NoError(t, msg.Nak())
			continue
		}
		var body []byte
		for i := u.Lo; i < u.Hi; i++ {
			row, err := s.config.Row(t.Context(), s.rows.Points().At(i))
			require.NoError(t, err)
			body = append(body, journal.Encode(i, row)...)
		}
		_, err = s.js.Publish(t.Context(), "godwit."+s.id+".rows.x."+msg.Subject()[strings.LastIndex(msg.Subject(), ".")+1:], body)
		require.NoError(t, err)
		require.NoError(t, msg.Ack())
	}
	require.NoError(t, <-s.done)
	require.Equal(t, 16, kills, "of the unit, and of the point alone")
	res, err := s.rows.Results()
	require.NoError(t, err)
	require.Equal(t, 1, res.Failed)
	require.Equal(t, "given up: 8 workers ended while they were at it", res.Reason)
}

// proxy stands between a worker and its server, and is cut now and then.
type proxy struct {
	net.Listener
	to  string
	mu  sync.Mutex
	cut bool       // protected by mu
	all []net.Conn // protected by mu
}

func (p *proxy) serve() {
	for {
		from, err := p.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		if err != nil || p.cut {
			_ = from.Close() // nobody is there
		} else {
			p.all = append(p.all, from, to)
			for a, b := range map[net.Conn]net.Conn{from: to, to: from} {
				go func() { _, _ = io.Copy(a, b) }() // ends with the connections
			}
		}
		p.mu.Unlock()
	}
}

// set cuts all connections and refuses others, or has them again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut = cut; cut {
		for _, c := range p.all {
			_ = c.Close() // it is to be cut
		}
		p.all = nil
	}
}

// TestConnectionsAreCut: for some time at random, while units are leased and rows published; nothing is lost, nothing is there twice.
// GODWIT_SOAK cuts for 1 to 60 s, twelve times.
func TestConnectionsAreCut(t *testing.T) {
	cuts, least, most := 4, 20*time.Millisecond, 300*time.Millisecond
	if os.Getenv("GODWIT_SOAK") != "" {
		cuts, least, most = 12, time.Second, time.Minute
	}
	s := begin(t, "1..3000")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: l, to: strings.TrimPrefix(s.url, "nats://")}
	t.Cleanup(func() { require.NoError(t, p.Close()); p.set(true) })
	go p.serve()
	nc, err := campaign.Connect("nats://"+l.Addr().String(), "w")
	require.NoError(t, err)
	defer nc.Close()
	s.nc = nc
	worked := make(chan error, 1)
	go func() { worked <- s.work(t.Context(), "this") }()
	rng := rand.New(rand.NewPCG(37, 3))
	for range cuts {
		have := s.rows.Have()
		require.Eventually(t, func() bool { return s.rows.Have() > have || have == 3000 }, 2*time.Minute, time.Millisecond)
		p.set(true)
		time.Sleep(least + time.Duration(rng.Int64N(int64(most-least))))
		p.set(false)
	}
	require.NoError(t, <-s.done)
	require.NoError(t, s.co.Finding())
	require.Equal(t, 3000, s.rows.Have())
	p.set(false)
	select {
	case err = <-worked: // it was told that the campaign has ended
		require.NoError(t, err)
	case <-time.After(5 * time.Second): // or was cut off at that moment, and waits for the next
	}
}

// full is a sweep whose disk has no room for some time.
type full struct {
	*campaign.Sweep
	left atomic.Int32
}

func (f *full) Accept(lines []byte) ([]string, error) {
	if f.left.Add(-1) >= 0 {
		return nil, syscall.ENOSPC
	}
	return f.Sweep.Accept(lines)
}

// TestAFullDiskIsSaid: and when there is room it goes on.
func TestAFullDiskIsSaid(t *testing.T) {
	var disk *full
	s := beginWith(t, "1..40", func(w *campaign.Sweep) campaign.Work { disk = &full{Sweep: w}; return disk })
	disk.left.Store(2)
	worked := make(chan error, 1)
	go func() { worked <- s.work(t.Context(), "this") }()
	require.Eventually(t, func() bool {
		at, err := campaign.Ask(t.Context(), s.nc, "c")
		return err == nil && at.Trouble == syscall.ENOSPC.Error()
	}, time.Minute, time.Millisecond)
	require.NoError(t, <-s.done)
	require.NoError(t, <-worked)
	require.Equal(t, 40, s.rows.Have())
	require.Empty(t, s.co.Status().Trouble)
}

// TestACoordinatorThatBeginsAnewCostsNoUnit: workers have a unit each when another coordinator publishes what is missing. They leave it after
// the chunk that they are at, which stays a chunk: what is made twice is at most one chunk of each worker, and each time.
func TestACoordinatorThatBeginsAnewCostsNoUnit(t *testing.T) {
	const points, jobs, times = 1500, 2, 2
	s := begin(t, "1..1500")
	units, err := s.js.Stream(t.Context(), "GODWIT_"+s.id+"_UNITS")
	require.NoError(t, err)
	chunk, err := strconv.Atoi(units.CachedInfo().Config.Metadata["chunk"])
	require.NoError(t, err)
	w := &campaign.Worker{Campaign: "c", Name: "w", Jobs: jobs, Makers: campaign.Makers{Build: "this", Complete: func(*sweep.Config) {}}}
	worked := make(chan error, 1)
	go func() { worked <- w.Work(t.Context(), s.nc) }()
	for range times {
		have := s.rows.Have()
		require.Eventually(t, func() bool { return s.rows.Have() > have || have == points }, time.Minute, time.Millisecond)
		s.stop()
		require.ErrorIs(t, <-s.done, context.Canceled)
		s.run(t)
	}
	require.NoError(t, <-s.done)
	require.NoError(t, <-worked)
	require.Equal(t, points, s.rows.Have())
	require.NoError(t, s.co.Finding())
	require.LessOrEqual(t, w.Made(), points+times*jobs*chunk, "chunks of %d", chunk)
}

// TestANameHasOneCoordinator: another is refused, the same is not, and neither is another once it has ended.
func TestANameHasOneCoordinator(t *testing.T) {
	s := begin(t, "1..10")
	other := &campaign.Coordinator{Name: "c", Owner: "you", Build: "this", Work: s.co.Work, Sync: s.co.Sync, Say: t.Logf}
	err := other.Run(t.Context(), s.nc)
	require.ErrorIs(t, err, campaign.ErrTaken)
	require.ErrorContains(t, err, "me;")
	require.NoError(t, s.work(t.Context(), "this"))
	require.NoError(t, <-s.done)
	require.NoError(t, other.Run(t.Context(), s.nc), "all is made")
	_, err = campaign.Ask(t.Context(), s.nc, "d")
	require.ErrorContains(t, err, "campaign d: no coordinator answers")
}

// TestFiguresAreServed: for Prometheus and as JSON.
func TestFiguresAreServed(t *testing.T) {
	s := begin(t, "1..10")
	at, wait, err := campaign.Expose(t.Context(), "127.0.0.1:0", s.co.Status)
	require.NoError(t, err)
	require.NoError(t, s.work(t.Context(), "this"))
	require.NoError(t, <-s.done)
	get := func(path string) string {
		res, err := http.Get("http://" + at.String() + path) //nolint:noctx // of this test
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		return string(text)
	}
	text := get("/metrics")
	for _, line := range []string{"godwit_campaign_done 10", "godwit_campaign_total 10", "godwit_campaign_failed_total 0", `godwit_campaign_worker_rows_total{worker="w"}`} {
		require.Contains(t, text, line)
	}
	var status campaign.Status
	require.NoError(t, json.Unmarshal([]byte(get("/status")), &status))
	require.Equal(t, []any{"c", "sweep", 10, 10, true}, []any{status.Campaign, status.Kind, status.Done, status.Total, status.Ended})
	require.NoError(t, wait())
}

// A unit's chunks lie within it, whatever a message says of them.
func TestAUnitsChunksAreWithinIt(t *testing.T) {
	for text, want := range map[string]int{
		`{"lo":4,"hi":9,"chunk":2}`:                   2,
		`{"lo":4,"hi":9,"chunk":7}`:                   3,
		`{"lo":4,"hi":9,"chunk":9223372036854775807}`: 5,
	} {
		first, err := campaign.ParseUnit(text)
		require.NoError(t, err)
		require.Equal(t, want, first, text)
	}
	for _, text := range []string{``, `{"lo":-1,"hi":9,"chunk":2}`, `{"lo":4,"hi":4,"chunk":2}`, `{"lo":4,"hi":9}`, `{"lo":4,"hi":9,"chunk":-1}`} {
		_, err := campaign.ParseUnit(text)
		require.Error(t, err, text)
	}
}
