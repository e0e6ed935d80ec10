package metrics_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/internal/storage"
	gwmetrics "godwit/lib/metrics"
	"godwit/lib/pool"
	"godwit/runtime"
)

// A memory is named and registered; Prometheus reads it whenever it likes.
func ExampleCollector() {
	c := gwmetrics.NewCollector()
	if err := c.AddMemory("gpu0", storage.NewHost("gpu0", 1<<30)); err != nil {
		fmt.Println(err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	fmt.Println(len(families) > 0, err)
	for _, f := range families {
		if f.GetName() == "godwit_memory_capacity_bytes" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// true <nil>
	// godwit_memory_capacity_bytes 1.073741824e+09
}

// ring is a pool of a program's own: a few buffers that take turns.
type ring struct {
	buffers []*runtime.Buffer
	taken   uint64
}

func (r *ring) Stats() pool.Stats {
	return pool.Stats{Hits: r.taken, Buffers: len(r.buffers)}
}

// A program's own pool is shown beside the library's, and so is a context.
func ExamplePool() {
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{Name: "cpu0"})
	check(err)
	run, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	check(err)
	frames := &ring{taken: 3}
	for range 2 {
		b, err := run.CreateBuffer(1<<20, 0, nil)
		check(err)
		frames.buffers = append(frames.buffers, b)
	}
	c := gwmetrics.NewCollector()
	for name, p := range map[string]gwmetrics.Pool{"frames": frames} {
		check(c.AddPool(name, p))
	}
	for name, x := range map[string]gwmetrics.Context{"main": run} {
		check(c.AddContext(name, x))
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	check(err)
	for _, f := range families {
		if n := f.GetName(); n == "godwit_pool_buffers" || n == "godwit_context_commands_total" {
			fmt.Println(n, f.GetMetric()[0].GetLabel()[0].GetValue(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	check(errors.Join(frames.buffers[0].Release(), frames.buffers[1].Release(), run.Close(ctx)))
	// Output:
	// godwit_context_commands_total main 0
	// godwit_pool_buffers frames 2
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
