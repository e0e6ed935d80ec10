package formats

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// MiniMalloc's CSV (Moffitt, "MiniMalloc", ASPLOS 2023): a buffer of size
// units lives in [lower, upper). Columns are found by name; older files say
// begin and end. The online order is made from it: by time, frees before
// allocations at equal times, else as the file has them.
//
// Of its further columns, hint and offset say where a buffer was put or should
// be, which a replay decides anew: they are passed over. An alignment or gaps of
// a buffer's own would change what fits, so they must say nothing.

// mmEvent is an end of a lifetime, before sorting.
type mmEvent struct {
	time int64
	op   trace.Op
	row  int
}

type mmRow struct {
	id           string
	size         uint64
	lower, upper int64
	line         int
}

func readMiniMalloc(l *input.Lines, cols []string) (*Allocs, error) {
	at := [4]int{index(cols, "id"), index(cols, "lower", "begin", "start"),
		index(cols, "upper", "end"), index(cols, "size")}
	for i, name := range []string{"id", "lower", "upper", "size"} {
		if at[i] < 0 {
			return nil, fmt.Errorf("the header has no column %s", name)
		}
	}
	for i, c := range cols {
		if !slices.Contains(at[:], i) && !slices.Contains([]string{"alignment", "gaps", "hint", "offset"}, c) {
			return nil, fmt.Errorf("column %q: want id, lower, upper, size, and perhaps alignment, gaps, hint, offset", input.Clip(c))
		}
	}
	alignment, gaps := index(cols, "alignment"), index(cols, "gaps")
	var rows []mmRow
	ids := make(map[string]int)
	for {
		line, ok := l.Next()
		if !ok {
			break
		}
		f := strings.Split(line, ",")
		if len(f) != len(cols) {
			return nil, fmt.Errorf("%q has %d fields, the header %d", input.Clip(line), len(f), len(cols))
		}
		if before, dup := ids[f[at[0]]]; dup {
			return nil, fmt.Errorf("id %q was on line %d before", input.Clip(f[at[0]]), before)
		}
		ids[f[at[0]]] = l.N
		if alignment >= 0 && !slices.Contains([]string{"", "0", "1"}, f[alignment]) {
			return nil, fmt.Errorf("alignment %s: one buffer's own is not replayed; a replay aligns all alike", input.Clip(f[alignment]))
		}
		if gaps >= 0 && f[gaps] != "" {
			return nil, fmt.Errorf("gaps %q: buffers that leave part of their lifetime to others are not replayed", input.Clip(f[gaps]))
		}
		row, err := mmParse(f[at[1]], f[at[2]], f[at[3]], l.N)
		if err != nil {
			return nil, err
		}
		row.id = f[at[0]]
		rows = append(rows, row)
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return mmBuild(l, rows)
}

func mmParse(lower, upper, size string, line int) (r mmRow, err error) {
	r.line = line
	if r.lower, err = parseInt(lower, "lower"); err != nil {
		return r, err
	}
	if r.upper, err = parseInt(upper, "upper"); err != nil {
		return r, err
	}
	if r.size, err = parseUint(size, "size"); err != nil {
		return r, err
	}
	if r.upper <= r.lower {
		return r, fmt.Errorf("lifetime [%d,%d) is empty", r.lower, r.upper)
	}
	return r, nil
}

func mmBuild(l *input.Lines, rows []mmRow) (*Allocs, error) {
	events := make([]mmEvent, 0, 2*len(rows))
	for i, r := range rows {
		events = append(events, mmEvent{r.lower, trace.OpAlloc, i}, mmEvent{r.upper, trace.OpFree, i})
	}
	slices.SortStableFunc(events, func(a, b mmEvent) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(b.op, a.op))
	})
	var b AllocBuilder
	ids := make([]string, 0, len(rows))
	for _, e := range events {
		if e.op == trace.OpFree {
			b.free(uint64(e.row), e.time, rows[e.row].line)
		} else if err := b.alloc(uint64(e.row), rows[e.row].size, e.time, rows[e.row].line); err != nil {
			l.N = rows[e.row].line
			return nil, err
		} else {
			ids = append(ids, rows[e.row].id)
		}
	}
	t := b.Build(l.File, FormatMiniMalloc)
	t.IDs = ids
	return t, nil
}

// WriteMiniMalloc writes t as MiniMalloc's CSV. Times are event indices, so
// that reading it back gives the events in the same order; a chunk never
// freed lives to the end.
func (t *Allocs) WriteMiniMalloc(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString("id,lower,upper,size\n") // a bufio.Writer keeps its first error for Flush
	for i, l := range t.Lifetimes() {
		_, _ = fmt.Fprintf(bw, "%d,%d,%d,%d\n", i, l.Start, l.End, l.Size)
	}
	return bw.Flush()
}

// WriteOffsets writes t as MiniMalloc's CSV with a column of offsets, by chunk, as its
// solvers give back: ids and times are those of MiniMalloc's file that t was read from,
// else chunk numbers and event indices.
func (t *Allocs) WriteOffsets(w io.Writer, offsets []uint64) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString("id,lower,upper,size,offset\n") // a bufio.Writer keeps its first error for Flush
	for i, l := range t.Lifetimes() {
		id, lower, upper := strconv.Itoa(i), int64(l.Start), int64(l.End)
		if t.IDs != nil { // and every chunk is freed
			id, lower, upper = t.IDs[i], t.Events[l.Start].Time, t.Events[l.End].Time
		}
		_, _ = fmt.Fprintf(bw, "%s,%d,%d,%d,%d\n", id, lower, upper, l.Size, offsets[i])
	}
	return bw.Flush()
}
