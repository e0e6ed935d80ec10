package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fabric is a machine of so many devices, of which the host is linked to the first switch.
func fabric(devices int, topology, first string) (*Machine, error) {
	return Parse("m.yaml", []byte(fmt.Sprintf("devices: [{name: d, count: %d}]\ntopology: {name: t, of: d, %s, latency: 1 us, bandwidth: 1 GB/s}\nlinks: [{between: [host, %s], bandwidth: 1 GB/s}]", devices, topology, first)), Options{})
}

// degrees are how many links each switch has.
func (m *Machine) degrees() map[string]int {
	out := make(map[string]int)
	for _, l := range m.Links {
		if l.From != "host" {
			out[l.From]++
			out[l.To]++
		}
	}
	for _, d := range m.Devices {
		delete(out, d.Name)
	}
	return out
}

// hops is how many links the path between two devices has, by their latency: each has 1 us.
func (m *Machine) hops(a, b int) int { return int(m.route(1+a, 1+b).latency / 1000) }

func TestAFatTreeIsThatOfTheLiterature(t *testing.T) {
	m, err := fabric(16, "kind: fat-tree, k: 4", "t3_0")
	require.NoError(t, err)
	require.Len(t, m.Switches, 20)
	require.Len(t, m.Links, 48+1)
	for name, n := range m.degrees() {
		require.Equal(t, 4, n, name)
	}
	for a := range 16 {
		for b := range 16 {
			want := 6
			switch {
			case a == b:
				want = 0
			case a/2 == b/2:
				want = 2
			case a/4 == b/4:
				want = 4
			}
			require.Equal(t, want, m.hops(a, b), "%d to %d", a, b)
		}
	}
	require.Len(t, m.slowly(1, 16), 4, "paths between two pods")
}

func TestFatTreesOfAnyShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.IntRange(1, 4).Draw(t, "levels")
		over := rapid.IntRange(1, 3).Draw(t, "over")
		radix := 2 * (1 + over) * rapid.IntRange(1, 2).Draw(t, "radix")
		n := rapid.IntRange(1, 40).Draw(t, "devices")
		m, err := fabric(n, fmt.Sprintf("kind: fat-tree, radix: %d, levels: %d, oversubscription: %d", radix, levels, over), fmt.Sprintf("t%d_0", levels))
		down := radix - radix/(1+over)
		if levels == 1 {
			down = radix
		}
		places := down
		for i := 2; i <= levels; i++ {
			if places *= radix / 2; i == levels {
				places *= 2
			}
		}
		if n > places {
			require.ErrorContains(t, err, fmt.Sprintf("%d hang at a fat tree of radix %d and %d levels, which has %d places", n, radix, levels, places))
			return
		}
		require.NoError(t, err)
		for name, n := range m.degrees() {
			require.LessOrEqual(t, n, radix, name)
		}
		for b := 1; b < n; b++ {
			h := m.hops(0, b)
			require.Equal(t, b < down, h == 2, "of the same leaf")
			require.LessOrEqual(t, h, 2*levels)
			if b >= down {
				require.GreaterOrEqual(t, len(m.slowly(1, 1+b)), radix/(1+over), "one for each link up")
			}
		}
	})
}

func TestATorusIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sides := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 3).Draw(t, "sides")
		wrap, p := rapid.Bool().Draw(t, "wrap"), rapid.IntRange(1, 2).Draw(t, "p")
		n := p
		for _, s := range sides {
			n *= s
		}
		m, err := fabric(n, fmt.Sprintf("kind: torus, dims: %s, wrap: %v, p: %d", strings.ReplaceAll(fmt.Sprint(sides), " ", ", "), wrap, p), "t0")
		require.NoError(t, err)
		for a := range n {
			for b := range n {
				want := 2 // to the switches and from them
				for i, j, d := a/p, b/p, 0; d < len(sides); d++ {
					s := sides[d]
					x, y := i%s, j%s
					i, j = i/s, j/s
					far := max(x-y, y-x)
					if wrap {
						far = min(far, s-far)
					}
					want += far
				}
				if a == b {
					want = 0
				}
				require.Equal(t, want, m.hops(a, b), "%d to %d", a, b)
			}
		}
	})
}

