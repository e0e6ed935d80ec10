package mem_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// setModel is the reference for a MemorySet.
type setModel map[mem.MemoryID]bool

func (m setModel) ids() []mem.MemoryID {
	out := []mem.MemoryID{}
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func TestAMemorySetEqualsAMapOfIDs(t *testing.T) {
	id := rapid.OneOf(rapid.Uint32Range(0, 70), rapid.SampledFrom([]uint32{63, 64, 127, 128, 1000, 4096}))
	rapid.Check(t, func(t *rapid.T) {
		sets := []mem.MemorySet{{}, {}, {}}
		models := []setModel{{}, {}, {}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i, j := rapid.IntRange(0, 2).Draw(t, "i"), rapid.IntRange(0, 2).Draw(t, "j")
			x := mem.MemoryID(id.Draw(t, "id"))
			next := setModel{}
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				sets[i] = sets[i].With(x)
				models[i][x] = true
				continue
			case 1:
				sets[i] = sets[i].Without(x)
				delete(models[i], x)
				continue
			case 2:
				sets[i] = sets[i].Union(sets[j])
				for k := range models[i] {
					next[k] = true
				}
				for k := range models[j] {
					next[k] = true
				}
			case 3:
				sets[i] = sets[i].Intersect(sets[j])
				for k := range models[i] {
					if models[j][k] {
						next[k] = true
					}
				}
			case 4:
				sets[i] = sets[i].Minus(sets[j])
				for k := range models[i] {
					if !models[j][k] {
						next[k] = true
					}
				}
			}
			models[i] = next
			for k := range sets {
				ids := models[k].ids()
				require.Equal(t, ids, append([]mem.MemoryID{}, slices.Collect(sets[k].All())...))
				require.Equal(t, len(ids), sets[k].Len())
				require.Equal(t, len(ids) == 0, sets[k].Empty())
				require.True(t, mem.SetOf(ids...) == sets[k], "equal sets compare with ==")
				require.Equal(t, models[k][x], sets[k].Has(x))
				first, ok := sets[k].First()
				require.Equal(t, len(ids) > 0, ok)
				if ok {
					require.Equal(t, ids[0], first)
				}
			}
		}
	})
}

func TestAMemorySetPrintsItsMembers(t *testing.T) {
	require.Equal(t, "{}", mem.MemorySet{}.String())
	require.Equal(t, "{0,2,200}", mem.SetOf(200, 0, 2).String())
}

func TestSmallSetsAllocateNothing(t *testing.T) {
	s, u := mem.SetOf(1, 2, 3), mem.SetOf(2, 60)
	n := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		v := s.With(7).Union(u).Minus(mem.SetOf(3)).Intersect(s).Without(1)
		for id := range v.All() {
			n += int(id)
		}
		if !v.Has(2) || v.Len() != 1 {
			panic(v)
		}
	}))
}
