package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	gwmetrics "godwit/lib/metrics"
)

// question and reply are the bodies of POST /models/{model}.
type (
	question struct {
		Input []uint32 `json:"input"`
		Steps int      `json:"steps,omitempty"` // each takes what the one before has answered; 0 is 1
	}
	reply struct {
		Output []uint32 `json:"output"`
	}
)

// mostSteps is how many steps a request may ask for.
const mostSteps = 1024

// handler serves POST /models/{model}, GET /models and GET /metrics.
func (s *server) handler() (http.Handler, error) {
	figures := gwmetrics.NewCollector()
	if err := figures.AddContext("serve", s.c); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "serve_waiting_requests", Help: "Requests that no device has taken yet."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.waiting))
	})
	if err := errors.Join(registry.Register(figures), registry.Register(waiting)); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /models", func(w http.ResponseWriter, _ *http.Request) {
		for _, m := range s.models {
			fmt.Fprintln(w, m.name)
		}
	})
	mux.HandleFunc("POST /models/{model}", s.serveModel)
	return mux, nil
}

func (s *server) serveModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	m := slices.IndexFunc(s.models, func(m *model) bool { return m.name == name })
	if m < 0 {
		http.Error(w, fmt.Sprintf("no model %q", name), http.StatusNotFound)
		return
	}
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(q.Input) != outputs {
		http.Error(w, fmt.Sprintf("%d words of input: it must have %d", len(q.Input), outputs), http.StatusBadRequest)
		return
	}
	if q.Steps < 0 || q.Steps > mostSteps {
		http.Error(w, fmt.Sprintf("%d steps: there may be %d", q.Steps, mostSteps), http.StatusBadRequest)
		return
	}
	out, err := s.infer(r.Context(), m, max(1, q.Steps), q.Input)
	switch {
	case errors.Is(err, errShutdown):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply{out}) // a client that has left
	}
}
