package rangemap

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// model is the reference: one value for every offset.
type model []int

func (o model) segments() (out []string) {
	for i := 0; i < len(o); {
		j := i
		for j < len(o) && o[j] == o[i] {
			j++
		}
		out = append(out, fmt.Sprintf("[%d,%d)=%d", i, j, o[i]))
		i = j
	}
	return out
}

func (o model) update(r mem.Range, f func(int) int) {
	for i := r.Start; i < min(r.End, uint64(len(o))); i++ {
		o[i] = f(o[i])
	}
}

func segments(m *Map[int]) (out []string) {
	for r, v := range m.All() {
		out = append(out, fmt.Sprintf("%v=%d", r, *v))
	}
	return out
}

// agree compares the map with the reference in every way there is to look.
func agree(t require.TestingT, m *Map[int], o model) {
	require.NoError(t, m.Check())
	require.Equal(t, o.segments(), segments(m))
	require.Equal(t, len(o.segments()), m.Len())
	for i := range o {
		r, v := m.Get(uint64(i)).Range, m.Get(uint64(i)).Value
		require.Equal(t, o[i], v, "offset %d", i)
		require.True(t, r.Contains(mem.Range{Start: uint64(i), End: uint64(i) + 1}))
		var rest []string
		for at, v := range m.In(mem.Range{Start: uint64(i), End: math.MaxUint64}) {
			rest = append(rest, fmt.Sprintf("%v=%d", at, *v))
		}
		all := o.segments()
		require.Equal(t, all[len(all)-len(rest)+1:], rest[1:])
		require.Equal(t, fmt.Sprintf("%v=%d", mem.Range{Start: uint64(i), End: r.End}, o[i]), rest[0])
	}
	require.NotPanics(t, func() { m.Get(uint64(len(o))) })
}

func TestARandomMapEqualsAnArrayOfOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]uint64{1, 2, 7, 40, 3 * most}).Draw(t, "size")
		m, o := Make(size, 0), make(model, size)
		if rapid.Bool().Draw(t, "cut") { // into as many pieces as there are offsets
			for i := range size {
				o[i] = int(i % 4)
				m.Set(mem.Range{Start: i, End: i + 1}, o[i])
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "edits") {
			a, b := rapid.Uint64Range(0, size+2).Draw(t, "a"), rapid.Uint64Range(0, size+2).Draw(t, "b")
			r := mem.Range{Start: min(a, b), End: max(a, b)}
			v := rapid.IntRange(0, 3).Draw(t, "v")
			switch rapid.IntRange(0, 3).Draw(t, "edit") {
			case 0:
				m.Set(r, v)
				o.update(r, func(int) int { return v })
			case 1:
				m.Update(r, func(_ mem.Range, w int) int { return (w + v) % 4 })
				o.update(r, func(w int) int { return (w + v) % 4 })
			case 2:
				m.Update(r, func(_ mem.Range, w int) int { return w / 2 })
				o.update(r, func(w int) int { return w / 2 })
			case 3:
				var got model
				for p, w := range m.In(r) {
					require.True(t, r.Contains(p))
					for range p.Size() {
						got = append(got, *w)
					}
				}
				require.Equal(t, o[min(r.Start, size):min(r.End, size)].segments(), got.segments())
			}
			agree(t, &m, o)
		}
	})
}

func FuzzMap(f *testing.F) {
	f.Add([]byte{2, 5, 1, 5, 9, 1, 0, 40, 0})
	f.Add([]byte{40, 50, 1}) // past the end of a map in one piece
	f.Add([]byte{0, 40, 1, 10, 11, 2, 10, 11, 1, 39, 40, 3})
	f.Fuzz(func(t *testing.T, edits []byte) {
		const size = 48
		m, o := Make(size, 0), make(model, size)
		for ; len(edits) >= 3; edits = edits[3:] {
			r := mem.Range{Start: uint64(edits[0]) % (size + 3), End: uint64(edits[1]) % (size + 3)}
			v := int(edits[2]) % 4
			if edits[2]&128 != 0 {
				m.Set(r, v)
				o.update(r, func(int) int { return v })
			} else {
				m.Update(r, func(_ mem.Range, w int) int { return w ^ v })
				o.update(r, func(w int) int { return w ^ v })
			}
			agree(t, &m, o)
		}
	})
}

