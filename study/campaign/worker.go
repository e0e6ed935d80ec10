package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"godwit/internal/journal"
)

// Worker makes rows for whoever coordinates a campaign.
type Worker struct {
	Makers
	Campaign string
	Name     string
	Jobs     int // rows at once

	nc   *nats.Conn
	js   jetstream.JetStream
	made atomic.Int64
}

// ErrRefused is a worker that the coordinator does not want.
var ErrRefused = errors.New("the coordinator refuses this worker")

// errEnded is a campaign that has ended.
var errEnded = errors.New("the campaign has ended")

// Work works for the campaign that nc leads to until it ends (nil), ctx ends, or the worker may not, or
// cannot, take part. While there is no coordinator it waits for one.
func (w *Worker) Work(ctx context.Context, nc *nats.Conn) (err error) {
	w.nc = nc
	if w.js, err = jetstream.New(nc); err != nil {
		return err
	}
	for {
		s, err := w.ask(ctx)
		if err == nil {
			err = w.campaign(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errEnded):
			return nil
		case nc.IsClosed(): // the server wants it no more: it was told so twice
			return fmt.Errorf("%w: %w", ErrRefused, errors.Join(nc.LastError(), err))
		case !transient(err):
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// lost marks what another try may mend: there was no answer.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

func transient(err error) bool { return errors.As(err, new(lost)) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ask asks the coordinator for its campaign.
func (w *Worker) ask(ctx context.Context) (s spec, err error) {
	text, err := json.Marshal(greeting{w.Name, w.Build, int(w.made.Load()), w.Jobs})
	if err != nil {
		return s, err
	}
	within, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	msg, err := w.nc.RequestWithContext(within, helloOf(w.Campaign), text)
	if err != nil {
		return s, lost{err}
	}
	if err := json.Unmarshal(msg.Data, &s); err != nil {
		return s, lost{err}
	}
	switch {
	case s.Refused != "":
		return s, fmt.Errorf("%w: %s", ErrRefused, s.Refused)
	case s.Ended:
		return s, errEnded
	}
	return s, nil
}

// campaign leases units until the coordinator says that there are none any more, or is lost.
func (w *Worker) campaign(ctx context.Context, s spec) error {
	maker, id, err := w.maker(ctx, s.Task, func(ctx context.Context, hash string) ([]byte, error) { return w.fetch(ctx, s.ID, hash) })
	if err != nil {
		return err
	}
	if id != s.ID {
		return fmt.Errorf("%w: a file that its scenario reads has other bytes here than there", ErrRefused)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.alive(ctx, id) })
	for range max(w.Jobs, 1) {
		group.Go(func() error { return w.lease(ctx, maker, id) })
	}
	return group.Wait()
}

// errGone is what a hash names no more: its round is over.
var errGone = errors.New("nobody needs it any more")

// fetch asks for what a hash names, for as long as nobody answers.
func (w *Worker) fetch(ctx context.Context, id, hash string) ([]byte, error) {
	for {
		within, cancel := context.WithTimeout(ctx, asking)
		msg, err := w.nc.RequestWithContext(within, topic(id, "blob"), []byte(hash))
		cancel()
		if err == nil && len(msg.Data) > 0 {
			return msg.Data, nil
		}
		if err == nil {
			return nil, errGone
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// alive tells each second that the worker is there, and ends with the campaign.
func (w *Worker) alive(ctx context.Context, id string) error {
	for tick := 0; ctx.Err() == nil; tick++ {
		text, err := json.Marshal(greeting{w.Name, w.Build, int(w.made.Load()), w.Jobs})
		if err == nil {
			err = w.nc.Publish(topic(id, "alive"), text)
		}
		if err != nil && !w.nc.IsReconnecting() && !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return lost{err}
		}
		if s, err := w.ask(ctx); err == nil && s.ID != id {
			return lost{errors.New("another campaign has begun")}
		} else if errors.Is(err, errEnded) || errors.Is(err, ErrRefused) {
			return err
		}
		pause(ctx, time.Second)
	}
	return ctx.Err()
}

// lease takes units one after another.
func (w *Worker) lease(ctx context.Context, maker maker, id string) error {
	l := &leaser{Worker: w, maker: maker, id: id}
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, asking)
		cons, err := w.js.Consumer(within, unitsOf(id), consumer)
		if err == nil {
			l.units, l.since = cons, cons.CachedInfo().Created
			l.rows, err = w.js.Stream(within, rowsOf(id))
		}
		cancel()
		for err == nil && ctx.Err() == nil {
			var msg jetstream.Msg
			if msg, err = cons.Next(jetstream.FetchMaxWait(asking)); errors.Is(err, nats.ErrTimeout) {
				err = nil
				continue
			}
			if err == nil {
				err = l.make(ctx, msg)
			}
		}
		if errors.Is(err, errPoint) {
			return err
		}
		pause(ctx, 200*time.Millisecond) // its streams are being made, perhaps
	}
	return ctx.Err()
}

// leaser is one of a worker's lives.
type leaser struct {
	*Worker
	maker maker
	id    string
	rows  jetstream.Stream
	units jetstream.Consumer
	since time.Time // when units was made
}

// errAnew is that a coordinator has begun anew: the points of a unit are in others since.
var errAnew = errors.New("the units are others")

// errPoint is a point that cannot be made here.
var errPoint = errors.New("a point cannot be made")

// make makes what ROWS lacks of a unit, and says all the time that it is at it.
func (l *leaser) make(ctx context.Context, msg jetstream.Msg) error {
	u, err := parseUnit(msg.Data())
	if err != nil || !l.maker.Check(u.Hi-1) {
		return errors.Join(err, msg.Term())
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for working.Err() == nil {
			pause(working, ackWait/3)
			if working.Err() == nil {
				_ = msg.InProgress() // or it is another's, which does no harm
			}
		}
	}()
	for lo := u.Lo; lo < u.Hi; lo = u.next(lo) {
		if lo > u.Lo && l.anew(ctx) {
			return errAnew
		}
		if err := l.chunk(ctx, u, lo, u.next(lo)); err != nil && !errors.Is(err, errGone) {
			return err
		}
	}
	within, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	if err := msg.DoubleAck(within); err != nil {
		return lost{err}
	}
	return nil
}

// anew says whether a coordinator has begun anew since units were asked for. Who cannot ask goes on: what it makes is not lost.
func (l *leaser) anew(ctx context.Context) bool {
	if !l.nc.IsConnected() {
		return false
	}
	within, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	info, err := l.units.Info(within)
	return err == nil && !info.Created.Equal(l.since)
}

// chunk makes the rows of indices lo to hi, without hi, and publishes them, unless somebody has.
func (l *leaser) chunk(ctx context.Context, u unit, lo, hi int) error {
	if there, err := l.stored(ctx, chunkSubject(l.id, lo, hi)); err == nil && there != nil {
		return nil
	}
	var body []byte
	begins := []int{0} // of the lines in body
	for i := lo; i < hi; i++ {
		row, err := l.maker.Make(ctx, i, u.Given)
		if err == nil && len(row) > maxBody {
			row, err = l.maker.Failed(ctx, i, fmt.Sprintf("its row has %d bytes: at most %d fit a campaign", len(row), maxBody))
		}
		if errors.Is(err, errGone) {
			return err
		}
		if err != nil {
			if ctx.Err() == nil {
				_ = l.nc.Publish(topic(l.id, "fault"), []byte(err.Error())) // the coordinator ends; if it does not hear it, it hears the next
			}
			return fmt.Errorf("%w: %w", errPoint, err)
		}
		body = append(body, journal.Encode(i, row)...)
		begins = append(begins, len(body))
		l.made.Add(1)
	}
	if len(body) <= maxBody {
		return l.publish(ctx, lo, hi, body)
	}
	for i := lo; i < hi; i++ {
		if err := l.publish(ctx, i, i+1, body[begins[i-lo]:begins[i-lo+1]]); err != nil {
			return err
		}
	}
	return nil
}

// stored is the message that a subject of ROWS has, nil where it has none.
func (l *leaser) stored(ctx context.Context, subject string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	msg, err := l.rows.GetLastMsgForSubject(within, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// publish publishes a chunk's rows, for as long as it takes: what was made is not thrown away because nobody
// is there to take it. Rows of others that are there already are to be the same.
func (l *leaser) publish(ctx context.Context, lo, hi int, body []byte) error {
	subject := chunkSubject(l.id, lo, hi)
	for {
		within, cancel := context.WithTimeout(ctx, asking)
		had, err := publishOnce(within, l.js, subject, body)
		cancel()
		if had {
			before, err := l.stored(ctx, subject)
			if err == nil && before != nil && !bytes.Equal(before, body) {
				return l.nc.Publish(topic(l.id, "differ"), body)
			}
			return nil
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.nc.IsConnected() { // the server has no room, perhaps: one that could not write does so no more
			_ = l.nc.Publish(topic(l.id, "stuck"), []byte(err.Error()))
		}
		pause(ctx, 200*time.Millisecond)
	}
}
