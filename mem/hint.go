package mem

import "fmt"

// Hint is what a caller knows of how long a block will live. It is advice: a
// resource that does not understand it passes over it, and a wrong one costs
// room and nothing else. The zero Hint says nothing.
type Hint uint64

// together marks a Hint that names a class; the rest of the word is its number.
const together Hint = 1 << 63

// maxLives is the longest expected life that a Hint tells apart.
const maxLives = 1<<40 - 1

// Lives says that a block is expected to be freed after so many further
// allocations and frees of its memory.
func Lives(ops uint64) Hint { return Hint(min(ops, maxLives) + 1) }

// Kept says that a block is expected to be kept, as by a pool.
const Kept = Hint(maxLives + 1)

// Together says that a block is expected to be freed with the others of its
// class: those of one step, one graph or one model. The caller numbers classes.
func Together(class uint32) Hint { return together | Hint(class) }

// Ops is the expected number of further operations; ok is false where the hint
// says nothing or names a class.
func (h Hint) Ops() (ops uint64, ok bool) {
	if h == 0 || h&together != 0 {
		return 0, false
	}
	return uint64(h) - 1, true
}

// Class is the class; ok is false where the hint names none.
func (h Hint) Class() (class uint32, ok bool) {
	return uint32(h), h&together != 0
}

// String is the hint in words.
func (h Hint) String() string {
	if c, ok := h.Class(); ok {
		return fmt.Sprintf("class %d", c)
	}
	if n, ok := h.Ops(); ok {
		return fmt.Sprintf("%d operations", n)
	}
	return "no hint"
}
