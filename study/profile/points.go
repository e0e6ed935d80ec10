package profile

import "godwit/mem"

// Points is a table by points. Those of a timeline lie side by side, since they count from 1; the zero value
// stands for what is not there.
type Points[T any] struct {
	lines map[*mem.Timeline][]T
}

// Put sets what stands at a point, which is not the zero one.
func (t *Points[T]) Put(p mem.Point, v T) {
	if t.lines == nil {
		t.lines = make(map[*mem.Timeline][]T)
	}
	line := t.lines[p.Line]
	if uint64(len(line)) < p.Seq {
		line = append(line, make([]T, p.Seq-uint64(len(line)))...)
		t.lines[p.Line] = line
	}
	line[p.Seq-1] = v
}

// At is what stands at a point, or the zero value.
func (t *Points[T]) At(p mem.Point) (v T) {
	if line := t.lines[p.Line]; p.Seq > 0 && p.Seq <= uint64(len(line)) {
		return line[p.Seq-1]
	}
	return v
}
