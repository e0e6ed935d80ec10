package mem

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"unique"
)

// MemoryID names a memory of one context: a store whose bytes are its own.
type MemoryID uint32

// Host is the host's memory; it exists in every context.
const Host MemoryID = 0

// MemorySet is an immutable set of memories. The zero value is the empty set.
// Sets compare with ==: the first 64 memories are bits of one inline word, one other
// member is inline, too, and several others are interned, so that equal sets are equal
// values. Operations on sets without two members above 63 allocate nothing. Safe
// for use from anywhere.
type MemorySet struct {
	low  uint64
	one  MemoryID              // the only member above 63, or 0
	high unique.Handle[string] // of several: little-endian words for memories 64, 65, ...; else the zero Handle
}

// SetOf returns the set of the given memories.
func SetOf(ids ...MemoryID) MemorySet {
	var s MemorySet
	for _, id := range ids {
		s = s.With(id)
	}
	return s
}

// inline reports whether s has no member above 63.
func (s MemorySet) inline() bool { return s.one == 0 && s.high == unique.Handle[string]{} }

// alike reports whether s and t have the same members above 63.
func (s MemorySet) alike(t MemorySet) bool { return s.one == t.one && s.high == t.high }

// place is where a member above 63 is among the words.
func place(id MemoryID) (word int, bit uint64) { return int(id-64) / 64, 1 << ((id - 64) % 64) }

// words are the members above 63, 64 to a word.
type words struct {
	one  MemoryID
	many string
}

func (s MemorySet) words() words {
	w := words{one: s.one}
	if s.high != (unique.Handle[string]{}) {
		w.many = s.high.Value()
	}
	return w
}

func (w words) len() int {
	if w.one != 0 {
		return int(w.one) / 64
	}
	return len(w.many) / 8
}

// at is the i-th word; 0 beyond the last.
func (w words) at(i int) uint64 {
	switch {
	case i >= w.len():
		return 0
	case w.one == 0:
		return binary.LittleEndian.Uint64([]byte(w.many[i*8 : i*8+8]))
	}
	if at, bit := place(w.one); at == i {
		return bit
	}
	return 0
}

// combine applies f to each word of both sets and interns the result.
func combine(s, t MemorySet, f func(a, b uint64) uint64) MemorySet {
	out := MemorySet{low: f(s.low, t.low)}
	sw, tw := s.words(), t.words()
	n := max(sw.len(), tw.len())
	buf, used, members := make([]byte, 8*n), 0, 0
	for i := range n {
		if w := f(sw.at(i), tw.at(i)); w != 0 {
			binary.LittleEndian.PutUint64(buf[8*i:], w)
			used, members = i+1, members+bits.OnesCount64(w)
			out.one = MemoryID(64 + 64*i + bits.TrailingZeros64(w))
		}
	}
	if members > 1 {
		out.one, out.high = 0, unique.Make(string(buf[:8*used]))
	}
	return out
}

// Has reports whether id is a member.
func (s MemorySet) Has(id MemoryID) bool {
	if id < 64 {
		return s.low&(1<<id) != 0
	}
	at, bit := place(id)
	return s.words().at(at)&bit != 0
}

// With returns s and id.
func (s MemorySet) With(id MemoryID) MemorySet {
	if id < 64 {
		s.low |= 1 << id
		return s
	}
	return s.Union(MemorySet{one: id})
}

// Without returns s less id.
func (s MemorySet) Without(id MemoryID) MemorySet {
	if id < 64 {
		s.low &^= 1 << id
		return s
	}
	return s.Minus(MemorySet{one: id})
}

// Union returns the members of either set.
func (s MemorySet) Union(t MemorySet) MemorySet {
	switch {
	case t.inline() || s.alike(t):
		s.low |= t.low
		return s
	case s.inline():
		t.low |= s.low
		return t
	}
	return combine(s, t, func(a, b uint64) uint64 { return a | b })
}

// Intersect returns the members of both sets.
func (s MemorySet) Intersect(t MemorySet) MemorySet {
	switch {
	case s.inline() || t.inline():
		return MemorySet{low: s.low & t.low}
	case s.alike(t):
		s.low &= t.low
		return s
	}
	return combine(s, t, func(a, b uint64) uint64 { return a & b })
}

// Minus returns the members of s that are not in t.
func (s MemorySet) Minus(t MemorySet) MemorySet {
	switch {
	case t.inline():
		s.low &^= t.low
		return s
	case s.inline() || s.alike(t):
		return MemorySet{low: s.low &^ t.low}
	}
	return combine(s, t, func(a, b uint64) uint64 { return a &^ b })
}

// Empty reports whether s has no member.
func (s MemorySet) Empty() bool { return s == MemorySet{} }

// Len is the number of members.
func (s MemorySet) Len() int {
	n := bits.OnesCount64(s.low)
	w := s.words()
	for i := range w.len() {
		n += bits.OnesCount64(w.at(i))
	}
	return n
}

// First returns the smallest member.
func (s MemorySet) First() (MemoryID, bool) {
	if s.low != 0 {
		return MemoryID(bits.TrailingZeros64(s.low)), true
	}
	for id := range s.All() {
		return id, true
	}
	return 0, false
}

// All yields the members in ascending order.
func (s MemorySet) All() iter.Seq[MemoryID] {
	return func(yield func(MemoryID) bool) {
		for w := s.low; w != 0; w &= w - 1 {
			if !yield(MemoryID(bits.TrailingZeros64(w))) {
				return
			}
		}
		words := s.words()
		for i := range words.len() {
			for w := words.at(i); w != 0; w &= w - 1 {
				if !yield(MemoryID(64 + 64*i + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// String lists the members, as in {0,2}.
func (s MemorySet) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for id := range s.All() {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, id)
	}
	b.WriteByte('}')
	return b.String()
}
