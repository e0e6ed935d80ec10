//go:build cgo

package opencl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// Kernels of the benchmarks: mark makes its buffer's content new where it runs; arithmetic and memory fill a
// device, with sums and with loads and stores.
const marks = `
kernel void mark(global uint *a, uint v, ulong last) { if (get_global_id(0) == 0) { a[0] = v; a[last] = v; } }
kernel void arithmetic(global float *a, uint rounds, uint n) {
	float x = get_global_id(0) * 1e-6f;
	for (uint i = 0; i < rounds; i++) x = fma(x, 1.0001f, 1e-7f);
	a[get_global_id(0) % n] = x;
}
kernel void memory(global float4 *a, uint rounds, uint n) {
	for (uint r = 0; r < rounds; r++)
		for (uint i = get_global_id(0); i < n / 4; i += get_global_size(0)) a[i] = a[i] * 0.5f + 1.5f;
}
`

// migrations is OpenCL devices of one platform, GODWIT_TEST_PLATFORM's where that is set, in one context.
type migrations struct {
	b    testing.TB
	c    *runtime.Context
	prog *runtime.Program
	devs []devices.Device
	qs   []*runtime.Queue
	gpus bool // of that platform: sizes are those of the figures in docs/measured.md
	join bool // by links
}

func openMigrations(b testing.TB, options func([]devices.Device, *runtime.Options)) *migrations {
	if _, err := opencl.Select(opencl.Selection{}); err != nil {
		b.Skipf("no OpenCL here: %v", err)
	}
	params := map[string]string{"bus": "on"}
	if p := os.Getenv("GODWIT_TEST_PLATFORM"); p != "" {
		params = map[string]string{"platform": p}
	}
	devs, err := devices.Open(b.Context(), "opencl", devices.Config{Params: params})
	require.NoError(b, err)
	m := &migrations{b: b, devs: devs, gpus: os.Getenv("GODWIT_TEST_PLATFORM") != ""}
	o := runtime.Options{Devices: devs, OwnDevices: true}
	if options != nil {
		options(devs, &o)
	}
	m.c, err = runtime.NewContext(o)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.c.Close(context.Background())) })
	if len(devs) < 2 {
		b.Skipf("%d devices", len(devs))
	}
	m.join = m.c.OpenLinks(b.Context()) == nil
	m.prog, err = m.c.Build(b.Context(), &devices.Program{Name: "marks", Source: marks})
	require.NoError(b, err)
	for i := range devs {
		m.qs = append(m.qs, m.queue(i))
	}
	return m
}

func (m *migrations) queue(i int) *runtime.Queue {
	q, err := m.c.NewQueue(m.devs[i], runtime.QueueOptions{})
	require.NoError(m.b, err)
	return q
}

// sizes are some MiB on GPUs, and little elsewhere.
func (m *migrations) sizes(mib ...uint64) (out []uint64) {
	if !m.gpus {
		return []uint64{1 << 20}
	}
	for _, n := range mib {
		out = append(out, n<<20)
	}
	return out
}

// journey is a buffer that gets from one device to others by one command.
type journey struct {
	buf  *runtime.Buffer
	from int
	to   []int
	mark uint32
}

func (m *migrations) journey(size uint64, from int, to ...int) *journey {
	data := make([]byte, size)
	for i := 0; i < len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], uint32(i+from)*2654435761)
	}
	buf, err := m.c.CreateBuffer(size, runtime.ReadWrite|runtime.CopyHostPtr, data)
	require.NoError(m.b, err)
	return &journey{buf: buf, from: from, to: to}
}

// home makes the content new where the journey begins, and valid nowhere else.
func (m *migrations) home(all []*journey) {
	kernel, err := m.prog.Kernel("mark")
	require.NoError(m.b, err)
	for _, j := range all {
		j.mark++
		m.launch(m.qs[j.from], kernel, 1, runtime.InOut(j.buf), runtime.Uint32(j.mark), runtime.Uint64(j.buf.Size()/4-1))
	}
	m.finish()
}

