package pack

// memo remembers states that were proved to fail, each in the one slot of its
// hash, where a later one replaces it. Two states are taken for one when 64 bits
// of hash agree; that can only hide placements, never make a wrong one.
type memo struct {
	slots []slot
	seed  uint64 // tells orders and capacities apart
}

type slot struct {
	hash uint64 // odd; 0 is empty
	mark
}

// newMemo makes a table of 2^bits slots of 24 bytes.
func newMemo(bits int) *memo { return &memo{slots: make([]slot, 1<<bits)} }

// mark is the highest key (offset, index) of the boxes skipped in a state. A
// state with the same boxes and a higher mark allows less, so that it fails
// where one with a lower mark failed.
type mark struct {
	off int64
	idx int32
}

func (k mark) less(o mark) bool { return k.off < o.off || k.off == o.off && k.idx < o.idx }

// mix scrambles the bits of x.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}

// key hashes the boxes left and where each could go; the mark is the highest
// key among those skipped.
func (m *memo) key(list []entry) (uint64, mark) {
	h := m.seed
	k := mark{-1, -1}
	for i := range list {
		e := &list[i]
		h += mix(uint64(e.raw)*0x9e3779b97f4a7c15 + uint64(e.idx) + 1)
		if here := (mark{e.raw, e.idx}); e.skip && k.less(here) {
			k = here
		}
	}
	return h | 1, k
}

func (m *memo) slot(h uint64) *slot { return &m.slots[h>>1&uint64(len(m.slots)-1)] }

// failed tells whether the state is known to fail.
func (m *memo) failed(h uint64, k mark) bool {
	s := m.slot(h)
	return s.hash == h && !k.less(s.mark)
}

// store remembers that the state fails.
func (m *memo) store(h uint64, k mark) { *m.slot(h) = slot{h, k} }
