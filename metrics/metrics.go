// Package metrics shows pools and memories to Prometheus. It is a package of its
// own so that programs without Prometheus do not link it. Beside Go's runtime/metrics it
// is imported as gwmetrics.
package metrics

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/mem"
	"godwit/pool"
	"godwit/resource"
)

// Pool is what the collector reads of a pool of buffers; *pool.BufferPool and
// *pool.BoundedPool are such.
type Pool interface {
	Stats() pool.Stats
}

// Collector is a prometheus.Collector over named pools and memories. Figures are
// read at each scrape. Safe for use from many goroutines.
type Collector struct {
	mu       sync.RWMutex
	pools    map[string]Pool         // protected by mu
	memories map[string]mem.Resource // protected by mu
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of nothing yet.
func NewCollector() *Collector {
	return &Collector{pools: make(map[string]Pool), memories: make(map[string]mem.Resource)}
}

// AddPool shows a pool under the label pool=name. It fails with
// mem.ErrInvalidValue where the name is taken.
func (c *Collector) AddPool(name string, p Pool) error {
	return add(c, c.pools, "pool", name, p)
}

// AddMemory shows a memory, or the stack of layers over one, under the label
// memory=name: a resource.Statistics layer in it adds PyTorch's figures. It
// fails with mem.ErrInvalidValue where the name is taken.
func (c *Collector) AddMemory(name string, r mem.Resource) error {
	return add(c, c.memories, "memory", name, r)
}

func add[T any](c *Collector, to map[string]T, what, name string, v T) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := to[name]; taken {
		return fmt.Errorf("%s %q: the name is taken: %w", what, name, mem.ErrInvalidValue)
	}
	to[name] = v
	return nil
}

// Remove stops showing the pool and the memory of that name.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pools, name)
	delete(c.memories, name)
}

func poolDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("godwit_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

func memDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("godwit_memory_"+name, help, append([]string{"memory"}, labels...), nil)
}

// The descriptions; immutable.
var (
	poolRequests = poolDesc("requests_total", "Buffers asked for, by whether the pool had one.", "result")
	poolBytes    = poolDesc("bytes", "Bytes in buffers of the pool, by state: out, ready, waiting.", "state")
	poolAsked    = poolDesc("asked_bytes", "Bytes asked for by those who have buffers out; the rest of out is rounding.")
	poolBuffers  = poolDesc("buffers", "Buffers that exist.")

	memCapacity = memDesc("capacity_bytes", "What the memory can hold; 0 is unknown.")
	memBytes    = memDesc("bytes", "Bytes by state: live, pending, reserved, cached.", "state")
	memLargest  = memDesc("largest_free_bytes", "The largest block that could be given now; 0 is unknown.")
	memBlocks   = memDesc("blocks", "Live blocks.")
	memOps      = memDesc("operations_total", "Blocks given and freed, and refused requests.", "operation")
	memPeak     = memDesc("peak_bytes", "The highest figure since the last reset, by state: allocated, active, reserved.", "state")
	memOOM      = memDesc("out_of_memory_total", "Requests refused for want of room or budget since the last reset.")
	memRetries  = memDesc("retries_total", "Requests tried again since the last reset.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		poolRequests, poolBytes, poolAsked, poolBuffers,
		memCapacity, memBytes, memLargest, memBlocks, memOps, memPeak, memOOM, memRetries,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, p := range c.pools {
		collectPool(ch, name, p.Stats())
	}
	for name, r := range c.memories {
		collectMemory(ch, name, r)
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func collectPool(ch chan<- prometheus.Metric, name string, s pool.Stats) {
	counter(ch, poolRequests, s.Hits, name, "hit")
	counter(ch, poolRequests, s.Misses, name, "miss")
	gauge(ch, poolBytes, s.Out, name, "out")
	gauge(ch, poolBytes, s.Ready, name, "ready")
	gauge(ch, poolBytes, s.Waiting, name, "waiting")
	gauge(ch, poolAsked, s.Asked, name)
	gauge(ch, poolBuffers, uint64(s.Buffers), name)
}

func collectMemory(ch chan<- prometheus.Metric, name string, r mem.Resource) {
	s := r.Stats()
	gauge(ch, memCapacity, s.Capacity, name)
	gauge(ch, memBytes, s.Live, name, "live")
	gauge(ch, memBytes, s.Pending, name, "pending")
	gauge(ch, memBytes, s.Reserved, name, "reserved")
	gauge(ch, memBytes, s.Cached, name, "cached")
	gauge(ch, memLargest, s.LargestFree, name)
	gauge(ch, memBlocks, uint64(s.Blocks), name)
	counter(ch, memOps, s.Allocs, name, "alloc")
	counter(ch, memOps, s.Frees, name, "free")
	counter(ch, memOps, s.Failures, name, "refused")
	st, ok := resource.Find[*resource.Statistics](r)
	if !ok {
		return
	}
	f := st.Figures()
	gauge(ch, memPeak, f.Allocated.Peak, name, "allocated")
	gauge(ch, memPeak, f.Active.Peak, name, "active")
	gauge(ch, memPeak, f.Reserved.Peak, name, "reserved")
	counter(ch, memOOM, f.OutOfMemory, name)
	counter(ch, memRetries, f.Retries, name)
}
