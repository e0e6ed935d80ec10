// Package suggest finds the known word that a mistyped one was meant to be, for
// the ends of error messages.
package suggest

import (
	"fmt"
	"strings"

	"godwit/mem"
)

// For is `; did you mean "word"?` with the known word nearest to name, or nothing
// where none is near. Near is what a few slips of the fingers make: an edit for
// every three characters, and one at least; or the beginning of exactly one word.
// Long lists and words, which nobody typed, are not searched to their ends.
func For(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// Among lists what is known, with the word that name was meant to be.
func Among(name string, known []string) string {
	if len(known) == 0 {
		return "none"
	}
	return strings.Join(known, ", ") + For(name, known)
}

// Pick is the one of all that has the name, without regard to case. Else it fails with
// mem.ErrInvalidValue, and says which names there are.
func Pick[T any](what, name string, all []T, nameOf func(T) string) (none T, err error) {
	var names []string
	for _, x := range all {
		if strings.EqualFold(nameOf(x), name) {
			return x, nil
		}
		names = append(names, nameOf(x))
	}
	return none, fmt.Errorf("%s %q: want one of %s: %w", what, name, Among(name, names), mem.ErrInvalidValue)
}

const (
	maxWord  = 64 // bytes
	maxKnown = 1000
)

// Nearest is the word that For names. Of two that are as near, the first is taken.
func Nearest(name string, known []string) string {
	if len(name) > maxWord {
		return ""
	}
	known = known[:min(len(known), maxKnown)]
	near, best := "", max(len(name)/3, 1)+1
	folded := strings.ToLower(name)
	begun, n := "", 0
	for _, k := range known {
		if len(k) > maxWord {
			continue
		}
		if d := distance(folded, strings.ToLower(k)); d < best && d < len(k) {
			near, best = k, d
		}
		if len(name) > 1 && strings.HasPrefix(strings.ToLower(k), folded) {
			begun = k
			n++
		}
	}
	if near == "" && n == 1 {
		return begun
	}
	return near
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
