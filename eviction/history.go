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

// Next guesses which command uses the block next, later than now. Programs repeat
// themselves: the last time that a gap as long as the latest had passed between two
// uses, the gap that followed it is taken to follow again. Where that has not
// happened, or has passed, what was not used for long is not used for long to come.
func (h *History) Next(now uint64) uint64 {
	for i := 1; i < remember && h.gaps[i] != 0; i++ {
		if like(h.gaps[i], h.gaps[0]) {
			if next := h.Used + uint64(h.gaps[i-1]); next > now {
				return next
			}
			break
		}
	}
	return now + max(now-min(now, h.Used), 1)
}

// like reports whether two gaps differ by an eighth at most.
func like(a, b uint32) bool {
	if a < b {
		a, b = b, a
	}
	return a-b <= a/8
}
