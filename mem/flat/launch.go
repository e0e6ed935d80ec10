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
var fillings = [2]byte{0x00, 0xa5}

// Launch has run execute a kernel on the roots' bytes. Where the kernel is given bytes
// that are not known, it runs twice, with other values in them: what it has written
// then is known where both agree.
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
	var first [][]byte
	for i, filling := range fillings {
		m.restore(uses, before)
		for k := range uses {
			u := &uses[k]
			for r, known := range m.Known(u.Root, u.Given, m.shown(u, limits[k])) {
				if !known {
					repeat(m.Bytes(u.Root, r), []byte{filling})
				}
			}
		}
		if err := run(); err != nil {
			return err
		}
		if i == 0 {
			first = m.snapshot(uses)
		}
	}
	second := m.snapshot(uses)
	m.restore(uses, before)
	for i := range uses {
		if u := &uses[i]; u.Writes {
			from := u.Used.Start - u.Given.Start
			m.agree(u, first[i][from:from+u.Used.Size()], second[i][from:from+u.Used.Size()])
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

// agree sets what a kernel has written to a, and makes known where that is b, too.
func (m *Memory) agree(u *Use, a, b []byte) {
	copy(m.Bytes(u.Root, u.Used), a)
	for at := 0; at < len(a); {
		same, end := a[at] == b[at], at+1
		for end < len(a) && (a[end] == b[end]) == same {
			end++
		}
		m.roots[u.Root].known.Set(mem.Range{Start: u.Used.Start + uint64(at), End: u.Used.Start + uint64(end)}, same)
		at = end
	}
}
