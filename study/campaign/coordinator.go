package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"godwit/internal/journal"
)

// Coordinator has work done by workers.
type Coordinator struct {
	Name  string // of the campaign: workers ask for it; nobody else may have it
	Owner string // who this is, for others that want the name: the same over a restart
	Build string
	Work  Work
	Sync  func() error // has the journal survive the computer
	Say   func(format string, args ...any)

	chunk, unit int // indices

	board board
	mu    sync.Mutex
	fault error // protected by mu: why the campaign cannot be
}

// Probe makes some points of a sweep here, of which units and chunks are sized: of those, a chunk takes 0.2 s and a unit 4 s, so far as other
// points are like these.
func (c *Coordinator) Probe(ctx context.Context) error {
	c.chunk, c.unit = 1, 1
	s, ok := c.Work.(*Sweep)
	if !ok {
		return nil
	}
	points := s.Points()
	var longest time.Duration
	largest := 1
	for k := range 3 {
		i, _ := s.Missing(k*(points.Len()-1)/2, 1)
		if i == points.Len() {
			continue
		}
		began := time.Now()
		row, err := s.Config.Row(ctx, points.At(i))
		if err == nil {
			_, err = s.Accept(journal.Encode(i, row))
		}
		if err != nil {
			return err
		}
		longest, largest = max(longest, time.Since(began)), max(largest, len(row))
	}
	longest = max(longest, time.Microsecond)
	c.chunk = max(1, min(int(chunkTime/longest), maxBody/2/largest))
	c.unit = c.chunk * max(1, min(int(unitTime/longest)/c.chunk, 64))
	return nil
}

// Run has workers at nc make what the work lacks, and returns when there is all, or ctx ends. It fails with ErrTaken where another has
// the name, with ErrFault where a worker says that a row cannot be made, and with journal.ErrChanged. Any other error is one of
// NATS: Run may be called again, with the same server or another. Afterwards Finding says what was found.
func (c *Coordinator) Run(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	l, err := take(ctx, js, c.Name, c.Owner)
	if err != nil {
		return err
	}
	defer l.free(context.WithoutCancel(ctx))
	r := &running{Coordinator: c, nc: nc, js: js, id: c.Work.ID(), bodies: make(chan body, 64)}
	group, ctx := errgroup.WithContext(ctx)
	over, end := context.WithCancel(ctx)
	group.Go(func() error { return l.keep(over) })
	group.Go(func() error {
		defer end()
		return r.run(over)
	})
	err = group.Wait()
	return errors.Join(err, r.unsubscribe())
}

// Finding is that two rows of an index differ, nil where none do.
func (c *Coordinator) Finding() error {
	c.board.mu.Lock()
	defer c.board.mu.Unlock()
	return c.board.unlike
}

// running is a campaign on a connection.
type running struct {
	*Coordinator
	nc       *nats.Conn
	js       jetstream.JetStream
	id       string
	units    jetstream.Stream
	rows     jetstream.Stream
	subs     []*nats.Subscription
	bodies   chan body
	refusals int    // protected by mu: of rows since the last that came
	refused  error  // protected by mu: there are too many
	next     int    // the index from which on units are to be published
	last     uint64 // of ROWS, what was read
}

// unsubscribe has nothing of the connection call back any more.
func (r *running) unsubscribe() (err error) {
	for _, s := range r.subs {
		if serr := s.Unsubscribe(); !errors.Is(serr, nats.ErrConnectionClosed) {
			err = errors.Join(err, serr)
		}
	}
	return err
}

// body is a message of ROWS.
type body struct {
	lines []byte
	seq   uint64
}

func (r *running) run(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for r.Work.Have() < r.Work.Len() {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-r.bodies:
			err = r.take(ctx, b)
		case <-tick.C:
			err = r.refill(ctx)
		}
		r.mu.Lock()
		err = errors.Join(r.fault, r.refused, err)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return r.end(ctx)
}

// sizes takes those of the units that are there, of a run before: chunks that workers have from it are chunks yet.
func (r *running) sizes(ctx context.Context) error {
	units, err := r.js.Stream(ctx, unitsOf(r.id))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	had := units.CachedInfo().Config.Metadata
	chunk, _ := strconv.Atoi(had["chunk"]) // 0 of a stream that tells none
	unit, _ := strconv.Atoi(had["unit"])
	if 0 < chunk && chunk <= maxBody && 0 < unit && unit <= 64*chunk && unit%chunk == 0 {
		r.chunk, r.unit = chunk, unit
	}
	return nil
}

