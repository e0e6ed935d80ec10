package formats

import (
	"fmt"
	"math"

	"godwit/bufalloc/pack"
	"godwit/mem"
)

// Items turns an allocation trace into items to be packed, one for each chunk and in
// the order of the chunks. Time is the index of the event; a chunk that is
// never freed lives to the end. Sizes are rounded up to a multiple of align, a
// power of two (0 means 1), which is also the items' alignment.
func (t *Allocs) Items(align uint64) ([]pack.Item, error) {
	const most = math.MaxInt64 / 4 // of what pack takes
	align = max(align, 1)
	if align&(align-1) != 0 || align > most {
		return nil, fmt.Errorf("items: alignment %d is not a power of two up to 2^60: %w", align, mem.ErrInvalidValue)
	}
	lives := t.Lifetimes()
	items := make([]pack.Item, len(lives))
	for i, l := range lives {
		if l.Size > most {
			return nil, fmt.Errorf("items: chunk %d of trace %s has %d bytes, more than %d: %w", i, t.Name, l.Size, uint64(most), mem.ErrInvalidSize)
		}
		items[i] = pack.Item{Lower: uint64(l.Start), Upper: uint64(l.End), Size: (l.Size + align - 1) &^ (align - 1), Align: align}
	}
	return items, nil
}
