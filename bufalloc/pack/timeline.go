package pack

import "godwit/bufalloc"

// timeline places every item in order of time as an online best fit would, in
// O(n log n) whatever the overlaps: the placement that is there when there is
// no time for a better one. Boxes must be those of sections(items).
func timeline(items []Item, boxes []box) []int64 {
	r, err := bufalloc.NewRegion(0, 1<<62, bufalloc.Options{Strategy: bufalloc.BestFit})
	chunks, offset := make([]bufalloc.Chunk, len(items)), make([]int64, len(items))
	for _, e := range edges(items) {
		if err != nil {
			panic(err) // validate bounds all sizes and alignments
		}
		if !e.start {
			err = r.Free(chunks[e.item])
			continue
		}
		b, at := &boxes[e.item], uint64(0)
		if chunks[e.item], err = r.Alloc(uint64(b.size), uint64(b.align)); err == nil {
			at, err = r.Addr(chunks[e.item])
		}
		offset[e.item] = int64(at)
	}
	return offset
}
