package bound

import (
	"slices"

	"godwit/mem"
)

// Round is how many bytes must move in a round of commands that is repeated for ever, where no
// memory is short: the limit of bytes a round. Commands are lists of accesses in order; store gives the memory that
// stands for all that share its bytes.
//
// Each byte is by itself. What one command writes and others read before the next write of it, all round
// the circle, has to arrive once on each memory that reads it and is not the writer's; no copy
// serves two of these arrivals, and one each is enough. A byte that no command writes has
// arrived everywhere after the first round. It is counted by going round twice.
func Round(store func(mem.MemoryID) mem.MemoryID, commands [][]mem.Access) (bytes uint64) {
	by := make(map[mem.BufferID][]mem.Access)
	for _, accs := range commands {
		for _, a := range accs { // a command reads before it writes
			if a.Mode.Reads() {
				by[a.Buffer] = append(by[a.Buffer], mem.Access{Range: a.Range, Mode: mem.Read, Memory: store(a.Memory)})
			}
		}
		for _, a := range accs {
			if a.Mode.Writes() {
				by[a.Buffer] = append(by[a.Buffer], mem.Access{Range: a.Range, Mode: mem.Write, Memory: store(a.Memory)})
			}
		}
	}
	for _, accs := range by {
		bytes += roundOf(accs)
	}
	return bytes
}

// roundOf is Round of one buffer, piece by piece of what is used alike.
func roundOf(accs []mem.Access) (bytes uint64) {
	var ends []uint64
	for _, a := range accs {
		ends = append(ends, a.Range.Start, a.Range.End)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for i := 1; i < len(ends); i++ {
		piece := mem.Range{Start: ends[i-1], End: ends[i]}
		var held mem.MemorySet
		for turn := range 2 {
			for _, a := range accs {
				switch {
				case !a.Range.Overlaps(piece):
				case a.Mode.Writes():
					held = mem.SetOf(a.Memory)
				case !held.Has(a.Memory):
					held = held.With(a.Memory)
					bytes += uint64(turn) * piece.Size()
				}
			}
		}
	}
	return bytes
}
