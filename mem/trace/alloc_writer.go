package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// Op is what an allocation event does.
type Op uint8

// The two things that happen to a chunk.
const (
	OpAlloc Op = iota + 1
	OpFree
)

// String is the word used in tables and errors.
func (o Op) String() string {
	switch o {
	case OpAlloc:
		return "alloc"
	case OpFree:
		return "free"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// AllocHeader starts Godwit's own format. `a` allocates an id, `f` frees it;
// an id may be used again once freed. A free repeats its chunk's bytes, or
// leaves them empty.
const AllocHeader = "op,id,bytes,time_us"

// AppendAlloc appends a line of it to b.
func AppendAlloc(b []byte, op Op, id, size uint64, timeUS int64) []byte {
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
	_, _ = a.w.WriteString(AllocHeader + "\n") // kept for Flush
	return a
}

// Alloc records that id, which must not be live, has size bytes.
func (a *AllocWriter) Alloc(id, size uint64) { a.record(OpAlloc, id, size) }

// Free records that id is no longer live. size is its size in bytes.
func (a *AllocWriter) Free(id, size uint64) { a.record(OpFree, id, size) }

func (a *AllocWriter) record(op Op, id, size uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line = AppendAlloc(a.line[:0], op, id, size, time.Since(a.start).Microseconds())
	_, _ = a.w.Write(a.line) // kept for Flush
}

// Flush writes what is buffered and returns the recording's first error.
func (a *AllocWriter) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.w.Flush()
}
