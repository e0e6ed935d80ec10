// Package metrics shows pools and memories to Prometheus. It is a package of its
// own so that programs without Prometheus do not link it. Beside Go's runtime/metrics it
// is imported as gwmetrics.
package metrics

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"godwit/internal/mover"
	"godwit/internal/resource"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
)

// Pool is what the collector reads of a pool of buffers; *pool.BufferPool and
// *pool.BoundedPool are such.
type Pool interface {
	Stats() pool.Stats
}

// Context is what the collector reads of a context; *runtime.Context is one.
type Context interface {
	Stats() migration.Stats
	MoverStats() mover.Stats
	Figures() runtime.Figures
}

// Collector is a prometheus.Collector over named pools, memories and contexts.
// Figures are read at each scrape. Safe for use from many goroutines.
type Collector struct {
	mu       sync.RWMutex
	pools    map[string]Pool         // protected by mu
	memories map[string]mem.Resource // protected by mu
	contexts map[string]Context      // protected by mu
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of nothing yet.
func NewCollector() *Collector {
	return &Collector{pools: make(map[string]Pool), memories: make(map[string]mem.Resource), contexts: make(map[string]Context)}
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

// AddContext shows a context under the label context=name: what moved over which link,
// what was evicted, what its memories hold and its queues have before them. It fails
// with mem.ErrInvalidValue where the name is taken.
func (c *Collector) AddContext(name string, x Context) error {
	return add(c, c.contexts, "context", name, x)
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

// Remove stops showing the pool, the memory and the context of that name.
func (c *Collector) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pools, name)
	delete(c.memories, name)
	delete(c.contexts, name)
}

// all are the descriptions, as desc made them; immutable from then on.
var all []*prometheus.Desc

func desc(kind, name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("godwit_"+kind+"_"+name, help, append([]string{kind}, labels...), nil)
	all = append(all, d)
	return d
}

// The descriptions; immutable.
var (
	ctxCommands  = desc("context", "commands_total", "Commands accepted.")
	ctxCopies    = desc("context", "copies_total", "Copies between memories, write-backs among them.")
	ctxMoved     = desc("context", "moved_bytes_total", "Bytes that arrived at memories by copies, each once whatever the hops.")
	ctxEvictions = desc("context", "evictions_total", "Blocks that left a memory for others' sake.")
	ctxEvicted   = desc("context", "evicted_bytes_total", "Bytes of evicted blocks, by what became of them: dropped, since they were elsewhere, too; written_back; empty of content.", "content")
	ctxLink      = desc("context", "link_bytes_total", "Bytes that went from one memory to another, through staging by way of the host.", "from", "to")
	ctxMemory    = desc("context", "memory_bytes", "Bytes in blocks, by memory and state: live, peak, and whole, what peak would be were every buffer stored whole.", "memory", "state")
	ctxTenant    = desc("context", "tenant_bytes", "Bytes of tenants' blocks, by memory and state: live, pending, peak of both together; and their cap and floor, 0 for none.", "tenant", "memory", "state")
	ctxLeft      = desc("context", "tenant_evictions_total", "Blocks of tenants that left a memory for others' sake, or their own.", "tenant", "memory")
	ctxRegrown   = desc("context", "regrown_bytes_total", "Bytes copied within a memory into blocks that took others' place; not among the moved.")
	ctxQueue     = desc("context", "queue_depth", "Commands accepted and not ended, by queue; queues of one name and device together.", "queue", "device")
	ctxWaits     = desc("context", "room_waits_total", "Waits of enqueues for blocks that others use yet.")
	ctxWaited    = desc("context", "room_wait_seconds_total", "Time that enqueues waited so.")
	ctxShort     = desc("context", "shortages_total", "Enqueues that found no room, even by eviction.")
	ctxAsked     = desc("context", "room_asked_total", "Times that other contexts were asked for room.")
	ctxGiven     = desc("context", "room_given_bytes_total", "Bytes of other contexts' blocks that left for that.")
	ctxFlying    = desc("context", "transfers_in_flight", "Transfers through staging that are under way or wait.")

	poolRequests = desc("pool", "requests_total", "Buffers asked for, by whether the pool had one.", "result")
	poolBytes    = desc("pool", "bytes", "Bytes in buffers of the pool, by state: out, ready, waiting.", "state")
	poolAsked    = desc("pool", "asked_bytes", "Bytes asked for by those who have buffers out; the rest of out is rounding.")
	poolBuffers  = desc("pool", "buffers", "Buffers that exist.")

	memCapacity = desc("memory", "capacity_bytes", "What the memory can hold; 0 is unknown.")
	memBytes    = desc("memory", "bytes", "Bytes by state: live, pending, reserved, cached.", "state")
	memLargest  = desc("memory", "largest_free_bytes", "The largest block that could be given now; 0 is unknown.")
	memBlocks   = desc("memory", "blocks", "Live blocks.")
	memOps      = desc("memory", "operations_total", "Blocks given and freed, and refused requests.", "operation")
	memPeak     = desc("memory", "peak_bytes", "The highest figure since the last reset, by state: allocated, active, reserved.", "state")
	memOOM      = desc("memory", "out_of_memory_total", "Requests refused for want of room or budget since the last reset.")
	memRetries  = desc("memory", "retries_total", "Requests tried again since the last reset.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range all {
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
	for name, x := range c.contexts {
		collectContext(ch, name, x)
	}
}

func collectContext(ch chan<- prometheus.Metric, name string, x Context) {
	s, f := x.Stats(), x.Figures()
	counter(ch, ctxCommands, s.Commands, name)
	counter(ch, ctxCopies, s.Copies, name)
	counter(ch, ctxMoved, s.BytesMoved, name)
	counter(ch, ctxRegrown, s.BytesRegrown, name)
	counter(ch, ctxEvictions, s.Evictions, name)
	counter(ch, ctxEvicted, s.BytesDropped, name, "dropped")
	counter(ch, ctxEvicted, s.BytesWrittenBack, name, "written_back")
	counter(ch, ctxEvicted, s.BytesEvicted-min(s.BytesEvicted, s.BytesDropped+s.BytesWrittenBack), name, "empty")
	for _, l := range f.Links {
		counter(ch, ctxLink, l.Bytes, name, l.From, l.To)
	}
	for _, m := range f.Memories {
		gauge(ch, ctxMemory, m.Live, name, m.Name, "live")
		gauge(ch, ctxMemory, m.Peak, name, m.Name, "peak")
		gauge(ch, ctxMemory, m.Whole, name, m.Name, "whole")
	}
	for _, t := range f.Tenants {
		for state, v := range map[string]uint64{"live": t.Live, "pending": t.Pending, "peak": t.Peak, "cap": t.Cap, "floor": t.Floor} {
			gauge(ch, ctxTenant, v, name, t.Tenant, t.Memory, state)
		}
		counter(ch, ctxLeft, t.Evictions, name, t.Tenant, t.Memory)
	}
	depths := make(map[[2]string]int)
	for _, q := range f.Queues {
		depths[[2]string{q.Queue, q.Device}] += q.Commands
	}
	for q, n := range depths {
		gauge(ch, ctxQueue, uint64(n), name, q[0], q[1])
	}
	counter(ch, ctxWaits, f.Room.Waits, name)
	ch <- prometheus.MustNewConstMetric(ctxWaited, prometheus.CounterValue, f.Room.Waited.Seconds(), name)
	counter(ch, ctxShort, f.Room.Shortages, name)
	counter(ch, ctxAsked, f.Room.Asked, name)
	counter(ch, ctxGiven, f.Room.Given, name)
	gauge(ch, ctxFlying, uint64(x.MoverStats().Flying), name)
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
