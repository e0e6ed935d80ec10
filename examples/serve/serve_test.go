package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/mem"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread")
	}
	goleak.VerifyTestMain(m)
}

// small are models that take little to copy: what is counted is how often.
const (
	smallWords = 16 << 10
	smallCap   = 10 * smallWords * 4
)

// line is a router that keeps as many requests waiting as 16 clients do, in an order that is the same for all.
type line struct {
	router
	dice *rand.Rand
	left int
	jobs []*job
}

func (l *line) next(s *server) (int, *device, time.Duration) {
	for len(s.waiting) < 16-2*depth && l.left > 0 {
		l.add(s)
	}
	if len(s.waiting) == 0 {
		return 0, nil, 0
	}
	return l.router.next(s)
}

func (l *line) add(s *server) {
	j := &job{ctx: context.Background(), model: l.dice.IntN(len(s.models)), steps: 1, in: make([]uint32, outputs), out: make([]uint32, outputs), done: make(chan error, 1)}
	for i := range j.in {
		j.in[i] = l.dice.Uint32()
	}
	s.waiting, l.jobs, l.left = append(s.waiting, j), append(l.jobs, j), l.left-1
}

// copiesOf is how many copies so many requests take; each answer is compared.
func copiesOf(t *testing.T, by router, requests int) uint64 {
	l := &line{router: by, dice: rand.New(rand.NewPCG(7, 7)), left: requests}
	s, err := open(context.Background(), "cpu", 3, smallWords, 0, smallCap, l)
	require.NoError(t, err)
	s.mu.Lock()
	l.add(s)
	s.dispatch()
	s.mu.Unlock()
	for i := 0; i < requests; i++ {
		s.mu.Lock()
		j := l.jobs[i]
		s.mu.Unlock()
		require.NoError(t, <-j.done)
		require.Equal(t, s.models[j.model].weights.answer(j.in, 1), j.out)
	}
	n := s.c.Stats().Copies
	require.NoError(t, s.close(context.Background()), "no device held more than its cap, and nothing leaked")
	return n
}

// TestRoutingByPreviewCopiesLess: models are drawn evenly, so whoever does not look copies two of three. How much a
// wait saves hangs on how fast devices are, so it is 100 ms here: --load tells of 50.
func TestRoutingByPreviewCopiesLess(t *testing.T) {
	const requests = 250
	blind := copiesOf(t, leastLoaded{}, requests)
	asked := copiesOf(t, byPreview{}, requests)
	held := copiesOf(t, batched{100 * time.Millisecond}, requests)
	t.Logf("copies for %d requests: least loaded %d, by preview %d, batched %d", requests, blind, asked, held)
	require.LessOrEqual(t, float64(asked), 0.45*float64(blind))
	require.LessOrEqual(t, float64(held), 0.15*float64(blind))
}

// TestTheServerUnderLoad is the example as it is run, for a moment, on each driver there is.
func TestTheServerUnderLoad(t *testing.T) {
	for driver, route := range map[string]string{"cpu": "", "opencl": "preview"} {
		t.Run(driver, func(t *testing.T) {
			o := options{driver: driver, route: route, models: 3, words: 1 << 16, devCap: 10 << 18, load: 300 * time.Millisecond, clients: 8, leave: 4, seed: 1}
			var out strings.Builder
			err := try(context.Background(), o, &out)
			if mem.StatusOf(err) == mem.DeviceNotFound {
				t.Skipf("not here: %v", err)
			}
			require.NoError(t, err)
			require.Regexp(t, `preview +\d+ requests, \d+ a second, p50 .*, p99 `, out.String())
		})
	}
}

// TestAModelAtItsFloorStays: its next request moves nothing, whoever came meanwhile.
func TestAModelAtItsFloorStays(t *testing.T) {
	var out strings.Builder
	o := options{driver: "cpu", models: 3, words: 1 << 14, devCap: 10 << 16, load: time.Second, clients: 4, leave: 8, seed: 1, isolate: true}
	require.NoError(t, try(context.Background(), o, &out))
	require.Regexp(t, `others' evictions [1-9]\d*; the first model's next request moves 0 bytes`, out.String())
}

// TestAClientThatLeavesStopsItsSteps: of a long request no more runs than its queue's window holds, and its slot serves the next.
func TestAClientThatLeavesStopsItsSteps(t *testing.T) {
	s, err := open(context.Background(), "cpu", 1, smallWords, 0, smallCap, byPreview{})
	require.NoError(t, err)
	in := make([]uint32, outputs)
	for range 5 {
		ctx, leave := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, leave)
		out, err := s.infer(ctx, 0, mostSteps, in)
		if err == nil { // a quick machine
			require.Equal(t, s.models[0].weights.answer(in, mostSteps), out)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	out, err := s.infer(context.Background(), 0, 3, in)
	require.NoError(t, err)
	require.Equal(t, s.models[0].weights.answer(in, 3), out)
	require.NoError(t, s.close(context.Background()))
	t.Logf("%+v", s.gone)
	require.LessOrEqual(t, s.gone.most, 256, "what a window has room for at most")
	require.Less(t, s.gone.ran, max(1, s.gone.steps))
}

func TestWhatTheServerRefuses(t *testing.T) {
	s, err := open(context.Background(), "cpu", 1, smallWords, 0, smallCap, byPreview{})
	require.NoError(t, err)
	handler, err := s.handler()
	require.NoError(t, err)
	ask := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		text, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		return w.Code, string(text)
	}
	input := `{"input":[` + strings.Repeat("1,", outputs-1) + `1]}`
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/models", "", http.StatusOK, "model0\n"},
		{"POST", "/models/model0", input, http.StatusOK, `{"output":[`},
		{"POST", "/models/model9", input, http.StatusNotFound, `no model "model9"`},
		{"POST", "/models/model0", `{"input":[1]}`, http.StatusBadRequest, "1 words of input: it must have 64"},
		{"POST", "/models/model0", `{`, http.StatusBadRequest, "EOF"},
		{"POST", "/models/model0", input[:len(input)-1] + `,"steps":9999}`, http.StatusBadRequest, "there may be 1024"},
		{"GET", "/models/model0", "", http.StatusMethodNotAllowed, ""},
		{"GET", "/metrics", "", http.StatusOK, "godwit_context_copies_total{context=\"serve\"} 8"},
	} {
		code, text := ask(c.method, c.path, c.body)
		require.Equal(t, c.code, code, c.path)
		require.Contains(t, text, c.says)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.infer(gone, 0, 1, make([]uint32, outputs))
	if err != nil { // it may have its answer already
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, s.close(context.Background()))
	code, text := ask("POST", "/models/model0", input)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, errShutdown.Error())
}

// TestServeEndsWhenItIsInterrupted: it says where it is, and closes everything.
func TestServeEndsWhenItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer interrupt()
	var out strings.Builder
	require.NoError(t, serve(ctx, options{driver: "cpu", models: 2, words: smallWords, devCap: smallCap, listen: "127.0.0.1:0"}, &out))
	require.Contains(t, out.String(), "/models")
	require.ErrorContains(t, serve(ctx, options{driver: "cpu", route: "by chance"}, &out), `route "by chance"`)
	require.Error(t, serve(context.Background(), options{driver: "cpu", models: 1, words: smallWords, devCap: smallCap, listen: "nowhere"}, &out))
}