func TestADragonflyIsThatOfTheLiterature(t *testing.T) {
	m, err := fabric(72, "kind: dragonfly, p: 2, a: 4, h: 2", "t0_0")
	require.NoError(t, err)
	require.Len(t, m.Switches, 36)
	for name, n := range m.degrees() {
		require.Equal(t, 2+3+2, n, name)
	}
	between := make(map[[2]string]int)
	for _, l := range m.Links {
		a, _, _ := strings.Cut(l.From, "_")
		b, _, _ := strings.Cut(l.To, "_")
		if a != b && strings.HasPrefix(l.From, "t") && strings.HasPrefix(l.To, "t") {
			between[[2]string{a, b}]++
		}
	}
	require.Len(t, between, 9*8/2)
	for groups, n := range between {
		require.Equal(t, 1, n, groups)
	}
	rapid.Check(t, func(t *rapid.T) {
		p, a, h := rapid.IntRange(1, 2).Draw(t, "p"), rapid.IntRange(1, 4).Draw(t, "a"), rapid.IntRange(1, 3).Draw(t, "h")
		groups := rapid.IntRange(h+1, a*h+1).Draw(t, "groups")
		n := groups * a * p
		m, err := fabric(n, fmt.Sprintf("kind: dragonfly, p: %d, a: %d, h: %d, groups: %d, edge: {bandwidth: 1 GB/s}", p, a, h, groups), "t0_0")
		require.NoError(t, err)
		for name, n := range m.degrees() {
			require.LessOrEqual(t, n, p+a-1+h+1, name)
		}
		for b := range n {
			require.LessOrEqual(t, m.hops(0, b), 3, "a local, a global and a local link")
		}
	})
}

func TestFaultsOfTopologies(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ring":                                                    `kind "ring": want one of`,
		"kind: fat-tree":                                                "want radix and levels, or k",
		"kind: fat-tree, k: 4, levels: 2":                               "want radix and levels, or k",
		"kind: fat-tree, k: 4, p: 2":                                    "p: a fat-tree has none; it is of a",
		"kind: fat-tree, radix: 5":                                      "radix 5 and oversubscription 1: want a radix that 2 divides",
		"kind: fat-tree, radix: 9, oversubscription: 2":                 "radix 9: want an even one",
		"kind: fat-tree, radix: 4, levels: 1":                           "9 hang at a fat tree of radix 4 and 1 levels, which has 4 places",
		"kind: fat-tree, radix: 4096, levels: 6, edge: {latency: 1 us}": "edge: bandwidth is missing",
		"kind: torus":                                                   "dims: want the sides of 1 to 6 dimensions",
		"kind: torus, dims: [3, 2]":                                     "9 hang at a torus of 3 2, which has 6 places",
		"kind: torus, dims: [3, x]":                                     `dims "x": want a whole number`,
		"kind: torus, dims: [65536, 65536]":                             "switches: more than 65536 in all",
		"kind: dragonfly, p: 1":                                         "want p, a and h",
		"kind: dragonfly, a: 2, h: 1, groups: 4":                        "groups: 4: with a x h = 2 global links each reaches 2 others",
		"kind: dragonfly, a: 2, h: 2, groups: 2":                        "h: 2: of 2 groups a switch has at most 1 others to reach",
		"kind: torus, dims: [9], name: d":                               "the name is taken",
		"kind: torus, dims: [9], of: e":                                 `no device, group or switch is named "e"`,
	} {
		head := "topology: {name: t, of: d, "
		if strings.Contains(text, "name: ") {
			head = "topology: {of: d, "
		} else if strings.Contains(text, "of: ") {
			head = "topology: {name: t, "
		}
		_, err := Parse("m.yaml", []byte("devices: [{name: d, count: 9}]\n"+head+text+", bandwidth: 1 GB/s}\nlinks: [{between: [host, d], bandwidth: 1 GB/s}]"), Options{})
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "m.yaml:2: ", text)
	}
}
