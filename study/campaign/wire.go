package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit/study/scenario"
	"godwit/study/sweep"
)

const (
	hello      = "godwit.hello" // workers ask there for a campaign
	consumer   = "workers"
	ackWait    = 5 * time.Second        // no sign of life for so long, and a unit is another worker's
	deliveries = 8                      // of a unit, each of which ended without an end: then its points are units of their own
	chunkTime  = 200 * time.Millisecond // what a chunk takes: what a kill loses
	unitTime   = 4 * time.Second
	maxBody    = 512 << 10 // bytes of a chunk's rows
	asking     = 2 * time.Second
)

// greeting is what a worker says at hello, and every second while it works.
type greeting struct {
	Name  string `json:"name"`
	Build string `json:"build"`
}

// spec is what a worker is told of a campaign. Nothing of it is executed.
type spec struct {
	Refused string           `json:"refused,omitempty"` // why the worker may not take part
	Ended   bool             `json:"ended,omitempty"`
	ID      string           `json:"id"` // the sweep's
	File    string           `json:"file"`
	Data    []byte           `json:"data"`
	Base    scenario.Options `json:"base"`
	Axes    []sweep.Axis     `json:"axes"`
	Stamps  bool             `json:"stamps"`
	Fast    bool             `json:"fast"`
}

// unit is a run of points that a worker leases, in chunks.
type unit struct {
	Lo    int `json:"lo"`
	Hi    int `json:"hi"` // without it
	Chunk int `json:"chunk"`
}

// The names of a campaign's streams and subjects.
func unitsOf(id string) string   { return "GODWIT_" + id + "_UNITS" }
func rowsOf(id string) string    { return "GODWIT_" + id + "_ROWS" }
func topic(id, of string) string { return "godwit." + id + "." + of }
func (u *unit) subject(id string) string {
	return fmt.Sprintf("%s.%d.%d", topic(id, "unit"), u.Lo, u.Hi)
}

// chunkSubject is that of the rows of points lo to hi, without hi, whoever makes them.
func chunkSubject(id string, lo, hi int) string {
	return fmt.Sprintf("%s.%d.%d", topic(id, "rows"), lo, hi)
}

// parseUnit reads a unit of a campaign of n points.
func parseUnit(data []byte, n int) (u unit, err error) {
	if err = json.Unmarshal(data, &u); err == nil && (u.Lo < 0 || u.Hi <= u.Lo || u.Hi > n || u.Chunk < 1) {
		err = fmt.Errorf("a unit of points %d to %d of %d", u.Lo, u.Hi, n)
	}
	return u, err
}

// isThere reports whether a message was refused because its subject has one.
func isThere(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && strings.Contains(api.Description, "maximum messages per subject")
}

// Connect is a connection to NATS that is made again for ever; name is what the server calls it. Close must follow.
func Connect(url, name string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{nats.Name("godwit " + name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2)}, opts...)...)
}
