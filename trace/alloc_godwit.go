package trace

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit/outfile"
)

// godwitHeader starts Godwit's own format. `a` allocates an id, `f` frees it;
// an id may be used again once freed. A free repeats its chunk's bytes, or
// leaves them empty.
const godwitHeader = "op,id,bytes,time_us"

func readGodwit(l *lines) (*Allocs, error) {
	var b AllocBuilder
	for {
		line, ok := l.next()
		if !ok {
			return b.Build(l.file, FormatGodwit), l.err()
		}
		if err := b.godwitLine(line, l.n); err != nil {
			return nil, err
		}
	}
}

func (b *AllocBuilder) godwitLine(line string, n int) error {
	op, rest, ok1 := strings.Cut(line, ",")
	idText, rest, ok2 := strings.Cut(rest, ",")
	sizeText, timeText, ok3 := strings.Cut(rest, ",")
	if !ok1 || !ok2 || !ok3 || strings.Contains(timeText, ",") {
		return fmt.Errorf("%q has not the four fields %s", clip(line), godwitHeader)
	}
	id, err := parseUint(idText, "id")
	if err != nil {
		return err
	}
	at, err := parseInt(timeText, "time_us")
	if err != nil {
		return err
	}
	if op == "f" && sizeText == "" {
		b.free(id, at, n)
		return nil
	}
	size, err := parseUint(sizeText, "bytes")
	if err != nil {
		return err
	}
	switch op {
	case "a":
		return b.alloc(id, size, at, n)
	case "f":
		if old, live := b.live[id]; live && old.size != size {
			return fmt.Errorf("free of id %d with %d bytes, allocated with %d on line %d", id, size, old.size, old.line)
		}
		b.free(id, at, n)
		return nil
	}
	return fmt.Errorf("op %q is neither a (allocate) nor f (free)", clip(op))
}

// WriteGodwit writes t in Godwit's CSV; ids are the chunk numbers.
func (t *Allocs) WriteGodwit(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString(godwitHeader + "\n") // a bufio.Writer keeps its first error for Flush
	var line []byte
	for _, e := range t.Events {
		line = appendGodwit(line[:0], e.Op, uint64(e.Chunk), e.Size, e.Time)
		_, _ = bw.Write(line)
	}
	return bw.Flush()
}

func appendGodwit(b []byte, op Op, id, size uint64, timeUS int64) []byte {
	if op == OpAlloc {
		b = append(b, 'a', ',')
	} else {
		b = append(b, 'f', ',')
	}
	b = strconv.AppendUint(b, id, 10)
	b = append(b, ',')
	b = strconv.AppendUint(b, size, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, timeUS, 10)
	return append(b, '\n')
}

// SaveAllocs writes t to a new file at path in Godwit's CSV, compressed where
// path ends in .gz. comment lines, if any, come first as # lines. The file is
// complete or not there; see outfile, also for ctx.
func SaveAllocs(ctx context.Context, path string, t *Allocs, comment ...string) (err error) {
	f, err := outfile.Create(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abort()) }()
	var w io.Writer = f
	var zw *gzip.Writer
	if filepath.Ext(path) == ".gz" {
		zw = gzip.NewWriter(f)
		w = zw
	}
	for _, c := range comment {
		if _, err := fmt.Fprintln(w, "#", strings.ReplaceAll(c, "\n", " ")); err != nil {
			return err
		}
	}
	if err := t.WriteGodwit(w); err != nil {
		return err
	}
	if zw != nil {
		if err := zw.Close(); err != nil {
			return err
		}
	}
	return f.Commit()
}

// AllocWriter records allocations as they happen, in Godwit's CSV. Safe for
// concurrent use; nothing is allocated per record. Times count from its
// making. The first write error stops it and is returned by Flush.
type AllocWriter struct {
	start time.Time // immutable

	mu   sync.Mutex
	w    *bufio.Writer // protected by mu
	line []byte        // protected by mu: scratch
}

// NewAllocWriter starts a recording on w. The caller keeps w and closes it
// after Flush.
func NewAllocWriter(w io.Writer) *AllocWriter {
	a := &AllocWriter{start: time.Now(), w: bufio.NewWriterSize(w, 1<<16)}
	_, _ = a.w.WriteString(godwitHeader + "\n") // kept for Flush
	return a
}

// Alloc records that id, which must not be live, has size bytes.
func (a *AllocWriter) Alloc(id, size uint64) { a.record(OpAlloc, id, size) }

// Free records that id is no longer live. size is its size in bytes.
func (a *AllocWriter) Free(id, size uint64) { a.record(OpFree, id, size) }

func (a *AllocWriter) record(op Op, id, size uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line = appendGodwit(a.line[:0], op, id, size, time.Since(a.start).Microseconds())
	_, _ = a.w.Write(a.line) // kept for Flush
}

// Flush writes what is buffered and returns the recording's first error.
func (a *AllocWriter) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.w.Flush()
}
