//go:build cgo

package opencl

// flights are the records of a queue that were accepted and have not ended, by the
// sequence of their points. Most end in about the order in which they were accepted,
// so that their slots in a ring are next to each other; one that stays for long, so
// that the ring comes round to it, has those that would be in its place put aside.
type flights struct {
	ring  []*record          // by sequence, modulo a power of two
	aside map[uint64]*record // by sequence
	n     int                // records in both
}

// leastRing is how many slots a ring has at first.
const leastRing = 64

func (f *flights) slot(seq uint64) **record { return &f.ring[seq&uint64(len(f.ring)-1)] }

// get finds the record of a sequence; nil where there is none.
func (f *flights) get(seq uint64) *record {
	if f.n == 0 {
		return nil
	}
	if r := *f.slot(seq); r != nil && r.point.Seq == seq {
		return r
	}
	return f.aside[seq]
}

// put adds a record, whose point it has. The ring grows where half of it is in use.
func (f *flights) put(r *record) {
	if 2*f.n >= len(f.ring) {
		f.grow()
	}
	f.n++
	if at := f.slot(r.point.Seq); *at == nil {
		*at = r
		return
	}
	if f.aside == nil {
		f.aside = make(map[uint64]*record)
	}
	f.aside[r.point.Seq] = r
}

func (f *flights) grow() {
	old, aside := f.ring, f.aside
	f.ring, f.aside, f.n = make([]*record, max(leastRing, 2*len(old))), nil, 0
	for _, r := range old {
		if r != nil {
			f.put(r)
		}
	}
	for _, r := range aside {
		f.put(r)
	}
}

// drop forgets the record of a sequence.
func (f *flights) drop(seq uint64) {
	f.n--
	if at := f.slot(seq); *at != nil && (*at).point.Seq == seq {
		*at = nil
		return
	}
	delete(f.aside, seq)
}
