package formats

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// RMM's logging_resource_adaptor writes rmmHeader and then a line for each
// allocate, "allocate failure" (pointer null) and free (some versions say
// deallocate). Time is the time of day, with a colon or a dot before the
// microseconds; old documents show seconds since 1970. Pointers are the ids: a
// log of many threads can show a pointer again before its free, and one cut
// short lacks frees, so an allocation of a live pointer frees the old chunk
// and counts as MissingFrees.
const rmmHeader = "Thread,Time,Action,Pointer,Size,Stream"

const dayUS = 24 * 60 * 60 * 1_000_000

type rmmReader struct {
	b     AllocBuilder
	first int64 // time of day or epoch of the first line, microseconds
	last  int64 // the line before, counted from first
	begun bool
}

func readRMM(l *input.Lines) (*Allocs, error) {
	var r rmmReader
	r.b.beganLate()
	for {
		line, ok := l.Next()
		if !ok {
			return r.b.Build(l.File, FormatRMM), l.Err()
		}
		if err := r.line(line, l.N); err != nil {
			return nil, err
		}
	}
}

func (r *rmmReader) line(line string, n int) error {
	f := strings.Split(line, ",")
	if len(f) != 6 {
		return fmt.Errorf("%q has %d fields, not the six of %s", input.Clip(line), len(f), rmmHeader)
	}
	at, err := r.time(f[1])
	if err != nil {
		return err
	}
	size, err := parseUint(f[4], "Size")
	if err != nil {
		return err
	}
	odd := &r.b.t.Oddities
	action := f[2]
	if action == "allocate failure" {
		odd.note(&odd.FailedAllocs, n, "allocation of %d bytes had failed", size)
		return nil
	}
	ptr, err := parsePointer(f[3])
	if err != nil {
		return err
	}
	switch action {
	case "allocate":
		return r.b.recorded(ptr, f[3], size, at, n)
	case "free", "deallocate":
		if size == 0 {
			odd.note(&odd.ZeroSized, n, "free of 0 bytes at %s", f[3])
			return nil
		}
		return r.b.recordedFree(ptr, size, at, n)
	}
	return fmt.Errorf("action %q is none of allocate, allocate failure, free", input.Clip(action))
}

// time turns a line's Time into microseconds from the first line's. A clock
// that jumps back by more than half a day has passed midnight.
func (r *rmmReader) time(field string) (int64, error) {
	us, wraps, err := parseClock(field)
	if err != nil {
		return 0, err
	}
	if !r.begun {
		r.begun, r.first = true, us
	}
	at := us - r.first
	if behind := r.last - dayUS/2 - at; wraps && behind > 0 {
		at += (behind + dayUS - 1) / dayUS * dayUS
	}
	r.last = at
	return at, nil
}

func parseClock(s string) (us int64, wraps bool, err error) {
	bad := fmt.Errorf("time %q is not hh:mm:ss.µs", input.Clip(s))
	if sec, frac, ok := strings.Cut(s, "."); ok && !strings.Contains(s, ":") {
		us, err := parseInt(sec, "Time")
		f, ferr := micros(frac)
		if err != nil || ferr != nil || us < 0 || us > 1<<40 {
			return 0, false, bad
		}
		return us*1_000_000 + f, false, nil
	}
	p := strings.FieldsFunc(s, func(c rune) bool { return c == ':' || c == '.' })
	if len(p) != 3 && len(p) != 4 {
		return 0, false, bad
	}
	for i, limit := range []uint64{24, 60, 61} {
		v, err := strconv.ParseUint(p[i], 10, 8)
		if err != nil || v >= limit {
			return 0, false, bad
		}
		us = us*60 + int64(v)
	}
	us *= 1_000_000
	if len(p) == 4 {
		f, err := micros(p[3])
		if err != nil {
			return 0, false, bad
		}
		us += f
	}
	return us, true, nil
}

// micros reads a decimal fraction of a second as microseconds.
func micros(frac string) (int64, error) {
	frac = (frac + "000000")[:6]
	v, err := strconv.ParseUint(frac, 10, 32)
	return int64(v), err
}

// parsePointer reads what %p prints: hexadecimal with 0x, or "(nil)".
func parsePointer(s string) (uint64, error) {
	if s == "(nil)" {
		return 0, nil
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("pointer %q is not a hexadecimal address", input.Clip(s))
	}
	return v, nil
}

// WriteRMM writes t as RMM's log, thread 1 and stream 0. Pointers are made up:
// chunk n is at 0x10000000000 + 256n. Times are taken modulo one day.
func (t *Allocs) WriteRMM(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString(rmmHeader + "\n") // a bufio.Writer keeps its first error for Flush
	for _, e := range t.Events {
		action := "allocate"
		if e.Op == trace.OpFree {
			action = "free"
		}
		us := ((e.Time % dayUS) + dayUS) % dayUS
		s := us / 1_000_000
		_, _ = fmt.Fprintf(bw, "1,%02d:%02d:%02d:%06d,%s,%#x,%d,0\n", s/3600, s/60%60, s%60, us%1_000_000,
			action, 1<<40+256*uint64(e.Chunk), e.Size)
	}
	return bw.Flush()
}
