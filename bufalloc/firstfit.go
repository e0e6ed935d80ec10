package bufalloc

// firstFit is PoCL's two documented strategies, made right: holes are split,
// and the search follows the address order, in which holes need no list of
// their own. The tail is the hole at the region's end, if there is one.
type firstFit struct {
	tailFirst bool // Wasteful: the tail before all others; else after them
	n         int
}

func (f *firstFit) reset(*Region)                      { f.n = 0 }
func (f *firstFit) insert(*Region, uint32)             { f.n++ }
func (f *firstFit) remove(*Region, uint32)             { f.n-- }
func (f *firstFit) joins(*Region, uint32, uint32) bool { return true }
func (f *firstFit) count() int                         { return f.n }
func (f *firstFit) check(*Region, uint32) error        { return nil }

func (f *firstFit) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	i := firstHole(r, size, align, f.tailFirst, true)
	n := &r.nodes[i]
	return i, n.addr + -n.addr&(align-1), size
}

// firstHole is the first hole in address order that holds the chunk, with the
// tail before all others or after them, or not at all.
func firstHole(r *Region, size, align uint64, tailFirst, useTail bool) uint32 {
	tail := r.nodes[anchor].prev
	fits := useTail && !r.nodes[tail].live() && holds(&r.nodes[tail], size, align)
	if tailFirst && fits {
		return tail
	}
	for i := r.nodes[anchor].next; i != anchor && i != tail; i = r.nodes[i].next {
		if !r.nodes[i].live() && holds(&r.nodes[i], size, align) {
			return i
		}
	}
	if fits {
		return tail
	}
	return 0
}

// poclMaxChunks is what PoCL's fixed array of 1,024 leaves when one is the
// tail's.
const poclMaxChunks = 1023

// pocl is what PoCL's bufalloc.c does, for study: the first hole that is large
// enough is reused whole, however much larger it is; only the tail is cut. One
// difference: PoCL leaves the bytes that align the next chunk to nobody, here
// they are the slack of the chunk in front (sizes are rounded up to the
// alignment).
type pocl struct{ firstFit }

func (p *pocl) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	up := (size + align - 1) &^ (align - 1)
	if up < size {
		return 0, 0, 0
	}
	// The array has an element for each chunk and for each hole but the tail;
	// cutting the tail takes one more, reusing a hole does not.
	i := firstHole(r, up, align, p.tailFirst, r.chunks()+p.n-1 < r.maxChunks)
	if i == 0 {
		return 0, 0, 0
	}
	n := &r.nodes[i]
	addr := n.addr + -n.addr&(align-1)
	if i == r.nodes[anchor].prev {
		return i, addr, up
	}
	return i, addr, n.end() - addr
}