func (m *migrations) launch(q *runtime.Queue, k *runtime.Kernel, global uint64, args ...runtime.Arg) runtime.Event {
	e, err := q.EnqueueLaunch(m.b.Context(), runtime.Launch{Kernel: k, Global: []uint64{global}, Args: args})
	require.NoError(m.b, err)
	return e
}

func (m *migrations) finish() {
	for _, q := range m.qs {
		require.NoError(m.b, q.Finish(m.b.Context()))
	}
}

// depart enqueues all journeys; their events are the caller's.
func (m *migrations) depart(all []*journey) (events []runtime.Event) {
	for _, j := range all {
		var to []mem.MemoryID
		for _, d := range j.to {
			id, err := m.c.Memory(m.devs[d])
			require.NoError(m.b, err)
			to = append(to, id)
		}
		e, err := m.qs[j.to[0]].EnqueueMigrateTo(m.b.Context(), []*runtime.Buffer{j.buf}, to)
		require.NoError(m.b, err)
		events = append(events, e)
	}
	return events
}

// wait waits for events and says how long after start the last has been seen to end.
func (m *migrations) wait(start time.Time, events []runtime.Event) time.Duration {
	for _, e := range events {
		require.NoError(m.b, e.Wait(m.b.Context()))
		require.NoError(m.b, e.Release())
	}
	return time.Since(start)
}

// check compares what each destination holds with what the last mark left, and gives the buffers back.
func (m *migrations) check(all []*journey) {
	for _, j := range all {
		want := make([]byte, j.buf.Size())
		for i := 0; i < len(want); i += 4 {
			binary.LittleEndian.PutUint32(want[i:], uint32(i+j.from)*2654435761)
		}
		binary.LittleEndian.PutUint32(want, j.mark)
		binary.LittleEndian.PutUint32(want[len(want)-4:], j.mark)
		for _, d := range j.to {
			got := make([]byte, len(want))
			require.NoError(m.b, m.qs[d].Read(m.b.Context(), j.buf, 0, got))
			require.True(m.b, bytes.Equal(want, got), "from %d, at %d", j.from, d)
		}
		require.NoError(m.b, j.buf.Release())
	}
	require.NoError(m.b, m.c.Check())
}

// cuda is the median time of CUDA's own copies of the same bytes between the same devices, given to it at once;
// 0 where there is no CUDA, or a size that fits in no window.
func (m *migrations) cuda(all []*journey, times int) time.Duration {
	if !m.gpus || !m.join || all[0].buf.Size() >= 512<<20 {
		return 0
	}
	var hops []opencl.Hop
	blocks := map[int]mem.Block{}
	at := func(d int, size uint64) devices.Loc {
		if _, ok := blocks[d]; !ok {
			var w [1]mem.Block
			outcome, err := m.devs[d].Memory().AllocAll([]mem.Request{{Size: size}}, w[:], nil)
			require.NoError(m.b, err)
			require.Equal(m.b, mem.Ready, outcome)
			blocks[d] = w[0]
		}
		return devices.Loc{Device: m.devs[d], Block: blocks[d]}
	}
	for _, j := range all {
		for _, d := range j.to {
			hops = append(hops, opencl.Hop{From: at(j.from, j.buf.Size()), To: at(d, j.buf.Size()), Size: j.buf.Size()})
		}
	}
	var took []time.Duration
	for range times {
		t, err := opencl.TimeHops(hops)
		require.NoError(m.b, err)
		took = append(took, t)
	}
	for d, b := range blocks {
		require.NoError(m.b, m.devs[d].Memory().FreeAfter(b, nil))
	}
	return middle(took)
}

func middle(t []time.Duration) time.Duration {
	slices.Sort(t)
	return t[len(t)/2]
}

// gbps is GB/s of bytes that take so long.
func gbps(bytes uint64, d time.Duration) float64 { return float64(bytes) / 1e9 / max(d, 1).Seconds() }

