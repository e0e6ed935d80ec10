package bound_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/bound"
)

// sweeps is a run of n launches that each read two and update one of so many
// blocks: in turn, or at random.
func sweeps(t testing.TB, n, blocks int, random bool, capacity, window int) bound.Bound {
	const size = 1 << 20
	a := bound.New(mem.NewTopology("a"), []uint64{0, uint64(capacity) * size}, window)
	for i := range blocks {
		require.NoError(t, a.Create(mem.BufferID(i+1), size, true))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var accs []mem.Access
		for k, mode := range []mem.Mode{mem.Read, mem.Read, mem.ReadWrite} {
			b := (3*i + k) % blocks
			if random {
				b = (int(r.ExpFloat64()*float64(blocks)/4) + k) % blocks
			}
			accs = append(accs, mem.Access{Buffer: mem.BufferID(b + 1), Range: mem.Range{End: size}, Mode: mode, Memory: 1})
		}
		require.NoError(t, a.Command(accs))
	}
	return a.Bound()
}

func BenchmarkTenThousandCommands(b *testing.B) {
	for _, c := range []struct {
		name   string
		random bool
	}{{"in-turn", false}, {"random", true}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				got := sweeps(b, 10_000, 512, c.random, 300, 0)
				b.ReportMetric(float64(got.Capacity>>20), "MiB")
			}
		})
	}
}
