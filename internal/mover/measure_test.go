package mover

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestACostIsSolvedFromTheProbes(t *testing.T) {
	want := cost{bandwidth: 50e9, gap: 4e-6, base: 30e-6}
	var times [len(probes)]float64
	for i, p := range probes {
		times[i] = float64(p.size+p.chunk)/want.bandwidth + float64(p.size/p.chunk)*want.gap + want.base
	}
	got, ok := solve(times)
	require.True(t, ok)
	require.InEpsilon(t, want.bandwidth, got.bandwidth, 1e-6)
	require.InEpsilon(t, want.gap, got.gap, 1e-6)
	require.InEpsilon(t, want.base, got.base, 1e-6)
	path := got.path()
	require.True(t, path.There)
	require.InDelta(t, 38*time.Microsecond, path.Latency, float64(time.Microsecond))
	_, ok = solve([len(probes)]float64{1, 1, 1})
	require.False(t, ok, "noise is no link")
}

// TestChunksAreEqualAndFitTheRing, for sizes from a byte to gigabytes.
func TestChunksAreEqualAndFitTheRing(t *testing.T) {
	m := &Mover{opts: Options{Budget: 256 << 20, Lanes: 8}, mems: make([]memory, 3)}
	for i := range m.mems {
		m.mems[i].discrete = i > 0
	}
	for _, f := range []form{inBatch, inChain, inLanes} {
		for _, size := range []uint64{1, 4096, 100_000, 1 << 20, 3<<20 + 17, 64 << 20, 1 << 30} {
			x := &ring{m: m, form: f, way: mem.Ring, size: size, src: End{Memory: 1}, n: 1, dsts: []*arrival{{dst: End{Memory: 2}}}}
			x.shape()
			want, least := x.wants()
			require.NotZero(t, x.chunk)
			require.Zero(t, x.chunk%pageSize)
			require.LessOrEqual(t, least, want)
			require.LessOrEqual(t, want, m.arenaSize(), "form %d, %d bytes", f, size)
			for _, got := range []uint64{want, pages(least)} {
				x.staging = []extent{{size: got}}
				x.fit()
				chunks := (size + x.chunk - 1) / x.chunk
				require.GreaterOrEqual(t, uint64(x.slots()), min(chunks, 1))
				if f == inBatch {
					require.GreaterOrEqual(t, uint64(x.slots()), min(chunks, leastSlots), "reads run ahead: form %d, %d bytes, staging of %d", f, size, got)
				}
				x.shape()
			}
		}
	}
	x := &ring{m: m, form: inBatch, way: mem.Ring, size: 256 << 20, src: End{Memory: 1}, n: 1, dsts: []*arrival{{dst: End{Memory: 2}}}}
	x.shape()
	require.InDelta(t, 8<<20, x.chunk, 1<<20, "sqrt(n g b) between two H200s")
}

// TestDevicesThatShareStagingFitTheBudget: with eight of them a ring is still large
// enough, and an arena for each home fits.
func TestDevicesThatShareStagingFitTheBudget(t *testing.T) {
	for _, n := range []int{1, 2, 8, 16} {
		m := &Mover{opts: Options{Budget: 256 << 20, Lanes: 8}, mems: make([]memory, 1+n)}
		for i := range m.mems {
			m.mems[i].discrete, m.mems[i].home = i > 0, i
		}
		require.LessOrEqual(t, m.arenaSize()*uint64(1+n), max(m.opts.Budget, m.arenaSize()*4))
		require.GreaterOrEqual(t, m.share(), min(leastShare, m.arenaSize()))
		require.LessOrEqual(t, m.share(), m.arenaSize())
	}
}

func TestAnInstantLinkIsNoLink(t *testing.T) {
	l := mem.RingLink(0, 0)
	_, known := l.Ring.Time(1)
	require.False(t, known)
}
