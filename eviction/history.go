package eviction

// History is when a block was used, as numbers of commands. The zero History is of
// a block that never was. It is kept while the block is away.
type History struct {
	Used uint64           // the last command that used the block, from 1; 0 is never
	gaps [remember]uint32 // commands between its last uses, the latest first; 0 is none
}

// remember is how many gaps a history keeps: the uses of a weight in two steps of
// a training, say.
const remember = 8

// Use notes that command number now uses the block.
func (h *History) Use(now uint64) {
	if h.Used != 0 && now > h.Used {
		copy(h.gaps[1:], h.gaps[:remember-1])
		h.gaps[0] = uint32(min(now-h.Used, 1<<32-1))
	}
	h.Used = now
}

// Next guesses which command uses the block next, later than now.
func (h *History) Next(now uint64) uint64 {
	if next := h.Used + h.repeated(); next > now {
		return next
	}
	if now-h.Used <= soon {
		return now + soon
	}
	return now + h.Used
}

const soon = 8

func (h *History) repeated() uint64 {
	for i := 1; i < remember && h.gaps[i] != 0; i++ {
		if like(h.gaps[i], h.gaps[0]) {
			return uint64(h.gaps[i-1])
		}
	}
	if h.gaps[1] == 0 {
		return uint64(h.gaps[0])
	}
	return 0
}

// like reports whether two gaps differ by an eighth at most.
func like(a, b uint32) bool {
	if a < b {
		a, b = b, a
	}
	return a-b <= a/8
}
