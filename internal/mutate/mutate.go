// Package mutate damages texts that programs read, for tests of how they take it:
// numbers become extreme, lines and pieces go, come twice or move, brackets open
// without end, words become other words, bytes become others.
package mutate

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// numbers are ends of types, and what lies beyond.
var numbers = []string{
	"0", "-1", "1", "7", "255", "4096", "65536", "100000", "1048577", "2147483648", "4294967295", "1099511627776",
	"4611686018427387904", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
	"-9223372036854775808", "1e308", "NaN", "0x7fffffffffffffff", "16 EiB", "8 EiB - 1", "1 TiB", "3 GiB", "99999999999999999999999",
}

// pieces are put into the middle of things.
var pieces = []string{
	"[", "{", "- ", "&x [*x, *x]", "*x", "*y", "&x ", "? ", "!!binary ", "<<: *x", "\x1b[2J", `"\e]0;x\a"`, "\x00", "\xff\xfe", "\ufeff", "'", "\"", "|\n",
	"...", "---\n", "# ", ": ", ", ", "\t", "\r", "\n", "null", "~", "{}", "[]", "(((((", "size(a)", "input(x)", "{i}", "..", "/dev/zero", "/proc/self/mem",
	"repeat: 100000", "count: 100000000",
}

var number = regexp.MustCompile(`\d+`)
var word = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_-]*`)

// Text damages text in one to four places.
func Text(r *rand.Rand, text string) string {
	for range 1 + r.IntN(4) {
		text = once(r, text)
	}
	return text
}

func once(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	i, j := r.IntN(len(lines)), r.IntN(len(lines))
	switch r.IntN(14) {
	case 0, 1, 2, 3:
		return replace(r, number, text, func(string) string { return numbers[r.IntN(len(numbers))] })
	case 4, 5:
		words := word.FindAllString(text, -1)
		if len(words) == 0 {
			return text
		}
		return replace(r, word, text, func(string) string { return words[r.IntN(len(words))] })
	case 6:
		return replace(r, word, text, func(w string) string { return w + "x" })
	case 7:
		at := r.IntN(len(text) + 1)
		return text[:at] + pieces[r.IntN(len(pieces))] + text[at:]
	case 8:
		return strings.Join(slices.Delete(lines, i, i+1), "")
	case 9:
		return strings.Join(slices.Insert(lines, j, lines[i]), "")
	case 10:
		lines[i], lines[j] = lines[j], lines[i]
		return strings.Join(lines, "")
	case 11:
		at := r.IntN(len(text) + 1)
		return text[:at] + strings.Repeat(pieces[r.IntN(len(pieces))], 1<<r.IntN(16)) + text[at:]
	case 12:
		return text[:r.IntN(len(text)+1)]
	}
	b := []byte(text)
	if len(b) > 0 {
		b[r.IntN(len(b))] = byte(r.Uint32())
	}
	return string(b)
}

// replace replaces one of what re finds.
func replace(r *rand.Rand, re *regexp.Regexp, text string, by func(string) string) string {
	all := re.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return text
	}
	at := all[r.IntN(len(all))]
	return text[:at[0]] + by(text[at[0]:at[1]]) + text[at[1]:]
}
