package sweep

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"godwit/internal/figures"
	"godwit/study/scenario"
)

// Column is a column of a table of rows. Its values are int64, uint64, float64, bool,
// or string; nil where a row has none.
type Column struct {
	Name      string // with its unit, where it is not bytes or a number
	Header    string // for people; "" where it is Name
	Format    string // for people, as package figures has them
	Parameter bool   // of an axis
	Value     func(*Row) any
}

// Columns are the columns of the results: a parameter for each axis, then figures. wide
// adds some for each link and device.
func (r *Results) Columns(wide bool) []Column {
	shown := every
	times := r.seen.times
	if times["measured"] || times["modelled"] {
		shown = append(shown[:len(shown):len(shown)], timed...)
	}
	if times["modelled"] {
		shown = append(shown, modelled...)
	}
	var out []Column
	for _, a := range r.Axes {
		name := a.Name
		if slices.ContainsFunc(append(shown, tail...), func(c Column) bool { return c.Name == name }) {
			name = "set_" + name // a figure has the name
		}
		out = append(out, Column{name, "", "", true, func(row *Row) any { return plain(row.Parameters[a.Name]) }})
	}
	out = append(out, shown...)
	if wide {
		out = append(out, r.wide()...)
	}
	return append(out, tail...)
}

// plain is a parameter's value as a column has it. A word such as inf or nan is no number.
func plain(v any) any {
	text := fmt.Sprint(v)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	return text
}

// Number is a column's value as a number: of times their nanoseconds.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return float64(d), true
		}
	}
	return 0, false
}

// named are the columns of what rows have under these names in JSON, with a word before.
func named(before string, names ...string) (out []Column) {
	all := figures.Of[Row]()
	for _, name := range names {
		f := all[slices.IndexFunc(all, func(c figures.Column) bool { return c.Name == name })]
		out = append(out, Column{before + name, f.Header, f.Format, false, func(r *Row) any { return f.Value(r) }})
	}
	return out
}

// carried is the column of the bytes over some links.
func carried(name string, counts func(l *scenario.LinkTotal) bool) Column {
	return Column{name, "", "bytes", false, func(r *Row) any {
		var n uint64
		for i := range r.Links {
			if counts(&r.Links[i]) {
				n += r.Links[i].Bytes
			}
		}
		return n
	}}
}

// every are the figures that each row has.
var every = slices.Concat(
	named("", "ok", "commands", "copies", "evictions", "bytes_moved", "bytes_lower_bound", "bytes_compulsory", "bytes_capacity",
		"bytes_capacity_bound", "bytes_written_back", "bytes_ride_along", "bytes_host", "bytes_host_bound"),
	[]Column{
		carried("bytes_from_host", func(l *scenario.LinkTotal) bool { return l.From == "host" }),
		carried("bytes_to_host", func(l *scenario.LinkTotal) bool { return l.To == "host" }),
		carried("bytes_between_devices", func(l *scenario.LinkTotal) bool { return l.From != "host" && l.To != "host" }),
		{"links", "", "count", false, func(r *Row) any { return len(r.Links) }},
		{"bytes_busiest_link", "", "bytes", false, func(r *Row) any {
			if len(r.Links) == 0 {
				return uint64(0)
			}
			return r.Links[0].Bytes // most bytes first
		}},
	},
	named("", "bytes_peak"))

// timed are the figures of rows with times.
var timed = named("", "elapsed_ns", "times")

// modelled are the figures of rows in virtual time: the makespan's parts.
var modelled = named("critical_", "compute_ns", "copy_ns", "memory_ns", "host_ns")

// tail are the last columns.
var tail = named("", "error", "point")

// wide are columns for each link and each device of any row.
func (r *Results) wide() (out []Column) {
	links := slices.Collect(maps.Keys(r.seen.links))
	slices.SortFunc(links, func(a, b link) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for _, l := range links {
		total := func(row *Row) (copies int, bytes uint64) {
			for _, t := range row.Links {
				if t.From == l.from && t.To == l.to {
					copies, bytes = copies+t.Copies, bytes+t.Bytes
				}
			}
			return copies, bytes
		}
		out = append(out,
			Column{fmt.Sprintf("copies %s>%s", l.from, l.to), "", "count", false, func(row *Row) any { n, _ := total(row); return n }},
			Column{fmt.Sprintf("bytes %s>%s", l.from, l.to), "", "bytes", false, func(row *Row) any { _, n := total(row); return n }})
	}
	for _, d := range r.seen.devices {
		out = append(out, Column{"bytes_peak " + d, "", "bytes", false, func(row *Row) any {
			for _, p := range row.Peaks {
				if p.Device == d {
					return p.Bytes
				}
			}
			return nil
		}})
	}
	return out
}

// WriteCSV writes the rows as CSV, with a header.
func (r *Results) WriteCSV(w io.Writer, wide bool) error {
	columns := r.Columns(wide)
	out := csv.NewWriter(w)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.Name
	}
	if err := out.Write(record); err != nil {
		return err
	}
	err := r.Each(func(row *Row, _ []byte) error {
		for i, c := range columns {
			record[i] = ""
			if v := c.Value(row); v != nil {
				record[i] = fmt.Sprint(v)
			}
		}
		return out.Write(record)
	})
	out.Flush()
	return errors.Join(err, out.Error())
}

// WriteJSONLines writes the rows as JSON, one a line.
func (r *Results) WriteJSONLines(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	err := r.lines(func(row []byte) error {
		_, err := out.Write(append(row, '\n'))
		return err
	})
	return errors.Join(err, out.Flush())
}