// BenchmarkMigrations measures content that gets from one device to all others by one command, from each to the
// next, and from each to each, until the host has seen it there: medians. On GPUs "of-cuda" is the rate over that
// of CUDA's own copies of the same bytes, given to CUDA at once.
func BenchmarkMigrations(b *testing.B) {
	m := openMigrations(b, nil)
	n := len(m.devs)
	for _, p := range []struct {
		name  string
		sizes []uint64
		all   func(size uint64) []*journey
	}{
		{"one-to-all", m.sizes(16, 256, 1024), func(size uint64) []*journey {
			j := m.journey(size, 0)
			for i := 1; i < n; i++ {
				j.to = append(j.to, i)
			}
			return []*journey{j}
		}},
		{"neighbours", m.sizes(1, 16, 256), func(size uint64) (all []*journey) {
			for i := range n {
				all = append(all, m.journey(size, i, (i+1)%n))
			}
			return all
		}},
		{"all-to-all", m.sizes(4, 64), func(size uint64) (all []*journey) {
			for i := range n {
				for k := range n {
					if k != i {
						all = append(all, m.journey(size, i, k))
					}
				}
			}
			return all
		}},
	} {
		for _, size := range p.sizes {
			b.Run(fmt.Sprintf("%s/%dMiB", p.name, size>>20), func(b *testing.B) {
				m.b = b
				all := p.all(size)
				m.home(all)
				m.wait(time.Now(), m.depart(all)) // the first time makes the blocks
				bytes := uint64(0)
				for _, j := range all {
					bytes += size * uint64(len(j.to))
				}
				before := m.c.Stats().BytesMoved
				var took []time.Duration
				for b.Loop() {
					m.home(all)
					start := time.Now()
					took = append(took, m.wait(start, m.depart(all)))
				}
				require.Equal(b, bytes*uint64(len(took)), m.c.Stats().BytesMoved-before, "as few as can be")
				own := m.cuda(all, max(len(took), 3))
				m.check(all)
				t := middle(took)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(t.Seconds()*1e6, "us")
				b.ReportMetric(gbps(bytes, t), "GB/s")
				if own > 0 {
					b.ReportMetric(own.Seconds()/t.Seconds(), "of-cuda")
				}
			})
		}
	}
}

