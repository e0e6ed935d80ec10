package svm

import "fmt"

// Said is what the signal handler of internal/svmfault makes of a table.
func (t *Table) Said(p Pointer) string {
	var best *slot
	for i := range t.slots[:t.head.used] {
		s := &t.slots[i]
		if s.kind != slotFree && s.start <= uint64(p) && uint64(p) < s.end && (best == nil || s.stamp > best.stamp) {
			best = s
		}
	}
	switch {
	case t.head.changes%2 != 0:
		return "the table is being written"
	case best == nil:
		return "nothing is allocated there"
	case best.kind == slotInto:
		return fmt.Sprintf("byte %d of %s", uint64(p)-best.origin, best.text[:best.size])
	}
	return fmt.Sprintf("%d bytes past the end of %s", uint64(p)-best.origin, best.text[:best.size])
}
