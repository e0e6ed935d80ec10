package mem

import (
	"math/bits"
	"strconv"
	"strings"
)

// FormatBytes is n for people: in the largest binary unit of which it is at
// least one, with as many digits as it takes to be exact up to two after the
// point, as in "512 B", "1.5 MiB", "64 GiB". Levels that may not import a
// formatting library use it in messages.
func FormatBytes(n uint64) string {
	unit := max(bits.Len64(n)-1, 0) / 10
	if unit == 0 {
		return strconv.FormatUint(n, 10) + " B"
	}
	value := float64(n) / float64(uint64(1)<<(10*unit))
	text := strconv.FormatFloat(value, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " " + "KMGTPE"[unit-1:unit] + "iB"
}
