package flat

import (
	"fmt"
	"iter"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Stamp says who wrote a byte, in the place of its value: it is byte Off of what command By
// (from 1, in enqueue order) wrote by its argument Arg (0 where it has none), or, where
// Arg is Created, of what the buffer By was made with. The zero Stamp is a byte of which
// nothing is known. Copies carry stamps along.
type Stamp struct {
	By  uint64
	Arg int32
	Off uint64 // bytes
}

// Created is the Arg of what a buffer was made with.
const Created int32 = -1

// String names the byte.
func (s Stamp) String() string {
	switch {
	case s == Stamp{}:
		return "a byte that nobody wrote"
	case s.Arg == Created:
		return fmt.Sprintf("byte %d that buffer %v was made with", s.Off, mem.BufferID(s.By))
	}
	return fmt.Sprintf("byte %d of argument %d of command %d", s.Off, s.Arg, s.By)
}

// After is the stamp of the n-th byte after one with the stamp s, of the same write.
func (s Stamp) After(n uint64) Stamp {
	if (s == Stamp{}) {
		return s
	}
	s.Off += n
	return s
}

// Seen is a run of bytes that a command found: Range of what it was given by its argument
// Arg, of which the first byte has the stamp First, and the others those after it.
type Seen struct {
	Arg   int32
	Range mem.Range
	First Stamp
}

// Stamps is what each address of a memory holds, by stamps. The zero Stamps is a memory
// of 2^64 - 1 addresses of which nothing is known. Not safe for concurrent use.
type Stamps struct {
	runs  rangemap.Map[Stamp] // of a run its stamps less its addresses, modulo 2^64
	moved []Seen              // scratch
}

const addresses = 1<<64 - 1

// Set has the bytes of r hold what follows first.
func (m *Stamps) Set(r mem.Range, first Stamp) {
	if m.runs.Size() == 0 {
		m.runs = rangemap.Make(addresses, Stamp{})
	}
	m.runs.Set(r, first.After(-r.Start))
}

// Runs yields what the bytes of r hold: a run, and the stamp of its first byte.
func (m *Stamps) Runs(r mem.Range) iter.Seq2[mem.Range, Stamp] {
	return func(yield func(mem.Range, Stamp) bool) {
		if m.runs.Size() == 0 {
			yield(r, Stamp{})
			return
		}
		m.runs.In(r)(func(at mem.Range, s *Stamp) bool { return yield(at, s.After(at.Start)) })
	}
}

// CopyFrom has as many bytes as r has, from to on, hold what r of src does. src may be m.
func (m *Stamps) CopyFrom(src *Stamps, r mem.Range, to uint64) {
	m.moved = m.moved[:0]
	for at, first := range src.Runs(r) {
		m.moved = append(m.moved, Seen{Range: at.Shift(to - r.Start), First: first})
	}
	for _, s := range m.moved {
		m.Set(s.Range, s.First)
	}
}

// Compare tests that a command which was given the bytes of r as argument arg, from its
// byte at on, found there what m has. What m does not know may be anything. What was found is
// looked at once, run by run, from low bytes to high ones; who looked several times begins again.
func (m *Stamps) Compare(r mem.Range, arg int32, at uint64, seen []Seen) error {
	given := r.Shift(at - r.Start)
	found := given.Start // all before it was looked at
	for i := range seen {
		s := &seen[i]
		part := s.Range.Intersect(given)
		if s.Arg != arg || part.Empty() {
			continue
		}
		if err := m.missed(found, part.Start, arg, at, r.Start); err != nil {
			return err
		}
		found = part.End
		for run, want := range m.Runs(part.Shift(r.Start - at)) {
			from := run.Start - r.Start + at
			if got := s.First.After(from - s.Range.Start); got != want && (want != Stamp{}) {
				return fmt.Errorf("byte %d of argument %d is %v, one flat memory has %v", from, arg, got, want)
			}
		}
	}
	return m.missed(found, given.End, arg, at, r.Start)
}

// missed reports bytes of an argument that nobody looked at, and of which m knows something: argument arg has the
// byte at start of m as its byte at.
func (m *Stamps) missed(from, to uint64, arg int32, at, start uint64) error {
	if from >= to {
		return nil
	}
	for run, want := range m.Runs(mem.Range{Start: from - at + start, End: to - at + start}) {
		if (want != Stamp{}) {
			return fmt.Errorf("byte %d of argument %d was not looked at, one flat memory has %v", run.Start-start+at, arg, want)
		}
	}
	return nil
}