// begin makes the streams anew, and listens.
func (r *running) begin(ctx context.Context) (err error) {
	if err := r.sizes(ctx); err != nil {
		return err
	}
	for _, name := range []string{unitsOf(r.id), rowsOf(r.id)} {
		if err := r.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	one := jetstream.StreamConfig{Name: unitsOf(r.id), Subjects: []string{topic(r.id, "unit.>")}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1, Storage: jetstream.FileStorage, Replicas: 1,
		Metadata: map[string]string{"chunk": strconv.Itoa(r.chunk), "unit": strconv.Itoa(r.unit)}}
	if r.units, err = r.js.CreateStream(ctx, one); err != nil {
		return err
	}
	one.Name, one.Subjects, one.Retention, one.AllowDirect, one.Metadata = rowsOf(r.id), []string{topic(r.id, "rows.>")}, jetstream.LimitsPolicy, true, nil
	if r.rows, err = r.js.CreateStream(ctx, one); err != nil {
		return err
	}
	if _, err = r.units.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxDeliver: deliveries, MaxAckPending: 100_000}); err != nil {
		return err
	}
	for subject, f := range map[string]nats.MsgHandler{
		helloOf(r.Name):       r.greet,
		statusOf(r.Name):      r.tell,
		topic(r.id, "alive"):  r.hear,
		topic(r.id, "blob"):   r.blob,
		topic(r.id, "differ"): func(m *nats.Msg) { r.differ(ctx, m) },
		topic(r.id, "fault"):  r.faulty,
		topic(r.id, "stuck"):  r.stuck,
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + unitsOf(r.id) + "." + consumer: func(m *nats.Msg) { r.exhausted(ctx, m) },
	} {
		sub, err := r.nc.Subscribe(subject, f)
		if err != nil {
			return err
		}
		r.subs = append(r.subs, sub)
	}
	rows, err := r.rows.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	reading, err := rows.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return // no message of a stream
		}
		select {
		case r.bodies <- body{m.Data(), meta.Sequence.Stream}:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessages(64))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, reading.Stop)
	return r.refill(ctx)
}

// take adds rows to the journal, with others that are there by now, and has them survive.
func (r *running) take(ctx context.Context, b body) error {
	batch, size := []body{b}, len(b.lines)
	for more := true; more && size < 4<<20; {
		select {
		case b = <-r.bodies:
			batch, size = append(batch, b), size+len(b.lines)
		default:
			more = false
		}
	}
	for {
		err := r.accept(ctx, batch)
		if err == nil {
			err = r.Sync()
		}
		if err == nil {
			for _, b := range batch {
				r.last = max(r.last, b.seq)
			}
			r.board.troubled("")
			r.mu.Lock()
			r.refusals = 0
			r.mu.Unlock()
			return nil
		}
		if errors.Is(err, journal.ErrChanged) {
			return err
		}
		r.board.troubled(err.Error())
		r.Say("%v: trying again each second", err)
		if pause(ctx, time.Second); ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// accept adds the rows of messages to the journal. A message that holds anything else, which no worker of this build sends, is taken
// out of ROWS, where workers would find it in the place of its points' rows.
func (r *running) accept(ctx context.Context, batch []body) error {
	for _, b := range batch {
		why, err := r.Work.Accept(b.lines)
		for _, w := range why {
			r.board.fail(1, w)
		}
		if errors.Is(err, journal.ErrUnlike) {
			r.found(err)
		}
		if errors.Is(err, journal.ErrTorn) {
			r.Say("message %d: %v", b.seq, err)
			if err := r.rows.DeleteMsg(ctx, b.seq); err != nil && b.seq > 0 && !errors.Is(err, jetstream.ErrMsgNotFound) {
				return err
			}
		}
		if err != nil && !errors.Is(err, journal.ErrUnlike) && !errors.Is(err, journal.ErrTorn) {
			return err
		}
	}
	return nil
}

// found keeps what was found.
func (r *running) found(err error) {
	r.board.mu.Lock()
	defer r.board.mu.Unlock()
	if r.board.unlike == nil {
		r.board.unlike = err
		r.Say("%v", err)
	}
}

// window is how many units are published at once.
const window = 1000

// refill publishes units where few are left, and once all are done and read, what is missing all the same.
func (r *running) refill(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, 2*asking)
	defer cancel()
	info, err := r.units.Info(within)
	if err != nil {
		return err
	}
	n := r.Work.Len()
	if info.State.Msgs == 0 && r.next >= n {
		rows, err := r.rows.Info(within)
		if err != nil {
			return err
		}
		if rows.State.LastSeq > r.last {
			return nil
		}
		r.next = 0
	}
	for left := int(info.State.Msgs); left < window && r.next < n; left++ {
		lo, hi := r.Work.Missing(r.next, r.unit)
		if lo == n {
			r.next = n
			return nil
		}
		hi = min(hi, lo-lo%r.chunk+r.unit) // whole chunks
		if err := r.publish(within, lo, hi, r.chunk); err != nil {
			return err
		}
		r.next = hi
	}
	return nil
}

// publish publishes a unit, unless it is there.
func (r *running) publish(ctx context.Context, lo, hi, chunk int) (err error) {
	u := unit{Lo: lo, Hi: hi, Chunk: chunk}
	if g, ok := r.Work.(giver); ok {
		if u.Given, err = g.Given(lo); err != nil {
			return err
		}
	}
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = publishOnce(ctx, r.js, u.subject(r.id), text)
	return err
}

// greet tells a worker what there is to do.
func (r *running) greet(m *nats.Msg) {
	var g greeting
	if json.Unmarshal(m.Data, &g) != nil {
		return // nobody of ours
	}
	s := spec{ID: r.id, Task: taskOf(r.Work)}
	r.board.mu.Lock()
	s.Ended = r.board.ended
	r.board.mu.Unlock()
	if g.Build != r.Build {
		s = spec{Refused: fmt.Sprintf("it is of build %.12s, the campaign of %.12s", g.Build, r.Build)}
	}
	r.respond(m, s)
}

// respond answers with a value's JSON.
func (r *running) respond(m *nats.Msg, v any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = m.Respond(text)
	}
	if err != nil {
		r.Say("%s: %v", m.Subject, err)
	}
}

