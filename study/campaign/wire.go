package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"godwit/mem"
)

const (
	consumer   = "workers"
	ackWait    = 5 * time.Second        // no sign of life for so long, and a unit is another worker's
	deliveries = 8                      // of a unit, each of which ended without an end: then its points are units of their own
	chunkTime  = 200 * time.Millisecond // what a chunk takes: what a kill loses
	unitTime   = 4 * time.Second
	maxBody    = 512 << 10 // bytes of a chunk's rows
	asking     = 2 * time.Second
)

// DefaultName is what a campaign is called that is alone with its server.
const DefaultName = "campaign"

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckName says whether a campaign may have a name: it is a part of subjects.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("campaign %q: want letters, digits, - and _, 64 at most: %w", name, mem.ErrInvalidValue)
	}
	return nil
}

// Where workers ask for a campaign, and anybody for how it goes.
func helloOf(name string) string  { return "godwit.hello." + name }
func statusOf(name string) string { return "godwit.status." + name }

// greeting is what a worker says at hello, and every second while it works.
type greeting struct {
	Name  string `json:"name"`
	Build string `json:"build"`
	Made  int    `json:"made"` // rows, since it began
	Jobs  int    `json:"jobs"`
}

// spec is what a worker is told of a campaign.
type spec struct {
	Refused string `json:"refused,omitempty"` // why the worker may not take part
	Ended   bool   `json:"ended,omitempty"`
	ID      string `json:"id"` // the work's
	Task    task   `json:"task"`
}

// unit is a run of indices that a worker leases, in chunks.
type unit struct {
	Lo    int             `json:"lo"`
	Hi    int             `json:"hi"` // without it
	Chunk int             `json:"chunk"`
	Given json.RawMessage `json:"given,omitempty"` // what else its rows depend on
}

// The names of a campaign's streams and subjects.
func unitsOf(id string) string   { return "GODWIT_" + id + "_UNITS" }
func rowsOf(id string) string    { return "GODWIT_" + id + "_ROWS" }
func topic(id, of string) string { return "godwit." + id + "." + of }
func (u *unit) subject(id string) string {
	return fmt.Sprintf("%s.%d.%d", topic(id, "unit"), u.Lo, u.Hi)
}

// chunkSubject is that of the rows of indices lo to hi, without hi, whoever makes them.
func chunkSubject(id string, lo, hi int) string {
	return fmt.Sprintf("%s.%d.%d", topic(id, "rows"), lo, hi)
}

// parseUnit reads a unit.
func parseUnit(data []byte) (u unit, err error) {
	if err = json.Unmarshal(data, &u); err == nil && (u.Lo < 0 || u.Hi <= u.Lo || u.Chunk < 1) {
		err = fmt.Errorf("a unit of %d to %d by %d: %w", u.Lo, u.Hi, u.Chunk, mem.ErrInvalidValue)
	}
	return u, err
}

// next is where the chunk ends that lo is in. Chunks begin at multiples of their size, whatever the units are.
func (u *unit) next(lo int) int {
	if left := u.Chunk - lo%u.Chunk; left < u.Hi-lo {
		return lo + left
	}
	return u.Hi
}

// publishOnce publishes a message unless its subject has one: it reports whether it had.
func publishOnce(ctx context.Context, js jetstream.JetStream, subject string, data []byte) (had bool, err error) {
	_, err = js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(0))
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return true, nil
	}
	return false, err
}

// Connect is a connection to NATS that is made again for ever; name is what the server calls it. Close must follow.
func Connect(url, name string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{nats.Name("godwit " + name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2)}, opts...)...)
}
