//go:build cgo

package opencl

import (
	"context"
	"math"
	"slices"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// How large chunks are.
//
// With chunks of c bytes over links of b bytes a second, n bytes take about
//
//	(n + c)/b + n/c * g + k
//
// where g is what each chunk costs beside its bytes and k what every copy does.
// The best c is sqrt(n * g * b). g and b (and k) are measured once for each pair
// of devices, with copies of three shapes, which give three linear equations.

// way is what is known of the way between two devices. Immutable.
type way struct {
	bandwidth float64 // b, bytes a second
	gap       float64 // g, seconds for each chunk
	base      float64 // k, seconds
	measured  bool
}

// defaultWay is that between two H200s over PCIe 5; see docs/measured.md.
var defaultWay = way{bandwidth: 55e9, gap: 4.7e-6, base: 20e-6}

const (
	minChunk = 128 << 10
	maxChunk = mainRing / 4
)

// chunk is the best chunk size for a copy of n bytes, such that the chunks are
// equal.
func (w *way) chunk(n uint64) uint64 {
	best := math.Sqrt(float64(n) * w.gap * w.bandwidth)
	best = min(max(best, minChunk), maxChunk)
	count := max(uint64(math.Round(float64(n)/best)), 1, (n+maxChunk-1)/maxChunk)
	return ((n+count-1)/count + 4095) &^ 4095
}

func (w *way) link() mem.Link {
	return mem.Link{Route: mem.RoutePeer, Latency: time.Duration((w.base + 2*w.gap) * float64(time.Second)), Bandwidth: uint64(w.bandwidth)}
}

// probes are the copies measured: sizes and chunks in bytes.
var probes = [3]struct{ size, chunk uint64 }{{32 << 20, 1 << 20}, {32 << 20, 8 << 20}, {8 << 20, 1 << 20}}

// tune measures the way, once. It gives up, and the default stays, where there
// is no room for the copies or the figures make no sense.
func (p *pair) tune() {
	p.tuning.Lock()
	defer p.tuning.Unlock()
	if p.way.Load().measured {
		return
	}
	w := defaultWay
	defer func() {
		w.measured = true
		p.way.Store(&w)
	}()
	var src, dst [1]mem.Block
	if !scratch(p.from, src[:]) {
		return
	}
	defer func() { _ = p.from.memory.FreeAfter(src[0], nil) }() // live by construction
	if !scratch(p.to, dst[:]) {
		return
	}
	defer func() { _ = p.to.memory.FreeAfter(dst[0], nil) }()
	q, err := p.to.NewQueue(devices.QueueOptions{Name: "tune", OutOfOrder: true})
	if err != nil {
		return
	}
	defer func() { _ = q.Close() }()
	cmd := devices.Command{Op: devices.OpCopy, Src: devices.Loc{Device: p.from, Block: src[0]}, Dst: devices.Loc{Device: p.to, Block: dst[0]}}
	var t [len(probes)]float64
	for i, probe := range probes {
		cmd.Size = probe.size
		// A way whose formula gives just this chunk.
		p.way.Store(&way{bandwidth: 1, gap: float64(probe.chunk) * float64(probe.chunk) / float64(probe.size)})
		if t[i] = timeCopy(q, &cmd); t[i] == 0 {
			return
		}
	}
	if solved, ok := solve(t); ok {
		w = solved
	}
}

func scratch(d *Device, b []mem.Block) bool {
	out, err := d.memory.AllocAll([]mem.Request{{Size: probes[0].size}}, b)
	return err == nil && out == mem.Ready
}

// timeCopy is the median time of a copy in seconds, or 0 where it failed.
func timeCopy(q devices.Queue, cmd *devices.Command) float64 {
	var t []float64
	for range 7 {
		start := time.Now()
		pt, err := q.Submit(cmd, nil)
		if err != nil || q.Wait(context.Background(), pt, devices.Park) != nil {
			return 0
		}
		t = append(t, time.Since(start).Seconds())
	}
	t = t[2:] // the first ones warm up
	slices.Sort(t)
	return t[len(t)/2]
}

// solve finds the way from the times of the probes. ok is false where noise
// gave something that no link can be.
func solve(t [len(probes)]float64) (w way, ok bool) {
	// t = (size + chunk) * x + size/chunk * g + k, for x = 1/b. Differences to
	// the first equation leave two unknowns.
	bytes := func(i int) float64 { return float64(probes[i].size + probes[i].chunk) }
	chunks := func(i int) float64 { return float64(probes[i].size / probes[i].chunk) }
	a1, b1, c1 := bytes(1)-bytes(0), chunks(1)-chunks(0), t[1]-t[0]
	a2, b2, c2 := bytes(2)-bytes(0), chunks(2)-chunks(0), t[2]-t[0]
	det := a1*b2 - a2*b1
	x, g := (c1*b2-c2*b1)/det, (a1*c2-a2*c1)/det
	w = way{bandwidth: 1 / x, gap: g, base: t[0] - bytes(0)*x - chunks(0)*g}
	w.base = max(w.base, 0)
	return w, x > 1e-13 && x < 1e-7 && g > 5e-7 && g < 1e-3
}
