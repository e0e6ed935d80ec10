package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/storage"
	gwmetrics "godwit/lib/metrics"
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
