package pool_test

import (
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/lib/pool"
	rt "godwit/runtime"
)

func soak() bool { return os.Getenv("GODWIT_SOAK") != "" }

// BenchmarkHit is one Get and Put of a buffer that is there.
func BenchmarkHit(b *testing.B) {
	c, _ := nullContext(b)
	p, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(b, err)
	h, err := p.Get(nil, 1<<20, 0)
	require.NoError(b, err)
	require.NoError(b, p.Put(h))
	b.ReportAllocs()
	for b.Loop() {
		h, err := p.Get(nil, 1<<20, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Put(h); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	_, err = p.Clear()
	require.NoError(b, err)
	require.NoError(b, c.Close(bg))
}

// BenchmarkTwoGoroutines compares two goroutines on different buckets of a
// BoundedPool with one, interleaved, and reports the median ratio of hits per
// second. It needs two idle cores to mean something: "x-with-nothing-shared" is what
// two goroutines reach that lock a mutex each and have nothing to do with each other.
func BenchmarkTwoGoroutines(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("needs two processors")
	}
	c, _ := nullContext(b)
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: 1 << 30})
	require.NoError(b, err)
	for _, size := range []uint64{1 << 12, 1 << 20} {
		h, err := p.Get(bg, nil, size, 0)
		require.NoError(b, err)
		require.NoError(b, p.Put(h))
	}
	const n = 400_000
	run := func(sizes ...uint64) time.Duration {
		var wg sync.WaitGroup
		start := time.Now()
		for _, size := range sizes {
			wg.Go(func() { hits(b, p, size, n) })
		}
		wg.Wait()
		return time.Since(start)
	}
	alone := func(k int) time.Duration {
		var wg sync.WaitGroup
		start := time.Now()
		for i := range k {
			wg.Go(func() { lockings(&cells[i], n) })
		}
		wg.Wait()
		return time.Since(start)
	}
	var ratios, control []float64
	for b.Loop() {
		for range 9 {
			one := run(1 << 12)
			two := run(1<<12, 1<<20)
			ratios = append(ratios, 2*float64(one)/float64(two))
			one, two = alone(1), alone(2)
			control = append(control, 2*float64(one)/float64(two))
		}
	}
	slices.Sort(ratios)
	slices.Sort(control)
	b.ReportMetric(ratios[len(ratios)/2], "x-of-one")
	b.ReportMetric(control[len(control)/2], "x-with-nothing-shared")
	b.ReportMetric(0, "ns/op")
	_, err = p.Clear()
	require.NoError(b, err)
	require.NoError(b, c.Close(bg))
}

// cell is a mutex on cache lines of its own.
type cell struct {
	_  [128]byte
	mu sync.Mutex
	n  int
	_  [128]byte
}

var cells [2]cell

func lockings(c *cell, n int) {
	for range 2 * n { // a hit locks twice
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
}

func hits(b *testing.B, p *pool.BoundedPool, size uint64, n int) {
	var flags rt.Flags
	for range n {
		h, err := p.Get(bg, nil, size, flags)
		if err != nil {
			b.Error(err)
			return
		}
		if err := p.Put(h); err != nil {
			b.Error(err)
			return
		}
	}
}
