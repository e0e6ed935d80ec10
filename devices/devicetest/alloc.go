package devicetest

import (
	"math"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

func testAllocRules(e *env) {
	m, t := e.dev.Memory(), e.t
	before := m.Stats()
	for _, c := range []struct {
		name string
		reqs []mem.Request
		room int
		err  error
	}{
		{"no size", []mem.Request{{Size: 64}, {Size: 0}}, 2, mem.ErrInvalidSize},
		{"odd alignment", []mem.Request{{Size: 64, Align: 24}}, 1, mem.ErrInvalidValue},
		{"no room for the blocks", []mem.Request{{Size: 64}, {Size: 64}}, 1, mem.ErrInvalidValue},
	} {
		_, err := m.AllocAll(c.reqs, make([]mem.Block, c.room), nil)
		require.ErrorIs(t, err, c.err, c.name)
		require.NoError(t, m.Check())
	}
	out := make([]mem.Block, 2)
	got, err := m.AllocAll([]mem.Request{{Size: 64}, {Size: math.MaxUint64}}, out, nil)
	if err == nil {
		require.NotEqual(t, mem.Ready, got, "all of the address space")
	}
	require.Equal(t, before.Live, m.Stats().Live)
	require.Equal(t, before.Blocks, m.Stats().Blocks)

	got, err = m.AllocAll([]mem.Request{{Size: 100, Align: 4096}, {Size: 300}}, out, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
	require.EqualValues(t, 100, out[0].Size)
	require.NotEqual(t, out[0].Ref, out[1].Ref)
	require.EqualValues(t, 400, m.Stats().Live-before.Live)

	piece := out[1].Piece(10, 20)
	require.ErrorIs(t, m.FreeAfter(piece, nil), mem.ErrInvalidBuffer, "free of a piece")
	require.ErrorIs(t, m.FreeAfter(mem.Block{}, nil), mem.ErrInvalidBuffer, "free of no block")
	other := e.openDevice().Memory()
	require.ErrorIs(t, other.FreeAfter(out[0], nil), mem.ErrInvalidBuffer, "free of another device's block")
	for _, b := range out {
		require.NoError(t, m.FreeAfter(b, nil))
		require.ErrorIs(t, m.FreeAfter(b, nil), mem.ErrInvalidBuffer, "freed twice")
		require.NoError(t, m.Check())
	}
	require.Equal(t, before.Live, m.Stats().Live)
	got, err = m.AllocAll(nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, got)
}

func testFreeAfter(e *env) {
	m, t, line := e.dev.Memory(), e.t, users()
	a, b := line.Next(), line.Next()
	out := make([]mem.Block, 1)
	for _, fail := range []error{nil, errTest} {
		got, err := m.AllocAll([]mem.Request{{Size: 1000}}, out, nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, got)
		points := []mem.Point{a, {}, b}
		require.NoError(t, m.FreeAfter(out[0], points))
		clear(points) // the caller's again
		require.EqualValues(t, 1000, m.Stats().Pending)
		require.ElementsMatch(t, []mem.Point{a, b}, m.Pending(nil))
		require.ErrorIs(t, m.FreeAfter(out[0], nil), mem.ErrInvalidBuffer, "freed twice")
		require.NoError(t, m.Check())
		line.End(a, fail)
		require.EqualValues(t, 1000, m.Stats().Pending, "one point is not both")
		line.End(b, nil)
		require.Zero(t, m.Stats().Pending)
		require.Empty(t, m.Pending(nil))
		require.NoError(t, m.Check())
		a, b = line.Next(), line.Next()
	}
}

// bounded reports whether the device's memory is small enough to use up.
func (e *env) bounded() bool {
	n := e.dev.Info().GlobalMemory
	return n > 0 && n <= 64<<20
}

func testExhaustion(e *env) {
	if !e.bounded() {
		e.t.Skip("unlimited, or too large to use up")
	}
	m, t, line := e.dev.Memory(), e.t, users()
	size := e.dev.Info().GlobalMemory
	half := size / 2
	outcome := func(want mem.Outcome, sizes ...uint64) []mem.Block {
		reqs, out := make([]mem.Request, len(sizes)), make([]mem.Block, len(sizes))
		for i, s := range sizes {
			reqs[i].Size = s
		}
		before := m.Stats()
		got, err := m.AllocAll(reqs, out, nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, m.Check())
		if got != mem.Ready {
			after := m.Stats()
			require.Equal(t, before.Live, after.Live)
			require.Equal(t, before.Blocks, after.Blocks)
			require.Equal(t, before.Failures+1, after.Failures)
		}
		return out
	}
	outcome(mem.Exhausted, size+1)
	outcome(mem.Exhausted, half, half, half)
	a := outcome(mem.Ready, half)[0]
	outcome(mem.Exhausted, size/8, half+size/8)
	gate := line.Next()
	require.NoError(t, m.FreeAfter(a, []mem.Point{gate}))
	outcome(mem.NeedsWait, half+size/8)
	outcome(mem.Exhausted, size+1)
	line.End(gate, nil)
	b := outcome(mem.Ready, half+size/8)[0]
	require.NoError(t, m.FreeAfter(b, nil))
}

// testAllocRandom holds the figures against a model.
func testAllocRandom(e *env) {
	m := e.dev.Memory()
	rapid.Check(e.t, func(t *rapid.T) {
		line := users()
		type held struct {
			b    mem.Block
			gate mem.Point
		}
		var live, pending []held
		base := m.Stats()
		check := func() {
			var l, p uint64
			for _, h := range live {
				l += h.b.Size
			}
			for _, h := range pending {
				p += h.b.Size
			}
			s := m.Stats()
			require.Equal(t, l, s.Live-base.Live)
			require.Equal(t, p, s.Pending-base.Pending)
			require.Equal(t, len(live), s.Blocks-base.Blocks)
			require.NoError(t, m.Check())
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.IntRange(1, 4).Draw(t, "n")
				reqs, out := make([]mem.Request, n), make([]mem.Block, n)
				for i := range reqs {
					reqs[i] = mem.Request{Size: rapid.Uint64Range(1, 200<<10).Draw(t, "size"), Align: 1 << rapid.IntRange(0, 13).Draw(t, "align")}
				}
				got, err := m.AllocAll(reqs, out, nil)
				require.NoError(t, err)
				for i := 0; got == mem.Ready && i < n; i++ {
					require.Equal(t, reqs[i].Size, out[i].Size)
					live = append(live, held{b: out[i]})
				}
			},
			"free": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
				h := live[i]
				live = append(live[:i], live[i+1:]...)
				if rapid.Bool().Draw(t, "at once") {
					require.NoError(t, m.FreeAfter(h.b, nil))
					return
				}
				h.gate = line.Next()
				require.NoError(t, m.FreeAfter(h.b, []mem.Point{h.gate}))
				pending = append(pending, h)
			},
			"end": func(t *rapid.T) {
				if len(pending) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(pending)-1).Draw(t, "i")
				line.End(pending[i].gate, nil)
				require.ErrorIs(t, m.FreeAfter(pending[i].b, nil), mem.ErrInvalidBuffer)
				pending = append(pending[:i], pending[i+1:]...)
			},
			"": func(*rapid.T) { check() },
		})
		for _, h := range live {
			require.NoError(t, m.FreeAfter(h.b, nil))
		}
		for _, h := range pending {
			line.End(h.gate, nil)
		}
		live, pending = nil, nil
		check()
	})
}
