package bufalloc

// firstFit is PoCL's two documented strategies, made right: holes are split, and the
// search follows the address order. The tail is the hole at the region's end, if there
// is one: in address order it comes last.
//
// Where the tail comes last, no answer depends on the region's size, so that a sequence
// that fits into a region fits into every larger one: the same chunks lie at the same
// addresses there.
type firstFit struct {
	tailFirst bool // Wasteful: the tail before all others; else after them
	n         int
	holes     byAddress
}

func (f *firstFit) reset(r *Region) {
	f.n = 0
	f.holes.reset(cap(r.nodes))
}

func (f *firstFit) insert(r *Region, i uint32) {
	f.n++
	f.holes.insert(r.nodes, i)
}

func (f *firstFit) remove(r *Region, i uint32) {
	f.n--
	f.holes.remove(r.nodes, i)
}

func (f *firstFit) joins(*Region, uint32, uint32) bool { return true }
func (f *firstFit) count() int                         { return f.n }
func (f *firstFit) check(r *Region, i uint32) error    { return f.holes.check(r.nodes, i) }

func (f *firstFit) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	i := f.first(r, size, align)
	n := &r.nodes[i]
	return i, n.addr + -n.addr&(align-1), size
}

// first is the first hole in address order that holds the chunk, with the tail before
// all others or after them.
func (f *firstFit) first(r *Region, size, align uint64) uint32 {
	if tail := r.nodes[anchor].prev; f.tailFirst && !r.nodes[tail].live() && holds(&r.nodes[tail], size, align) {
		return tail
	}
	return f.holes.first(r.nodes, f.holes.root, size, align, &r.s.ScanSteps)
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
	i := p.first(r, up, align)
	if i == r.nodes[anchor].prev && r.chunks()+p.n-1 >= r.maxChunks {
		i = p.holes.first(r.nodes, p.holes.root, up, align, &r.s.ScanSteps)
		if i == r.nodes[anchor].prev {
			i = 0
		}
	}
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
