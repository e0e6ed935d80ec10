package pack

// memo remembers residual problems that were proved to fail.
type memo struct {
	slots []slot
	seed  uint64
}

type slot struct {
	hash uint64
	off  int64
	idx  int32
}

func newMemo(bits int) *memo { return &memo{slots: make([]slot, 1<<bits)} }

type mark struct {
	off int64
	idx int32
}

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
		if e.skip && (e.raw > k.off || e.raw == k.off && e.idx > k.idx) {
			k = mark{e.raw, e.idx}
		}
	}
	return h | 1, k
}

func (m *memo) failed(h uint64, k mark) bool {
	s := &m.slots[h>>1&uint64(len(m.slots)-1)]
	if s.hash == h && (k.off > s.off || k.off == s.off && k.idx >= s.idx) {
		return true
	}
	return false
}

func (m *memo) store(h uint64, k mark) {
	s := &m.slots[h>>1&uint64(len(m.slots)-1)]
	*s = slot{h, k.off, k.idx}
}
