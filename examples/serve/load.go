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
	warm    time.Duration // from then on memory is watched
}

// result is what a load came to.
type result struct {
	requests        int
	took            time.Duration
	times           []time.Duration // of requests, ascending
	copies, evicted uint64
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
	text := fmt.Sprintf("%d requests, %.0f a second, p50 %v, p99 %v; %d copies (%.2f a request), %d evictions",
		r.requests, r.perSecond(), r.quantile(0.5).Round(time.Microsecond), r.quantile(0.99).Round(time.Microsecond), r.copies, r.copiesPerRequest(), r.evicted)
	if r.most > 0 {
		text += fmt.Sprintf("; resident memory %d to %d MiB", r.least>>20, r.most>>20)
	}
	return text
}

// measure has clients ask a server over HTTP, each again as soon as it has its answer, until ctx ends, and compares each
// answer. The server is closed afterwards.
func measure(ctx context.Context, s *server, l load) (r result, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	handler, err := s.handler()
	if err != nil {
		return r, err
	}
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(listener) }()
	begun := time.Now()
	errs := r.ask(ctx, "http://"+listener.Addr().String(), s.models, l)
	r.took = time.Since(begun)
	slices.Sort(r.times)
	st := s.c.Stats()
	r.copies, r.evicted = st.Copies, st.Evictions
	last := context.WithoutCancel(ctx)
	errs = append(errs, hs.Shutdown(last), s.close(last))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

// ask runs the clients.
func (r *result) ask(ctx context.Context, url string, models []*model, l load) (errs []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	transport := &http.Transport{MaxIdleConnsPerHost: l.clients}
	defer transport.CloseIdleConnections()
	for i := range l.clients {
		all.Go(func() {
			times, err := client(ctx, &http.Client{Transport: transport}, url, models, rand.New(rand.NewPCG(l.seed, uint64(i))))
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

// client asks any model anything, and compares.
func client(ctx context.Context, c *http.Client, url string, models []*model, dice *rand.Rand) (times []time.Duration, err error) {
	in := make([]uint32, outputs)
	for ctx.Err() == nil {
		m := models[dice.IntN(len(models))]
		for i := range in {
			in[i] = dice.Uint32()
		}
		begun := time.Now()
		out, err := post(c, url+"/models/"+m.name, in)
		if err != nil {
			return times, err
		}
		times = append(times, time.Since(begun))
		if want := m.weights.answer(in); !slices.Equal(out, want) {
			return times, fmt.Errorf("%s answered %v to %v: it must be %v", m.name, out, in, want)
		}
	}
	return times, nil
}

func post(c *http.Client, url string, in []uint32) ([]uint32, error) {
	body, err := json.Marshal(question{in})
	if err != nil {
		return nil, err
	}
	resp, err := c.Post(url, "application/json", bytes.NewReader(body))
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
