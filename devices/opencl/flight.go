//go:build cgo

package opencl

// flights are the records of a queue that were accepted and have not ended, by the
// sequence of their points: most end in about the order in which they were accepted, so that
// a slot is free again when its turn comes. Those whose slot is not are put aside.
type flights struct {
	slots [1024]*record
	aside map[uint64]*record
}

// at is the slot of a sequence.
func (f *flights) at(seq uint64) **record { return &f.slots[seq%uint64(len(f.slots))] }

// get finds the record of a sequence; nil where there is none.
func (f *flights) get(seq uint64) *record {
	if r := *f.at(seq); r != nil && r.point.Seq == seq {
		return r
	}
	return f.aside[seq]
}

// put adds a record, whose point it has.
func (f *flights) put(r *record) {
	if at := f.at(r.point.Seq); *at == nil {
		*at = r
		return
	}
	if f.aside == nil {
		f.aside = make(map[uint64]*record)
	}
	f.aside[r.point.Seq] = r
}

// drop forgets the record of a sequence.
func (f *flights) drop(seq uint64) {
	if at := f.at(seq); *at != nil && (*at).point.Seq == seq {
		*at = nil
	}
	delete(f.aside, seq)
}
