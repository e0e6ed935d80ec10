package replay

import (
	"fmt"
	"slices"

	"godwit/internal/suggest"
	"godwit/mem"
)

// Perturbation is a way to make another stream of one: what a rule that was chosen
// on the one has to bear.
type Perturbation string

// The perturbations.
const (
	reversed    Perturbation = "backwards" // time turned round: frees are allocations and the reverse
	resizedEach Perturbation = "resized"   // every chunk's size by up to a tenth
	alike       Perturbation = "alike"     // every size by up to a tenth: chunks of one size stay so
	lateStart   Perturbation = "late"      // begins in the first half; what is live there is allocated first
	earlyEnd    Perturbation = "early"     // ends in the second half
	Reordered   Perturbation = "reordered" // operations change places with near ones, where that is possible
	Changed     Perturbation = "changed"   // another run of the program: a tenth of the allocations have another size, by up to a tenth, or a new one before them
)

// Perturbations lists those that Perturbed draws: all but Changed.
func Perturbations() []Perturbation {
	return []Perturbation{reversed, resizedEach, alike, lateStart, earlyEnd, Reordered}
}

// ParsePerturbation returns the perturbation of that name, else an error wrapping
// mem.ErrInvalidValue that lists them.
func ParsePerturbation(name string) (Perturbation, error) {
	return suggest.Pick("perturbation", name, append(Perturbations(), Changed), func(p Perturbation) string { return string(p) })
}

// Perturb makes another stream of st, the same for the same seed. It fails where
// nothing would be allocated in it.
func Perturb(st *Stream, p Perturbation, seed uint64) (*Stream, error) {
	rng := splitmix(seed)
	var ops []Op
	switch p {
	case reversed:
		ops = backwards(st)
	case resizedEach:
		ops = resized(st, func(uint64) float64 { return rng.uniform() })
	case alike:
		ops = resized(st, func(size uint64) float64 {
			own := splitmix(seed ^ size*0x9E3779B97F4A7C15)
			return own.uniform()
		})
	case lateStart:
		ops = late(st, int(rng.uniform()*float64(len(st.Ops))/2))
	case earlyEnd:
		ops = slices.Clone(st.Ops[:len(st.Ops)-int(rng.uniform()*float64(len(st.Ops))/2)])
	case Reordered:
		ops = reordered(st, &rng)
	case Changed:
		ops = changed(st, &rng)
	default:
		return nil, fmt.Errorf("perturbation %q: %w", p, mem.ErrInvalidValue)
	}
	return NewStream(fmt.Sprintf("%s %s %d", st.Name, p, seed), st.Align, ops)
}

// The halves of all draws. Rules are chosen on the one half; what the rules are worth
// is what they reach on the other, which nobody looked at while choosing.
const (
	chooseHalf = "choose" // even seeds
	reportHalf = "report" // odd seeds
)

// Perturbed makes draws streams by each perturbation of st, from seeds of the half,
// which is "choose" or "report". Time turned round is the same for every seed and would be in both halves, so
// those streams have other sizes besides (alike). It fails as Perturb does, for
// another half, and where draws is not in [1, 1000].
func Perturbed(st *Stream, half string, draws int) ([]*Stream, error) {
	if half != chooseHalf && half != reportHalf {
		return nil, fmt.Errorf("half %q: want %s or %s: %w", half, chooseHalf, reportHalf, mem.ErrInvalidValue)
	}
	if draws < 1 || draws > 1000 {
		return nil, fmt.Errorf("%d draws of each perturbation: want 1 to 1000: %w", draws, mem.ErrInvalidValue)
	}
	kinds := Perturbations()
	var out []*Stream
	for k := range draws {
		for i, kind := range kinds {
			seed := uint64(2 * (k*len(kinds) + i + 1))
			if half == reportHalf {
				seed--
			}
			x, err := Perturb(st, kind, seed)
			if err == nil && kind == reversed {
				x, err = Perturb(x, alike, seed)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	}
	return out, nil
}

func backwards(st *Stream) []Op {
	held := make([]uint64, st.Slots)
	freed := make([]uint64, len(st.Ops)) // by operation
	for i, op := range st.Ops {
		if op.Size == 0 {
			freed[i] = held[op.Slot]
		}
		held[op.Slot] = op.Size
	}
	var ops []Op
	for slot, size := range held { // never freed: there from the start
		if size != 0 {
			ops = append(ops, Op{Size: size, Slot: uint32(slot)})
		}
	}
	for i, op := range slices.Backward(st.Ops) {
		ops = append(ops, Op{Size: freed[i], Slot: op.Slot})
	}
	return ops
}

// resized changes sizes by draw, between 0 and 1.
func resized(st *Stream, draw func(size uint64) float64) []Op {
	ops := slices.Clone(st.Ops)
	for i := range ops {
		if size := ops[i].Size; size != 0 {
			ops[i].Size = max(uint64(float64(size)*(0.9+0.2*draw(size))), 1)
		}
	}
	return ops
}

// late leaves out the operations before from, but for what is live there.
func late(st *Stream, from int) []Op {
	at := make([]int, st.Slots)
	for i, op := range st.Ops[:from] {
		at[op.Slot] = 0
		if op.Size != 0 {
			at[op.Slot] = i + 1
		}
	}
	slices.Sort(at)
	var ops []Op
	for _, i := range at {
		if i > 0 {
			ops = append(ops, st.Ops[i-1])
		}
	}
	return append(ops, st.Ops[from:]...)
}

// reorderWindow is how far an operation may move.
const reorderWindow = 8

// reordered shuffles operations over short distances: those of one slot keep their
// order.
func reordered(st *Stream, rng *splitmix) []Op {
	ops := slices.Clone(st.Ops)
	for i := range ops {
		j := i
		for range rng.next() % reorderWindow {
			if j+1 == len(ops) || ops[j].Slot == ops[j+1].Slot {
				break
			}
			ops[j], ops[j+1] = ops[j+1], ops[j]
			j++
		}
	}
	return ops
}

// changed changes a tenth of the allocations: one half in size, before the others comes a
// new one that has the size and the life of some other.
func changed(st *Stream, rng *splitmix) []Op {
	lives := st.lives()
	var allocs []int
	for i, op := range st.Ops {
		if op.Size != 0 {
			allocs = append(allocs, i)
		}
	}
	var ops []Op
	var spare []uint32
	slots := uint32(st.Slots)
	due := make(map[int][]uint32) // slots of new ones, by the operation before which they are freed
	for i, op := range st.Ops {
		for _, slot := range due[i] {
			ops = append(ops, Op{Slot: slot})
		}
		spare = append(spare, due[i]...)
		if op.Size != 0 && rng.uniform() < 0.1 {
			if rng.next()%2 == 0 {
				op.Size = max(uint64(float64(op.Size)*(0.9+0.2*rng.uniform())), 1)
			} else {
				of := allocs[rng.next()%uint64(len(allocs))]
				if len(spare) == 0 {
					spare, slots = append(spare, slots), slots+1
				}
				slot := spare[len(spare)-1]
				spare = spare[:len(spare)-1]
				ops = append(ops, Op{Size: st.Ops[of].Size, Slot: slot})
				due[i+lives[of]] = append(due[i+lives[of]], slot)
			}
		}
		ops = append(ops, op)
	}
	return ops
}
