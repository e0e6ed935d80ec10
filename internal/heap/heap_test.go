package heap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/heap"
)

// TestAHeapAgreesWithASortedList pushes, changes and removes at random.
func TestAHeapAgreesWithASortedList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type item struct{ key, at int }
	h := heap.Heap[*item]{
		Before: func(a, b **item) bool { return (*a).key < (*b).key },
		Moved:  func(x *item, at int) { x.at = at },
	}
	var model []*item
	least := func() int {
		return slices.MinFunc(model, func(a, b *item) int { return a.key - b.key }).key
	}
	for range 20_000 {
		i := -1
		if len(model) > 0 {
			i = r.IntN(len(model))
		}
		switch k := r.IntN(5); {
		case k < 2 || i < 0:
			model = append(model, &item{key: r.IntN(1000)})
			h.Push(model[len(model)-1])
		case k == 2:
			model[i].key = r.IntN(1000)
			h.Fix(model[i].at)
		case k == 3:
			require.Same(t, model[i], h.Remove(model[i].at))
			model = slices.Delete(model, i, i+1)
		default:
			want, x := least(), h.Pop()
			require.Equal(t, want, x.key)
			model = slices.DeleteFunc(model, func(m *item) bool { return m == x })
		}
		for at, x := range h.Items {
			require.Equal(t, at, x.at)
		}
	}
	for i := range h.Items {
		h.Items[i].key = -i
	}
	h.Init()
	require.Len(t, h.Items, len(model))
	for len(model) > 0 {
		want, x := least(), h.Pop()
		require.Equal(t, want, x.key)
		model = slices.DeleteFunc(model, func(m *item) bool { return m == x })
	}
}
