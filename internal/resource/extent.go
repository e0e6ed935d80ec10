package resource

import "godwit/mem"

// extent is a stretch of addresses that a layer carves, with what is in use
// there. Bytes between the blocks are free.
type extent struct {
	Range mem.Range
	Used  []use // ascending addresses
}

// use is a block in an extent.
type use struct {
	Block   mem.Block
	Pending bool // given back, but waiting for a point
}

// mapper is a layer that knows where its blocks lie.
type mapper interface {
	Layer
	// Extents lists what the layer carves, in order of growth.
	Extents() []extent
}

// smallestRelease returns the fewest live blocks of one extent, the least bytes
// among equals, whose release would leave a hole of size bytes at align. ok is
// false where no extent is that large or pending blocks are in the way
// everywhere.
func smallestRelease(extents []extent, size, align uint64) (set []mem.Block, ok bool) {
	best, bestBytes := -1, uint64(0)
	for _, e := range extents {
		lo := 0
		for lo <= len(e.Used) { // the hole starts behind block lo-1
			start := e.Range.Start
			if lo > 0 {
				start = e.Used[lo-1].Block.Addr + e.Used[lo-1].Block.Size
			}
			start, fits := mem.AlignUp(start, max(align, 1))
			if n, sum := release(e, lo, start, size); fits && n >= 0 && (best < 0 || n < best || n == best && sum < bestBytes) {
				best, bestBytes = n, sum
				set = set[:0]
				for _, u := range e.Used[lo : lo+n] {
					set = append(set, u.Block)
				}
			}
			lo++
		}
	}
	return set, best >= 0
}

// release counts the blocks from lo on that lie in [start, start+size); -1
// where one of them is pending or the extent ends.
func release(e extent, lo int, start, size uint64) (n int, bytes uint64) {
	if start > e.Range.End || size > e.Range.End-start {
		return -1, 0
	}
	for _, u := range e.Used[lo:] {
		if u.Block.Addr >= start+size {
			break
		}
		if u.Pending {
			return -1, 0
		}
		n++
		bytes += u.Block.Size
	}
	return n, bytes
}