// BenchmarkMigrationsBesideKernels measures eight buffers that get from one device to another while a kernel fills
// the destination, the source, or both: medians of the copies' rate over theirs alone, and of the kernels' time over
// theirs alone.
func BenchmarkMigrationsBesideKernels(b *testing.B) {
	m := openMigrations(b, nil)
	size, scratch, items := uint64(128<<20), uint64(512<<20), uint64(132*2048*64)
	if !m.gpus {
		size, scratch, items = 256<<10, 1<<20, 1<<12
	}
	var all []*journey
	for range 8 {
		all = append(all, m.journey(size, 0, 1))
	}
	var beside []*runtime.Queue
	var fill []*runtime.Buffer
	for i := range 2 {
		beside = append(beside, m.queue(i))
		f, err := m.c.CreateBuffer(scratch, runtime.ReadWrite, nil)
		require.NoError(b, err)
		fill = append(fill, f)
	}
	m.home(all)
	m.wait(time.Now(), m.depart(all))
	for _, k := range []struct {
		name  string
		items uint64
	}{{"arithmetic", items}, {"memory", items / 64}} {
		m.b = b
		kernel, err := m.prog.Kernel(k.name)
		require.NoError(b, err)
		run := func(on []int, rounds uint32) (events []runtime.Event) {
			for _, i := range on {
				events = append(events, m.launch(beside[i], kernel, k.items, runtime.InOut(fill[i]), runtime.Uint32(rounds), runtime.Uint32(uint32(scratch/4))))
				require.NoError(m.b, beside[i].Flush())
			}
			return events
		}
		rounds := uint32(16)
		for _, i := range []int{0, 1} { // warm
			m.wait(time.Now(), run([]int{i}, rounds))
		}
		for once := time.Duration(0); m.gpus && once < 2*time.Millisecond; { // a few times as long as the copies
			once = m.wait(time.Now(), run([]int{0}, rounds))
			rounds = uint32(float64(rounds) * min(4, 8e-3/once.Seconds()))
		}
		for _, w := range []struct {
			name string
			on   []int
		}{{"destination", []int{1}}, {"source", []int{0}}, {"both", []int{0, 1}}} {
			b.Run(k.name+"/"+w.name, func(b *testing.B) {
				m.b = b
				var alone, with, kernelAlone, kernelWith []time.Duration
				for b.Loop() {
					m.home(all)
					alone = append(alone, m.wait(time.Now(), m.depart(all)))
					kernelAlone = append(kernelAlone, m.wait(time.Now(), run(w.on, rounds)))
					m.home(all)
					start, ended := time.Now(), make(chan time.Duration)
					kernels := run(w.on, rounds)
					go func() { ended <- m.wait(start, kernels) }()
					with = append(with, m.wait(start, m.depart(all)))
					kernelWith = append(kernelWith, <-ended)
				}
				a, t, ka, kt := middle(alone), middle(with), middle(kernelAlone), middle(kernelWith)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(gbps(8*size, a), "alone-GB/s")
				b.ReportMetric(gbps(8*size, t), "beside-GB/s")
				b.ReportMetric(a.Seconds()/t.Seconds(), "of-alone")
				b.ReportMetric(ka.Seconds()*1e3, "kernel-ms")
				b.ReportMetric(kt.Seconds()/ka.Seconds(), "kernel-longer")
			})
		}
	}
	m.b = b
	m.check(all)
	for _, f := range fill {
		require.NoError(b, f.Release())
	}
}

// TestMoreDataThanTwoGPUsHold has kernels mark buffers of GODWIT_TEST_TOTAL bytes in all on two GPUs that hold less,
// whoever has the rest of their memory: no first use fails, and no large block lies outside windows.
func TestMoreDataThanTwoGPUsHold(t *testing.T) {
	total, _ := strconv.ParseUint(os.Getenv("GODWIT_TEST_TOTAL"), 10, 64)
	if total == 0 {
		t.Skip("GODWIT_TEST_TOTAL is not set")
	}
	outside := 0
	m := openMigrations(t, countOutside(&outside))
	require.True(t, m.join)
	kernel, err := m.prog.Kernel("mark")
	require.NoError(t, err)
	goal, seed := 50_000, rand.Uint64()
	const n = 48
	r := rand.New(rand.NewPCG(seed, total))
	var all []*journey
	for i := range uint64(n) {
		all = append(all, m.journey(total/n&^4095+i*4096, 0, 1))
	}
	for command := range goal {
		j, q := all[r.IntN(n)], m.qs[r.IntN(2)]
		if r.IntN(8) == 0 {
			var got [4]byte
			at := r.Uint64N(2) * (j.buf.Size() - 4)
			require.NoError(t, q.Read(t.Context(), j.buf, at, got[:]), "command %d", command)
			if j.mark > 0 {
				require.Equal(t, j.mark, binary.LittleEndian.Uint32(got[:]), "command %d", command)
			}
			continue
		}
		j.mark++
		e := m.launch(q, kernel, 1, runtime.InOut(j.buf), runtime.Uint32(j.mark), runtime.Uint64(j.buf.Size()/4-1))
		require.NoError(t, e.Release())
	}
	m.finish()
	s := m.c.Stats()
	t.Logf("%d commands on %d bytes, seed %d: %d blocks evicted, %d bytes moved", goal, total, seed, s.Evictions, s.BytesMoved)
	for _, j := range all {
		if j.mark == 0 {
			require.NoError(t, j.buf.Release())
			continue
		}
		m.check([]*journey{j})
	}
	require.Zero(t, outside)
	require.Positive(t, s.Evictions)
}