// tell says how it goes.
func (r *running) tell(m *nats.Msg) { r.respond(m, r.Status()) }

// blob answers with what a hash names; nothing where it names nothing any more.
func (r *running) blob(m *nats.Msg) {
	var text []byte
	if g, ok := r.Work.(giver); ok {
		text = g.Blob(string(m.Data))
	}
	if err := m.Respond(text); err != nil {
		r.Say("%s: %v", m.Subject, err)
	}
}

// hear notes that a worker is alive.
func (r *running) hear(m *nats.Msg) {
	var g greeting
	if json.Unmarshal(m.Data, &g) == nil {
		r.board.hear(g)
	}
}

// differ takes rows of a worker that are not those which ROWS has.
func (r *running) differ(ctx context.Context, m *nats.Msg) {
	select {
	case r.bodies <- body{lines: m.Data}: // compared when those are in the journal
	case <-ctx.Done():
	}
}

// faulty ends the campaign: a point's scenario is at fault, or its files are missing somewhere.
func (r *running) faulty(m *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = errors.Join(r.fault, fmt.Errorf("%w: %s", ErrFault, m.Data))
}

// stuckAfter is how many times rows may be refused before the server is not believed to take any: some seconds of one worker's.
const stuckAfter = 5

// stuck notes that the server takes no rows of a worker.
func (r *running) stuck(m *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusals++; r.refusals >= stuckAfter {
		r.refused = fmt.Errorf("the server takes no rows, as where its disk is full: %s", m.Data)
	}
}

// ErrFault is a point that cannot be made: its scenario is at fault, or lacks a file.
var ErrFault = errors.New("a worker cannot make a point")

// exhausted takes a unit that no worker has come to the end of out of the queue, in which it would stay for ever: its
// points are units of their own, and one that is alone has a row that says so.
func (r *running) exhausted(ctx context.Context, m *nats.Msg) {
	var advisory struct {
		Seq uint64 `json:"stream_seq"`
	}
	if json.Unmarshal(m.Data, &advisory) != nil {
		return
	}
	if err := r.divide(ctx, advisory.Seq); err != nil && ctx.Err() == nil {
		r.Say("a unit that %d workers did not finish: %v", deliveries, err)
	}
}

func (r *running) divide(ctx context.Context, seq uint64) error {
	msg, err := r.units.GetMsg(ctx, seq)
	if err != nil {
		return err
	}
	u, err := parseUnit(msg.Data)
	if err == nil {
		err = r.units.DeleteMsg(ctx, seq)
	}
	if err != nil {
		return err
	}
	r.board.mu.Lock()
	r.board.given++
	r.board.mu.Unlock()
	if u.Hi-u.Lo == 1 {
		row, err := r.Work.Failed(ctx, u.Lo, fmt.Sprintf("given up: %d workers ended while they were at it", deliveries))
		if err == nil {
			_, err = publishOnce(ctx, r.js, chunkSubject(r.id, u.Lo, u.Hi), journal.Encode(u.Lo, row))
		}
		return err
	}
	for i := u.Lo; i < u.Hi; i++ {
		if lo, _ := r.Work.Missing(i, 1); lo == i {
			if err := r.publish(ctx, i, i+1, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// end tells workers for a while that the campaign has ended: they ask each second.
func (r *running) end(ctx context.Context) error {
	r.board.mu.Lock()
	r.board.ended = true
	r.board.mu.Unlock()
	for range 20 {
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			break
		}
	}
	for _, name := range []string{unitsOf(r.id), rowsOf(r.id)} {
		_ = r.js.DeleteStream(ctx, name) // nobody needs it
	}
	return nil
}
