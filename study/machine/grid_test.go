package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is told by places in a torus is what a search finds there: all paths, those of the host among them, also where
// links beside the torus's make it no torus.
func TestPathsInATorusAreThoseOfASearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sides := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 3).Draw(t, "sides")
		n, p := 1, rapid.IntRange(1, 2).Draw(t, "p")
		for _, s := range sides {
			n *= s
		}
		more, plain := "", true
		if a, b := rapid.IntRange(0, n-1).Draw(t, "a"), rapid.IntRange(0, n-1).Draw(t, "b"); rapid.Bool().Draw(t, "more") {
			more = fmt.Sprintf(", {from: t%d, to: x, latency: 1 us, bandwidth: 1 GB/s}, {from: x, to: t%d, latency: 1 us, bandwidth: 1 GB/s}", a, b)
			plain = false
		}
		peers := rapid.Bool().Draw(t, "peers")
		text := fmt.Sprintf(`
seed: %d
devices: [{name: d, count: %d, bandwidth: 2 GB/s}]
switches: [{name: x}]
topology: {kind: torus, name: t, of: d, dims: %s, p: %d, wrap: %v, latency: %d ns, bandwidth: 1 GB/s, switch: {peers: %v}}
links: [{between: [host, t%d], latency: 1 us, bandwidth: 1 GB/s}%s]
`, rapid.Uint64Range(0, 9).Draw(t, "seed"), rapid.IntRange(1, n*p).Draw(t, "devices"), strings.ReplaceAll(fmt.Sprint(sides), " ", ", "), p, rapid.Bool().Draw(t, "wrap"), rapid.IntRange(0, 1000).Draw(t, "latency"),
			peers, rapid.IntRange(0, n-1).Draw(t, "host"), more)
		m, err := Parse("m.yaml", []byte(text), Options{})
		require.NoError(t, err)
		searched, err := Parse("m.yaml", []byte(text), Options{})
		require.NoError(t, err)
		require.Equal(t, plain, m.grids[0].plain, text)
		searched.grids = nil
		for a := range m.memory {
			for b := range m.memory {
				require.Equal(t, searched.route(a, b), m.route(a, b), "%d to %d of %s", a, b, text)
			}
		}
		if plain && peers {
			require.Empty(t, m.trees, "nothing is searched")
		}
	})
}
