// Package heap has a binary heap of values. Unlike container/heap it boxes nothing, so that it allocates nothing in the
// steady state, and it can tell its items where they are.
package heap

// Heap is a binary heap: Items[0] comes before all others. Equal ones come in an order that their order of arrival
// decides. Who changes items or their order by hand calls Fix or Init.
type Heap[T any] struct {
	Items  []T
	Before func(a, b *T) bool
	Moved  func(x T, at int) // where not nil, told of each place that an item comes to
}

// Init puts Items in order.
func (h *Heap[T]) Init() {
	for i := len(h.Items)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// Push adds an item.
func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	last := len(h.Items) - 1
	h.put(last, x)
	h.rise(last)
}

// Pop removes the first item.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove removes the item at a place.
func (h *Heap[T]) Remove(i int) T {
	x, last := h.Items[i], len(h.Items)-1
	moved := h.Items[last]
	clear(h.Items[last:])
	h.Items = h.Items[:last]
	if i < last {
		h.put(i, moved)
		h.Fix(i)
	}
	return x
}

// Fix moves the item at a place, which has changed, to where it belongs.
func (h *Heap[T]) Fix(i int) {
	if !h.rise(i) {
		h.sink(i)
	}
}

func (h *Heap[T]) rise(i int) (moved bool) {
	for i > 0 {
		up := (i - 1) / 2
		if !h.Before(&h.Items[i], &h.Items[up]) {
			break
		}
		h.swap(i, up)
		i, moved = up, true
	}
	return moved
}

func (h *Heap[T]) sink(i int) {
	for {
		down := 2*i + 1
		if down >= len(h.Items) {
			return
		}
		if down+1 < len(h.Items) && h.Before(&h.Items[down+1], &h.Items[down]) {
			down++
		}
		if !h.Before(&h.Items[down], &h.Items[i]) {
			return
		}
		h.swap(i, down)
		i = down
	}
}

// swap exchanges two items where they are: a copy that Before is given by its address would be allocated.
func (h *Heap[T]) swap(i, j int) {
	x, y := h.Items[i], h.Items[j]
	h.put(i, y)
	h.put(j, x)
}

// put has an item at a place.
func (h *Heap[T]) put(i int, x T) {
	h.Items[i] = x
	if h.Moved != nil {
		h.Moved(x, i)
	}
}
