// Package pairs has a table by pairs of memories of which few are used.
//
// Assumption: of n memories each has to do with few others, and with those that are near it in number or
// the host. So a row is made of pages, which are made at first use: 16,384 memories of which each has used
// ten others take 100 MiB, where a table of n x n words would take 2 GiB.
package pairs

import (
	"iter"
	"sync/atomic"
)

// page is how many entries are made at once.
const page = 32

// Table has a T for each pair of memories, at first the zero one. Finding and making entries is safe
// from anywhere; what they hold is as safe as T is.
type Table[T any] struct {
	rows []atomic.Pointer[row[T]]
}

type row[T any] []atomic.Pointer[[page]T]

// Make returns a table for n memories.
func Make[T any](n int) Table[T] { return Table[T]{make([]atomic.Pointer[row[T]], n)} }

// Peek is the entry of a pair, or nil while it was not made.
func (t *Table[T]) Peek(from, to int) *T {
	r := t.rows[from].Load()
	if r == nil {
		return nil
	}
	p := (*r)[to/page].Load()
	if p == nil {
		return nil
	}
	return &p[to%page]
}

// At is the entry of a pair.
func (t *Table[T]) At(from, to int) *T {
	if x := t.Peek(from, to); x != nil {
		return x
	}
	if t.rows[from].Load() == nil {
		r := make(row[T], (len(t.rows)+page-1)/page)
		t.rows[from].CompareAndSwap(nil, &r)
	}
	(*t.rows[from].Load())[to/page].CompareAndSwap(nil, new([page]T))
	return t.Peek(from, to)
}

// Get is what the entry of a pair holds.
func (t *Table[T]) Get(from, to int) (v T) {
	if x := t.Peek(from, to); x != nil {
		v = *x
	}
	return v
}

// All are the entries that were made, and those that were made with them, in order.
func (t *Table[T]) All() iter.Seq2[[2]int, *T] {
	return func(yield func([2]int, *T) bool) {
		for from := range t.rows {
			r := t.rows[from].Load()
			if r == nil {
				continue
			}
			for i := range *r {
				p := (*r)[i].Load()
				if p == nil {
					continue
				}
				for k := range min(page, len(t.rows)-i*page) {
					if !yield([2]int{from, i*page + k}, &p[k]) {
						return
					}
				}
			}
		}
	}
}
