package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"
)

// maxRow bounds a line of a journal, in bytes.
const maxRow = 16 << 20

// line is a line of a journal: a head, which says of which sweep the rows are that follow, or a row.
type line struct {
	Journal string          `json:"journal,omitempty"`
	Sweep   string          `json:"sweep,omitempty"`
	Axes    []Axis          `json:"axes,omitempty"`
	At      int             `json:"at"`
	CRC     string          `json:"crc,omitempty"`
	Row     json.RawMessage `json:"row,omitempty"`
}

// journalName is what a head says that a journal is.
const journalName = "godwit sweep"

// castagnoli is of the sums of rows: what a disk or a network has turned is found.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(row []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(row, castagnoli)) }

// EncodeLine is the line of a point's row.
func EncodeLine(at int, row []byte) []byte {
	return fmt.Appendf(nil, "{\"at\":%d,\"crc\":\"%s\",\"row\":%s}\n", at, sumOf(row), row)
}

// brief is what says of a row whether it is one, and of which point.
type brief struct {
	Point    string `json:"point"`
	Error    string `json:"error"`
	Times    string `json:"times"`
	Commands *int   `json:"commands"`
}

// briefly reads that; false where it is no row.
func briefly(row []byte) (b brief, ok bool) {
	return b, json.Unmarshal(row, &b) == nil && b.Point != "" && b.Commands != nil
}

// decodeLine reads a line of a journal, or of results, which have rows alone; false where it is neither, or torn.
func decodeLine(text []byte) (l line, ok bool) {
	l.At = -1
	if len(text) > maxRow || json.Unmarshal(text, &l) != nil {
		return l, false
	}
	switch {
	case l.Journal != "":
		return l, l.Journal == journalName
	case l.Row == nil:
		l.Row, l.At = text, -1
		return l, true
	}
	return l, l.CRC == sumOf(l.Row)
}

// eachLine calls f with every whole line of r that is not empty, and its place: where it begins.
func eachLine(r io.Reader, place int64, f func(text []byte, place int64, whole bool) error) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		text, n, rerr := readLine(lines)
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			if err := f(trimmed, place, rerr == nil); err != nil { // one without its end may be torn, even where it can be read
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

// readLine reads a line with its end, and of one that is too long more than maxRow bytes,
// but not all: what is read is somebody's file. n is how long the line is. It is valid until the next is read.
func readLine(r *bufio.Reader) (line []byte, n int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		full := errors.Is(err, bufio.ErrBufferFull)
		if line == nil && !full {
			return part, n, err
		}
		if len(line) <= maxRow {
			line = append(line, part...)
		}
		if !full {
			return line, n, err
		}
	}
}

// ErrNoJournal is a file that no sweep has begun.
var ErrNoJournal = errors.New("it is no journal of a sweep, and is left as it is")

// ErrBusy is a journal that another sweep has open.
var ErrBusy = errors.New("another sweep is at it")

// Journal keeps rows as they are done, one a line, each written by one call, after a line
// that says of which sweep they are. It is only ever added to: what a killed writer has left torn stays,
// and a new line begins after it. One sweep has it at a time (on Unix, where the system keeps
// the lock and gives it up with the process). Safe for concurrent use.
type Journal struct {
	f    *os.File
	mu   sync.Mutex
	size int64 // protected by mu
	rows int   // protected by mu: lines that are, or were to be, rows
	kept bool  // protected by mu
}

// OpenJournal opens the journal at path, and makes it where there is none. It fails
// with ErrNoJournal where the file is another, and with ErrBusy where another sweep has it.
// Close must follow.
func OpenJournal(path string) (*Journal, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNoJournal)
	}
	j, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	if err := j.look(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), j.f.Close())
	}
	return j, nil
}

// openLocked opens the file at path and locks it. Who has the lock may remove the file before
// it gives it up: then what is there by now is opened.
func openLocked(path string) (*Journal, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return nil, err
		}
		ok, owner, err := lock(f)
		switch {
		case err != nil:
			err = fmt.Errorf("%s: lock: %w", path, err)
		case !ok && owner != 0:
			err = fmt.Errorf("%s: %w: process %d", path, ErrBusy, owner)
		case !ok:
			err = fmt.Errorf("%s: %w", path, ErrBusy)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		j := &Journal{f: f}
		ours, err := j.there()
		if ours {
			return j, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// look says whether it is a journal, and has it end with a whole line. One that was killed as it wrote its
// first line is begun anew.
func (j *Journal) look() error {
	text, _, err := readLine(bufio.NewReaderSize(io.NewSectionReader(j.f, 0, 1<<20), 1<<16))
	if errors.Is(err, io.EOF) {
		if begun := `{"journal":"` + journalName + `"`; !strings.HasPrefix(begun, string(text[:min(len(text), len(begun))])) {
			return ErrNoJournal
		}
		return j.f.Truncate(0)
	}
	if err != nil {
		return err
	}
	if l, ok := decodeLine(text); !ok || l.Journal == "" {
		return ErrNoJournal
	}
	info, err := j.f.Stat()
	if err != nil {
		return err
	}
	j.size, j.rows = info.Size(), 0
	if j.size > int64(len(text)) {
		j.rows = 1
	}
	var last [1]byte
	if _, err = j.f.ReadAt(last[:], j.size-1); err == nil && last[0] != '\n' {
		err = j.write([]byte("\n"))
	}
	return err
}

// write adds to the file; the caller holds mu, or is alone. What could not be written whole is cut off again.
func (j *Journal) write(text []byte) error {
	if _, err := j.f.Write(text); err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), j.f.Truncate(j.size))
	}
	j.size += int64(len(text))
	return nil
}

// begin says that the rows which follow are of a sweep.
func (j *Journal) begin(id string, axes []Axis) error {
	text, err := json.Marshal(struct {
		Journal string `json:"journal"`
		Sweep   string `json:"sweep"`
		Axes    []Axis `json:"axes"`
	}{journalName, id, axes})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(append(text, '\n'))
}

// add writes lines of rows, and returns where they begin.
func (j *Journal) add(lines []byte) (place int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	place = j.size
	j.rows++
	return place, j.write(lines)
}

// Sync has all that was added survive the computer.
func (j *Journal) Sync() error { return j.f.Sync() }

// Empty reports whether it has no rows, and nothing that was to be one.
func (j *Journal) Empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rows == 0
}

// Remove removes the file, whose sweep is done, as long as the lock keeps others from it.
// Another's that stands in its place by now stays.
func (j *Journal) Remove() error {
	if ours, err := j.there(); !ours {
		return err
	}
	return os.Remove(j.f.Name())
}

// there reports whether the file is still where it was opened.
func (j *Journal) there() (bool, error) {
	ours, err := j.f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(j.f.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, there), err
}

// Keep has it stay where it has no row, too: it is all of a shard that has no point.
func (j *Journal) Keep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept = true
}

// Close closes the file. One without a row has nothing to go on from, and is removed.
func (j *Journal) Close() (err error) {
	if j.Empty() && !j.kept {
		err = j.Remove()
	}
	return errors.Join(err, j.f.Close())
}
