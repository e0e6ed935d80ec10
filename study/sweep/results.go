package sweep

import (
	"slices"
	"strings"
)

// Results are the rows of a sweep in the order of its points. They are read from where they lie each
// time that they are asked for.
type Results struct {
	Axes   []Axis
	Points int    // how many rows there are
	Taken  int    // rows that were known before
	Failed int    // rows that were not as expected
	Reason string // why the first that failed did, where its row says so

	rows *Rows
	has  func(i int) bool // nil has all
	seen seen
}

// seen is what columns are made of.
type seen struct {
	times   map[string]bool
	links   map[link]bool
	devices []string // in the order in which rows have them
}

// link is from one memory to another.
type link struct{ from, to string }

func (r *Results) wants(i int) bool { return r.has == nil || r.has(i) }

// lines calls f with each row as it is written, which f may change.
func (r *Results) lines(f func(row []byte) error) error {
	for i := range r.rows.points.Len() {
		if !r.wants(i) {
			continue
		}
		row, err := r.rows.row(i)
		if err == nil {
			err = f(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Each calls f with each row, and as it is written.
func (r *Results) Each(f func(row *Row, text []byte) error) error {
	return r.lines(func(text []byte) error {
		row, err := decode(text)
		if err != nil {
			return err
		}
		return f(row, text)
	})
}

// All are all rows, at once in memory.
func (r *Results) All() (rows []*Row, err error) {
	err = r.Each(func(row *Row, _ []byte) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// survey notes what rows there are, before they are written.
func (r *Results) survey() error {
	r.seen = seen{make(map[string]bool), make(map[link]bool), nil}
	return r.Each(func(row *Row, _ []byte) error {
		r.seen.times[row.Times] = true
		for _, l := range row.Links {
			r.seen.links[link{l.From, l.To}] = true
		}
		for _, p := range row.Peaks {
			if !slices.Contains(r.seen.devices, p.Device) {
				r.seen.devices = append(r.seen.devices, p.Device)
			}
		}
		if !row.OK {
			if r.Failed++; r.Reason == "" {
				r.Reason, _, _ = strings.Cut(row.Error, "\n")
			}
		}
		return nil
	})
}
