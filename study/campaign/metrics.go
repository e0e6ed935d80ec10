package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// figure is a figure of a campaign as Prometheus has it.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *Status) float64
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("godwit_campaign_"+name, help, labels, nil)
}

var campaignFigures = []figure{
	{describe("done", "Points, or units of a search, that are made."), prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Done) }},
	{describe("total", "Points, or units of a search as far as they are known."), prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Total) }},
	{describe("failed_total", "Rows that say why they failed, since the coordinator began."), prometheus.CounterValue, func(s *Status) float64 { return float64(s.Failed) }},
	{describe("exhausted_total", "Units that no worker came to the end of, since the coordinator began."), prometheus.CounterValue, func(s *Status) float64 { return float64(s.Given) }},
	{describe("findings", "What a search has found."), prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Findings) }},
	{describe("workers", "Workers that were heard of in the last seconds."), prometheus.GaugeValue, func(s *Status) float64 { return float64(s.Active()) }},
	{describe("eta_seconds", "How long it will take; below 0 where nobody knows."), prometheus.GaugeValue, func(s *Status) float64 { return s.ETA }},
	{describe("trouble", "1 while the coordinator tries something again, such as a write to a full disk."), prometheus.GaugeValue, func(s *Status) float64 {
		if s.Trouble != "" {
			return 1
		}
		return 0
	}},
}

var workerRows = describe("worker_rows_total", "Rows that a worker has made since it began.", "worker")

// collector shows a campaign to Prometheus.
type collector struct{ of func() Status }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range campaignFigures {
		ch <- f.desc
	}
	ch <- workerRows
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.of()
	for _, f := range campaignFigures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&s))
	}
	for _, w := range s.Workers {
		ch <- prometheus.MustNewConstMetric(workerRows, prometheus.CounterValue, float64(w.Made), w.Name)
	}
}

// Expose serves a campaign's figures over HTTP at an address until ctx ends: /metrics is Prometheus's text, /status what Status is as JSON.
// It returns the address, and what waits for the end.
func Expose(ctx context.Context, address string, of func() Status) (at net.Addr, wait func() error, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	reg := prometheus.NewRegistry()
	if err := reg.Register(collector{of}); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(of()) // who asked has gone
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	return l.Addr(), func() error {
		stop()
		err := server.Close()
		if serr := <-ended; !errors.Is(serr, http.ErrServerClosed) {
			err = errors.Join(err, serr)
		}
		return err
	}, nil
}
