package flat

import (
	"slices"

	"godwit/mem"
)

// Use is what a kernel is given of a root, and which part of it, by promise, it reads
// or writes.
type Use struct {
	Root          int
	Given, Used   mem.Range
	Reads, Writes bool
}

// fillings are what unknown bytes hold while a kernel runs. They differ in every byte.
// The last is no number in any binary format of IEEE 754: zero and a small number may
// vanish in a sum or a product, that does not.
var fillings = [...]byte{0x00, 0xa5, 0xff}

// Launch has run execute a kernel on the roots' bytes. Where the kernel is given bytes
// that are not known, it runs once for each filling: what it has written then is known
// where all agree.
func (m *Memory) Launch(uses []Use, run func() error) error {
	limits := make([]uint64, len(uses))
	unknown := false
	for i := range uses {
		u := &uses[i]
		limits[i] = m.Limit(u.Root)
		unknown = unknown || !m.allKnown(u.Root, u.Given, m.shown(u, limits[i]))
	}
	if !unknown {
		defer m.wrote(uses)
		return run()
	}
	before := m.snapshot(uses)
	var after [len(fillings)][][]byte
	for i, filling := range fillings {
		m.restore(uses, before)
		for k := range uses {
			u := &uses[k]
			for r, known := range m.Known(u.Root, u.Given, m.shown(u, limits[k])) {
				if !known {
					Repeat(m.Bytes(u.Root, r), []byte{filling})
				}
			}
		}
		if err := run(); err != nil {
			return err
		}
		after[i] = m.snapshot(uses)
	}
	m.restore(uses, before)
	for i := range uses {
		if u := &uses[i]; u.Writes {
			var wrote [len(fillings)][]byte
			for f := range after {
				from := u.Used.Start - u.Given.Start
				wrote[f] = after[f][i][from : from+u.Used.Size()]
			}
			m.agree(u, wrote)
		}
	}
	m.wrote(uses)
	return nil
}

// shown is how far a kernel sees content: what it reads ends where the count does.
func (m *Memory) shown(u *Use, limit uint64) uint64 {
	if u.Reads && limit < u.Used.End {
		return limit
	}
	return uint64(len(m.roots[u.Root].bytes))
}

// wrote notes counts that a kernel has written.
func (m *Memory) wrote(uses []Use) {
	for i := range uses {
		if uses[i].Writes {
			m.say(uses[i].Root, uses[i].Used)
		}
	}
}

func (m *Memory) snapshot(uses []Use) (out [][]byte) {
	for i := range uses {
		out = append(out, slices.Clone(m.Bytes(uses[i].Root, uses[i].Given)))
	}
	return out
}

func (m *Memory) restore(uses []Use, to [][]byte) {
	for i := range uses {
		copy(m.Bytes(uses[i].Root, uses[i].Given), to[i])
	}
}

// agree sets what a kernel has written to what it wrote with the first filling, and
// makes known where it wrote that with every other one, too.
func (m *Memory) agree(u *Use, wrote [len(fillings)][]byte) {
	first := wrote[0]
	same := func(at int) bool {
		for _, other := range wrote[1:] {
			if other[at] != first[at] {
				return false
			}
		}
		return true
	}
	copy(m.Bytes(u.Root, u.Used), first)
	for at := 0; at < len(first); {
		known, end := same(at), at+1
		for end < len(first) && same(end) == known {
			end++
		}
		m.roots[u.Root].known.Set(mem.Range{Start: u.Used.Start + uint64(at), End: u.Used.Start + uint64(end)}, known)
		at = end
	}
}
