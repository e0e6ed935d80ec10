package pack

import (
	"fmt"

	"godwit/mem"
	"godwit/study/alloc/formats"
)

// FromTrace turns an allocation trace into items, one for each chunk and in
// the order of the chunks. Time is the index of the event; a chunk that is
// never freed lives to the end. Sizes are rounded up to a multiple of align, a
// power of two (0 means 1), which is also the items' alignment.
func FromTrace(t *formats.Allocs, align uint64) ([]Item, error) {
	align = max(align, 1)
	if align&(align-1) != 0 || align > maxBytes {
		return nil, fmt.Errorf("pack: alignment %d is not a power of two up to 2^60: %w", align, mem.ErrInvalidValue)
	}
	lives := t.Lifetimes()
	items := make([]Item, len(lives))
	for i, l := range lives {
		if l.Size > maxBytes {
			return nil, fmt.Errorf("pack: chunk %d of trace %s has %d bytes, more than %d: %w", i, t.Name, l.Size, uint64(maxBytes), mem.ErrInvalidSize)
		}
		items[i] = Item{Lower: uint64(l.Start), Upper: uint64(l.End), Size: (l.Size + align - 1) &^ (align - 1), Align: align}
	}
	return items, nil
}
