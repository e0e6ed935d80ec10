package campaign_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
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
commands: [{fill: a, offset: 0, size: 4 * n, pattern: 1}]
`

// site is a campaign of some points, with a server, and a connection of whoever plays a worker.
type site struct {
	co     *campaign.Coordinator
	rows   *sweep.Rows
	config *sweep.Config
	nc     *nats.Conn
	js     jetstream.JetStream
	id     string
	done   chan error
}

func begin(t *testing.T, values string) *site {
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
	s.rows, s.config = rows, c
	s.co = &campaign.Coordinator{Name: "c", Owner: "me", Build: "this", Work: &campaign.Sweep{Rows: rows, Config: c}, Sync: j.Sync, Say: t.Logf}
	require.NoError(t, s.co.Probe(t.Context()))
	own, err := campaign.Connect(server.ClientURL(), "coordinator")
	require.NoError(t, err)
	t.Cleanup(own.Close)
	s.nc, err = campaign.Connect(server.ClientURL(), "worker")
	require.NoError(t, err)
	t.Cleanup(s.nc.Close)
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	go func() { s.done <- s.co.Run(t.Context(), own) }()
	require.Eventually(t, func() bool {
		_, err := s.js.Consumer(t.Context(), "GODWIT_"+s.id+"_UNITS", "workers")
		return err == nil
	}, time.Minute, time.Millisecond)
	return s
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
	msg, err := cons.Next(jetstream.FetchMaxWait(10 * time.Second))
	require.NoError(t, err)
	return msg
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
