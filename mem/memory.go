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
// Sets compare with ==: the first 64 memories are bits of one inline word, and
// the rest, where there is one, is interned, so that equal sets are equal
// values. Operations on sets without members above 63 allocate nothing. Safe
// for use from anywhere.
type MemorySet struct {
	low  uint64
	high unique.Handle[string] // little-endian words for memories 64, 65, ...; zero Handle where there are none
}

// SetOf returns the set of the given memories.
func SetOf(ids ...MemoryID) MemorySet {
	var s MemorySet
	for _, id := range ids {
		s = s.With(id)
	}
	return s
}

func (s MemorySet) words() string {
	if s.high == (unique.Handle[string]{}) {
		return ""
	}
	return s.high.Value()
}

// word returns the i-th 64-bit word of the members above 63.
func word(words string, i int) uint64 {
	if (i+1)*8 > len(words) {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(words[i*8 : i*8+8]))
}

// combine applies f to each word of both sets and interns the result.
func combine(s, t MemorySet, f func(a, b uint64) uint64) MemorySet {
	out := MemorySet{low: f(s.low, t.low)}
	sw, tw := s.words(), t.words()
	if sw == "" && tw == "" {
		return out
	}
	n := max(len(sw), len(tw)) / 8
	buf, used := make([]byte, 8*n), 0
	for i := range n {
		if w := f(word(sw, i), word(tw, i)); w != 0 {
			binary.LittleEndian.PutUint64(buf[8*i:], w)
			used = i + 1
		}
	}
	if used > 0 {
		out.high = unique.Make(string(buf[:8*used]))
	}
	return out
}

func single(id MemoryID) MemorySet {
	if id < 64 {
		return MemorySet{low: 1 << id}
	}
	i := int(id-64) / 64
	buf := make([]byte, 8*(i+1))
	binary.LittleEndian.PutUint64(buf[8*i:], 1<<((id-64)%64))
	return MemorySet{high: unique.Make(string(buf))}
}

// Has reports whether id is a member.
func (s MemorySet) Has(id MemoryID) bool {
	if id < 64 {
		return s.low&(1<<id) != 0
	}
	return word(s.words(), int(id-64)/64)&(1<<((id-64)%64)) != 0
}

// With returns s and id.
func (s MemorySet) With(id MemoryID) MemorySet {
	if id < 64 {
		s.low |= 1 << id
		return s
	}
	return s.Union(single(id))
}

// Without returns s less id.
func (s MemorySet) Without(id MemoryID) MemorySet {
	if id < 64 {
		s.low &^= 1 << id
		return s
	}
	return s.Minus(single(id))
}

// Union returns the members of either set.
func (s MemorySet) Union(t MemorySet) MemorySet {
	if s.high == t.high {
		s.low |= t.low
		return s
	}
	return combine(s, t, func(a, b uint64) uint64 { return a | b })
}

// Intersect returns the members of both sets.
func (s MemorySet) Intersect(t MemorySet) MemorySet {
	if s.high == t.high {
		s.low &= t.low
		return s
	}
	return combine(s, t, func(a, b uint64) uint64 { return a & b })
}

// Minus returns the members of s that are not in t.
func (s MemorySet) Minus(t MemorySet) MemorySet {
	if t.words() == "" {
		s.low &^= t.low
		return s
	}
	return combine(s, t, func(a, b uint64) uint64 { return a &^ b })
}

// Empty reports whether s has no member.
func (s MemorySet) Empty() bool { return s == MemorySet{} }

// Len is the number of members.
func (s MemorySet) Len() int {
	n := bits.OnesCount64(s.low)
	for i, w := 0, s.words(); i < len(w)/8; i++ {
		n += bits.OnesCount64(word(w, i))
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
		for i := range len(words) / 8 {
			for w := word(words, i); w != 0; w &= w - 1 {
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
