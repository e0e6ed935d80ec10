package bufalloctest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/bufalloc/bufalloctest"
	"godwit/mem"
	"godwit/study/alloc/replay"
)

func TestEveryStrategyPassesTheSuite(t *testing.T) {
	for _, s := range bufalloc.Strategies() {
		if s == crooked || s == bufalloc.PoCLTight || s == bufalloc.PoCLWasteful {
			continue // PoCL's fill no region to the last byte: an element of its array is the tail's
		}
		t.Run(s.String(), func(t *testing.T) { bufalloctest.Placement(t, s) })
	}
}

// worstFit is a placement of one's own: the largest hole, found in a slice.
type worstFit struct{ holes []bufalloc.Hole }

func (w *worstFit) Reset(mem.Range)        { w.holes = w.holes[:0] }
func (w *worstFit) Insert(h bufalloc.Hole) { w.holes = append(w.holes, h) }
func (w *worstFit) Remove(h bufalloc.Hole) {
	i := slices.Index(w.holes, h)
	w.holes = slices.Delete(w.holes, i, i+1)
}

func (w *worstFit) Find(size, align uint64, _ mem.Hint) (id uint32, addr uint64) {
	most := uint64(0)
	for _, h := range w.holes {
		if at, ok := h.Fits(size, align); ok && h.Size > most {
			id, addr, most = h.ID, at, h.Size
		}
	}
	return id, addr
}

var _ = bufalloc.Register("test-worstfit", true, func() bufalloc.Placement { return &worstFit{} })

// wrong answers with what is no place, in one way after the other.
type wrong struct {
	worstFit
	turn int
}

func (w *wrong) Find(size, align uint64, h mem.Hint) (uint32, uint64) {
	id, addr := w.worstFit.Find(size, align, h)
	w.turn++
	switch w.turn % 5 {
	case 1:
		return id + 1000, addr
	case 2:
		return id, addr - 1
	case 3:
		return id, addr + 1<<20
	case 4:
		return id, addr + align/2
	}
	return id, addr
}

var crooked = bufalloc.Register("test-wrong", false, func() bufalloc.Placement { return &wrong{} })

func TestAPlacementsWrongAnswersAreRefusedAndDamageNothing(t *testing.T) {
	r, err := bufalloc.NewRegion(1<<16, 1<<20, bufalloc.Options{Strategy: crooked})
	require.NoError(t, err)
	for i := range 50 {
		_, err := r.Alloc(1000, 64)
		if i%5 == 4 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, bufalloc.ErrPlacement, "answer %d", i)
			assert.Contains(t, err.Error(), "test-wrong")
		}
		require.NoError(t, r.Check())
	}
	assert.Equal(t, 10, r.Stats().Chunks)
	st, err := replay.W1(10, 10, 0, 1)
	require.NoError(t, err)
	res, err := replay.Measure(t.Context(), []*replay.Stream{st}, replay.Strategies(crooked, bufalloc.Fit), replay.Options{})
	require.NoError(t, err, "a replay goes on with the others")
	require.NotNil(t, res[0].Fault)
	assert.EqualValues(t, "misplaced", res[0].Fault.Kind)
	assert.Nil(t, res[1].Fault)
	assert.Positive(t, res[1].Overhead)
}

func TestRegisteringTwiceIsABug(t *testing.T) {
	open := func() bufalloc.Placement { return &worstFit{} }
	for _, name := range []string{"Test-WorstFit", "fit", "", "a b", "lib:x", "a,b"} {
		assert.Panics(t, func() { bufalloc.Register(name, true, open) }, name)
	}
	s, err := bufalloc.ParseStrategy("TEST-worstfit")
	require.NoError(t, err)
	assert.Equal(t, "test-worstfit", s.String())
	assert.True(t, s.Exact())
	assert.Contains(t, bufalloc.Strategies(), s)
}
