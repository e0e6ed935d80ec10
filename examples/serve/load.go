package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// load is what clients ask of a server.
type load struct {
	clients int
	seed    uint64
	leave   int           // one of so many requests has leftSteps steps, and its client leaves within leaveWithin; 0 is none
	warm    time.Duration // from then on memory is watched
}

const (
	leftSteps   = 256
	leaveWithin = 20 * time.Millisecond
)

// result is what a load came to.
type result struct {
	requests        int
	took            time.Duration
	times           []time.Duration // of requests, ascending
	copies, evicted uint64
	gone            cancelled
	least, most     uint64 // resident bytes of this process, after the time to get warm
}

func (r *result) perSecond() float64        { return float64(r.requests) / r.took.Seconds() }
func (r *result) copiesPerRequest() float64 { return float64(r.copies) / float64(max(r.requests, 1)) }

func (r *result) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(int(q*float64(len(r.times))), len(r.times)-1)]
}

func (r *result) String() string {
	text := fmt.Sprintf("%d requests, %.0f a second, p50 %v, p99 %v", r.requests, r.perSecond(), r.quantile(0.5).Round(time.Microsecond), r.quantile(0.99).Round(time.Microsecond))
	if r.copies > 0 {
		text += fmt.Sprintf("; %d copies (%.2f a request), %d evictions", r.copies, r.copiesPerRequest(), r.evicted)
	}
	if g := r.gone; g.jobs > 0 {
		text += fmt.Sprintf("; %d cancelled of %d steps each: after that %.1f ran, at most %d", g.jobs, g.steps/g.jobs, float64(g.ran)/float64(g.jobs), g.most)
	}
	if r.most > 0 {
		text += fmt.Sprintf("; resident memory %d to %d MiB (%.2f)", r.least>>20, r.most>>20, float64(r.most)/float64(r.least))
	}
	return text
}

// listen serves at an address that it chooses, until stop.
func (s *server) listen() (url string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	handler, err := s.handler()
	if err != nil {
		return "", nil, errors.Join(err, listener.Close())
	}
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		ctx := context.Background()
		errs := []error{hs.Shutdown(ctx), s.close(ctx)}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, nil
}

// measure has clients ask a server over HTTP, each again as soon as it has its answer, until ctx ends, and compares each
// answer. The server is closed afterwards.
func measure(ctx context.Context, s *server, l load) (r result, err error) {
	url, stop, err := s.listen()
	if err != nil {
		return r, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	errs := r.ask(ctx, url, s.models, l)
	st := s.c.Stats()
	r.copies, r.evicted = st.Copies, st.Evictions
	errs = append(errs, stop())
	r.gone = s.gone
	return r, errors.Join(errs...)
}

// isolate has the first model's clients ask alone, then the others' for a while, then all. It fails where the first model's next request moves anything of
// it after that while, though the others have come and gone all the time.
func isolate(ctx context.Context, s *server, l load, took time.Duration, out io.Writer) (err error) {
	url, stop, err := s.listen()
	if err != nil {
		return errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	defer func() { err = errors.Join(err, stop()) }()
	first, others := s.models[:1], s.models[1:]
	ask := func(out io.Writer, name string, l load, models []*model, took time.Duration) (r result, err error) {
		timed, cancel := context.WithTimeout(ctx, took)
		defer cancel()
		err = errors.Join(r.ask(timed, url, models, l)...)
		fmt.Fprintf(out, "%-16s %v\n", name, &r)
		return r, err
	}
	few := load{clients: 1, seed: l.seed}
	alone, err := ask(out, "first alone", few, first, took/4)
	if err != nil {
		return err
	}
	before := s.c.Stats().Evictions
	if _, err = ask(out, "others alone", l, others, took); err != nil {
		return err
	}
	s.mu.Lock()
	next, err := s.preview(s.devices[0], 0)
	s.mu.Unlock()
	fmt.Fprintf(out, "others' evictions %d; the first model's next request moves %d bytes\n", s.c.Stats().Evictions-before, next.Bytes)
	if err != nil || next.Bytes > 0 {
		return errors.Join(err, fmt.Errorf("the first model's next request moves %d bytes: its floor should have kept them", next.Bytes))
	}
	var text strings.Builder
	var all sync.WaitGroup
	var failed error
	all.Go(func() { _, failed = ask(&text, "others beside", l, others, took/4) })
	beside, err := ask(out, "first beside", few, first, took/4)
	all.Wait()
	fmt.Fprint(out, text.String())
	fmt.Fprintf(out, "p99 %.2f of that alone\n", beside.quantile(0.99).Seconds()/alone.quantile(0.99).Seconds())
	return errors.Join(err, failed)
}

// ask runs the clients.
func (r *result) ask(ctx context.Context, url string, models []*model, l load) (errs []error) {
	begun := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	transport := &http.Transport{MaxIdleConnsPerHost: l.clients}
	defer transport.CloseIdleConnections()
	for i := range l.clients {
		all.Go(func() {
			times, err := client(ctx, &http.Client{Transport: transport}, url, models, rand.New(rand.NewPCG(l.seed, uint64(i))), l.leave)
			mu.Lock()
			defer mu.Unlock()
			r.times, r.requests = append(r.times, times...), r.requests+len(times)
			if err != nil {
				errs = append(errs, fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	r.watch(ended, l.warm)
	r.took = time.Since(begun)
	slices.Sort(r.times)
	return errs
}

// watch notes how much memory the process has, until the clients have ended.
func (r *result) watch(ended <-chan struct{}, warm time.Duration) {
	begun, tick := time.Now(), time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if n := resident(); n > 0 && warm > 0 && time.Since(begun) >= warm {
			r.most = max(r.most, n)
			if r.least == 0 || n < r.least {
				r.least = n
			}
		}
	}
}

// resident are the bytes that this process has in memory; 0 where the system does not say.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// client asks any model anything, and compares. Some requests it gives up.
func client(ctx context.Context, c *http.Client, url string, models []*model, dice *rand.Rand, leave int) (times []time.Duration, err error) {
	in := make([]uint32, outputs)
	for ctx.Err() == nil {
		m, q := models[dice.IntN(len(models))], question{Input: in, Steps: 1}
		for i := range in {
			in[i] = dice.Uint32()
		}
		asked, cancel := context.WithCancel(context.WithoutCancel(ctx))
		if leave > 0 && dice.IntN(leave) == 0 {
			q.Steps = leftSteps
			time.AfterFunc(time.Duration(dice.Int64N(int64(leaveWithin))), cancel)
		}
		begun := time.Now()
		out, err := post(asked, c, url+"/models/"+m.name, q)
		left := asked.Err() != nil
		cancel()
		switch {
		case err != nil && !left:
			return times, err
		case err != nil:
			continue
		case q.Steps == 1:
			times = append(times, time.Since(begun))
		}
		if want := m.weights.answer(in, q.Steps); !slices.Equal(out, want) {
			return times, fmt.Errorf("%s answered %v to %v: it must be %v", m.name, out, in, want)
		}
	}
	return times, nil
}

func post(ctx context.Context, c *http.Client, url string, q question) ([]uint32, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, errors.Join(fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text))), err)
	}
	var out reply
	err = json.NewDecoder(resp.Body).Decode(&out)
	return out.Output, err
}
