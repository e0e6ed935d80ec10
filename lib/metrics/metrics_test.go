package metrics_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/internal/resource"
	"godwit/lib/metrics"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

func TestAScrapeShowsPoolsAndMemories(t *testing.T) {
	d, err := cpu.New(cpu.Options{Name: "cpu0", Memory: 1 << 20})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{
		NoEviction: true,
		Devices:    []devices.Device{d}, OwnDevices: true,
		Resource: pool.Stack(pool.StackOptions{Pool: &resource.PoolOptions{Slab: 1 << 16}}),
	})
	require.NoError(t, err)
	a, err := pool.NewDeviceAllocator(c, d)
	require.NoError(t, err)
	p, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(t, err)

	col := metrics.NewCollector()
	require.NoError(t, col.AddPool("activations", p))
	require.NoError(t, col.AddMemory("cpu0", c.Resource(1)))
	require.ErrorIs(t, col.AddPool("activations", p), mem.ErrInvalidValue)
	require.ErrorIs(t, col.AddMemory("cpu0", c.Resource(1)), mem.ErrInvalidValue)

	h, err := p.Get(nil, 3000, 0)
	require.NoError(t, err)
	block, err := a.Allocate(context.Background(), 1000, "weights")
	require.NoError(t, err)
	_, err = a.Allocate(context.Background(), 1<<20, "too much")
	require.ErrorIs(t, err, mem.ErrNoMemory)

	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(`
# HELP godwit_memory_blocks Live blocks.
# TYPE godwit_memory_blocks gauge
godwit_memory_blocks{memory="cpu0"} 1
# HELP godwit_memory_bytes Bytes by state: live, pending, reserved, cached.
# TYPE godwit_memory_bytes gauge
godwit_memory_bytes{memory="cpu0",state="cached"} 0
godwit_memory_bytes{memory="cpu0",state="live"} 1000
godwit_memory_bytes{memory="cpu0",state="pending"} 0
godwit_memory_bytes{memory="cpu0",state="reserved"} 65536
# HELP godwit_memory_out_of_memory_total Requests refused for want of room or budget since the last reset.
# TYPE godwit_memory_out_of_memory_total counter
godwit_memory_out_of_memory_total{memory="cpu0"} 1
# HELP godwit_memory_peak_bytes The highest figure since the last reset, by state: allocated, active, reserved.
# TYPE godwit_memory_peak_bytes gauge
godwit_memory_peak_bytes{memory="cpu0",state="active"} 1000
godwit_memory_peak_bytes{memory="cpu0",state="allocated"} 1000
godwit_memory_peak_bytes{memory="cpu0",state="reserved"} 65536
# HELP godwit_pool_bytes Bytes in buffers of the pool, by state: out, ready, waiting.
# TYPE godwit_pool_bytes gauge
godwit_pool_bytes{pool="activations",state="out"} 4096
godwit_pool_bytes{pool="activations",state="ready"} 0
godwit_pool_bytes{pool="activations",state="waiting"} 0
# HELP godwit_pool_requests_total Buffers asked for, by whether the pool had one.
# TYPE godwit_pool_requests_total counter
godwit_pool_requests_total{pool="activations",result="hit"} 0
godwit_pool_requests_total{pool="activations",result="miss"} 1
`), "godwit_memory_blocks", "godwit_memory_bytes", "godwit_memory_out_of_memory_total", "godwit_memory_peak_bytes", "godwit_pool_bytes", "godwit_pool_requests_total"))
	problems, err := testutil.CollectAndLint(col)
	require.NoError(t, err)
	require.Empty(t, problems)

	col.Remove("activations")
	require.Zero(t, testutil.CollectAndCount(col, "godwit_pool_buffers"))
	require.NoError(t, block.Release())
	require.NoError(t, p.Put(h))
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NoError(t, c.Close(context.Background()))
}

func TestAScrapeShowsWhatAContextMovedAndEvicted(t *testing.T) {
	d, err := cpu.New(cpu.Options{Name: "cpu0", Memory: 8 << 10})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{Name: "work"})
	require.NoError(t, err)
	col := metrics.NewCollector()
	require.NoError(t, col.AddContext("main", c))
	require.ErrorIs(t, col.AddContext("main", c), mem.ErrInvalidValue)
	ctx := context.Background()
	var buffers []*runtime.Buffer
	for range 3 {
		b, err := c.CreateBuffer(4<<10, 0, nil)
		require.NoError(t, err)
		buffers = append(buffers, b)
		e, err := q.EnqueueFill(ctx, b, []byte{1}, 0, 4<<10)
		require.NoError(t, err)
		require.NoError(t, e.Release())
	}
	require.NoError(t, q.Finish(ctx))
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(`
# HELP godwit_context_evicted_bytes_total Bytes of evicted blocks, by what became of them: dropped, since they were elsewhere, too; written_back; empty of content.
# TYPE godwit_context_evicted_bytes_total counter
godwit_context_evicted_bytes_total{content="dropped",context="main"} 0
godwit_context_evicted_bytes_total{content="empty",context="main"} 0
godwit_context_evicted_bytes_total{content="written_back",context="main"} 4096
# HELP godwit_context_evictions_total Blocks that left a memory for others' sake.
# TYPE godwit_context_evictions_total counter
godwit_context_evictions_total{context="main"} 1
# HELP godwit_context_link_bytes_total Bytes that went from one memory to another, through staging by way of the host.
# TYPE godwit_context_link_bytes_total counter
godwit_context_link_bytes_total{context="main",from="cpu0",to="host"} 4096
# HELP godwit_context_memory_bytes Bytes in blocks, by memory and state: live, peak, and whole, what peak would be were every buffer stored whole.
# TYPE godwit_context_memory_bytes gauge
godwit_context_memory_bytes{context="main",memory="cpu0",state="live"} 8192
godwit_context_memory_bytes{context="main",memory="cpu0",state="peak"} 8192
godwit_context_memory_bytes{context="main",memory="cpu0",state="whole"} 8192
godwit_context_memory_bytes{context="main",memory="host",state="live"} 4096
godwit_context_memory_bytes{context="main",memory="host",state="peak"} 4096
godwit_context_memory_bytes{context="main",memory="host",state="whole"} 4096
# HELP godwit_context_queue_depth Commands accepted and not ended, by queue; queues of one name and device together.
# TYPE godwit_context_queue_depth gauge
godwit_context_queue_depth{context="main",device="cpu0",queue="work"} 0
`), "godwit_context_evicted_bytes_total", "godwit_context_evictions_total", "godwit_context_link_bytes_total", "godwit_context_memory_bytes", "godwit_context_queue_depth"))
	wide, err := c.CreateBuffer(8<<10, 0, nil)
	require.NoError(t, err)
	_, err = q.EnqueueCopy(ctx, buffers[0], wide, 0, 0, 4<<10)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.NoError(t, wide.Release())
	require.NoError(t, testutil.CollectAndCompare(col, strings.NewReader(`
# HELP godwit_context_shortages_total Enqueues that found no room, even by eviction.
# TYPE godwit_context_shortages_total counter
godwit_context_shortages_total{context="main"} 1
`), "godwit_context_shortages_total"))
	problems, err := testutil.CollectAndLint(col)
	require.NoError(t, err)
	require.Empty(t, problems)
	for _, b := range buffers {
		require.NoError(t, b.Release())
	}
	require.NoError(t, c.Close(ctx))
}