func TestEdits(t *testing.T) {
	set := func(a, b uint64, v int) func(*Map[int]) {
		return func(m *Map[int]) { m.Set(mem.Range{Start: a, End: b}, v) }
	}
	for _, c := range []struct {
		name   string
		before []func(*Map[int])
		edit   func(*Map[int])
		after  []string
	}{
		{"setting the whole map keeps one segment", nil, set(0, 100, 1), []string{"[0,100)=1"}},
		{"setting a part cuts at both ends", nil, set(10, 20, 1), []string{"[0,10)=0", "[10,20)=1", "[20,100)=0"}},
		{"setting the value that is there cuts nothing", nil, set(10, 20, 0), []string{"[0,100)=0"}},
		{"filling a gap joins both sides", []func(*Map[int]){set(0, 100, 1), set(10, 20, 2)}, set(10, 20, 1), []string{"[0,100)=1"}},
		{"growing downwards moves a boundary", []func(*Map[int]){set(50, 100, 1)}, set(40, 50, 1), []string{"[0,40)=0", "[40,100)=1"}},
		{"growing upwards moves a boundary", []func(*Map[int]){set(0, 50, 1)}, set(50, 60, 1), []string{"[0,60)=1", "[60,100)=0"}},
		{"an edit over everything forgets the pieces", []func(*Map[int]){set(1, 2, 1), set(3, 4, 2)}, set(0, 1000, 7), []string{"[0,100)=7"}},
		{"a range outside the map is ignored", nil, set(100, 200, 1), []string{"[0,100)=0"}},
		{"an inverted range is ignored", nil, set(20, 10, 1), []string{"[0,100)=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Make(100, 0)
			for _, f := range c.before {
				f(&m)
			}
			c.edit(&m)
			require.NoError(t, m.Check())
			require.Equal(t, c.after, segments(&m))
		})
	}
}

func TestAnEmptyMapHasNoSegments(t *testing.T) {
	var m Map[int]
	m.Set(mem.Range{End: 10}, 1)
	require.Zero(t, m.Len())
	require.Empty(t, segments(&m))
	require.True(t, m.Get(0).Range.Empty())
	require.NoError(t, m.Check())
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	for name, spoil := range map[string]func(*Map[int]){
		"equal neighbours": func(m *Map[int]) { m.p.chunks[0][1].Value = 0 },
		"a gap":            func(m *Map[int]) { m.p.chunks[0][1].Range.End-- },
		"a start":          func(m *Map[int]) { m.p.starts[0]++ },
		"the count":        func(m *Map[int]) { m.p.n++ },
	} {
		t.Run(name, func(t *testing.T) {
			m := Make(100, 0)
			m.Set(mem.Range{Start: 10, End: 20}, 1)
			require.NoError(t, m.Check())
			spoil(&m)
			require.Error(t, m.Check())
		})
	}
}

func TestWholeIsTheOnlySegment(t *testing.T) {
	m := Make(10, 1)
	*m.Whole(mem.Range{End: 10}) = 2
	*m.Whole(mem.Range{End: 99})++
	require.Equal(t, []string{"[0,10)=3"}, segments(&m))
	require.Nil(t, m.Whole(mem.Range{Start: 1, End: 10}))
	require.Nil(t, m.Whole(mem.Range{End: 9}))
	m.Set(mem.Range{End: 1}, 7)
	require.Nil(t, m.Whole(mem.Range{End: 10}), "cut up")
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	m := Make(1<<20, 0)
	churn := func() {
		for i := range uint64(64) {
			m.Set(mem.Range{Start: 100 * i, End: 100*i + 50}, int(i)+1)
		}
		m.Set(mem.Range{End: 1 << 20}, 0)
		m.Set(mem.Range{Start: 5, End: 6}, 1)
		m.Set(mem.Range{Start: 5, End: 6}, 0)
	}
	churn()
	require.Zero(t, testing.AllocsPerRun(20, churn))
}
