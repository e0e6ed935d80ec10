package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// ErrTorn is of lines that are no rows of what they were sent for.
var ErrTorn = errors.New("what was sent is no row")

// ErrUnlike are two rows of an index that differ.
var ErrUnlike = errors.New("two rows of one point differ")

// maxLine bounds a line of a journal, in bytes.
const maxLine = 16 << 20

// Line is a line of a journal: a head, which says what the rows are of that follow, or a row.
type Line struct {
	Journal string          `json:"journal,omitempty"` // of a head alone: what the journal is
	Of      string          `json:"sweep,omitempty"`   // of a head: whose rows follow
	At      int             `json:"at"`
	CRC     string          `json:"crc,omitempty"`
	Row     json.RawMessage `json:"row,omitempty"`
}

// castagnoli is of the sums of rows: what a disk or a network has turned is found.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the sum of an index and its row.
func sumOf(at int, row []byte) string {
	sum := crc32.Checksum(strconv.AppendInt(nil, int64(at), 10), castagnoli)
	return fmt.Sprintf("%08x", crc32.Update(sum, castagnoli, row))
}

// Encode is the line of the row of an index.
func Encode(at int, row []byte) []byte {
	out := make([]byte, 0, len(row)+48)
	out = fmt.Appendf(out, "{\"at\":%d,\"crc\":\"%s\",\"row\":", at, sumOf(at, row))
	out = append(out, row...)
	return append(out, "}\n"...)
}

// Decode reads a line; false where it is none, or torn, or its bits have flipped. A line that is another's JSON is a row at -1, without a sum.
func Decode(text []byte) (l Line, ok bool) {
	l.At = -1
	if len(text) > maxLine || json.Unmarshal(text, &l) != nil {
		return l, false
	}
	if l.Journal == "" && l.Row == nil {
		l.Row, l.At = text, -1
		return l, true
	}
	return l, l.Journal != "" || l.CRC == sumOf(l.At, l.Row)
}

// Each calls f with every line of r that is not empty, and its place: where it begins, counted from place on. One without its end is
// not whole: it may be torn, even where it can be read.
func Each(r io.Reader, place int64, f func(text []byte, place int64, whole bool) error) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		text, n, rerr := readLine(lines)
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			if err := f(trimmed, place, rerr == nil); err != nil {
				return err
			}
		}
		if place += n; errors.Is(rerr, io.EOF) {
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}

// readLine reads a line with its end, and of one that is too long more than maxLine bytes,
// but not all: what is read is somebody's file. n is how long the line is. It is valid until the next is read.
func readLine(r *bufio.Reader) (line []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		full := errors.Is(err, bufio.ErrBufferFull)
		if line == nil && !full {
			return part, n, err
		}
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if !full {
			return line, n, err
		}
	}
}
