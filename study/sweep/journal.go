package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// maxRow bounds a line of a journal, in bytes.
const maxRow = 16 << 20

// Known are rows that were done before, as JSON, by point.
type Known map[string]json.RawMessage

// Read adds the rows of a journal, or of results as JSON lines. What is no row, such as
// one that was torn when its writer was killed, is left out, and so are points that
// failed: they are tried again. It returns how many lines it has left out, and r's error.
func (k Known) Read(r io.Reader) (dropped int, err error) {
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, rerr := readLine(lines)
		whole := rerr == nil // one without its end may be torn, even where it can be read
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var row Row
			if whole && len(line) <= maxRow && json.Unmarshal(line, &row) == nil && row.Point != "" && row.Digest != nil && row.Error == "" {
				k[row.Point] = line
			} else {
				dropped++
			}
		}
		if errors.Is(rerr, io.EOF) {
			return dropped, nil
		}
		if rerr != nil {
			return dropped, rerr
		}
	}
}

// readLine reads a line with its end, and of one that is too long more than maxRow bytes,
// but not all: what is read is somebody's file.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxRow {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// journalHead is the first line of a journal: nothing else is added to, or removed.
const journalHead = `{"journal":"godwit sweep"}` + "\n"

// ErrNoJournal is a file that no sweep has begun.
var ErrNoJournal = errors.New("it is no journal of a sweep, and is left as it is")

// ErrBusy is a journal that another sweep has open.
var ErrBusy = errors.New("another sweep is at it")

// Journal keeps rows as they are done, one a line, each written by one call, after a line
// that says what it is. It is only ever added to: what a killed writer has left torn stays,
// and a new line begins after it. One sweep has it at a time (on Unix, where the system keeps
// the lock and gives it up with the process). Safe for concurrent use.
type Journal struct {
	mu sync.Mutex
	f  *os.File // protected by mu
}

// OpenJournal opens the journal at path, and makes it where there is none. It adds what is
// known, but for what Known.Read leaves out, and returns how many lines that is. It fails
// with ErrNoJournal where the file is another, and with ErrBusy where another sweep has it.
// Close must follow.
func OpenJournal(path string, known Known) (j *Journal, dropped int, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: %w", path, ErrNoJournal)
	}
	if j, err = openLocked(path); err != nil {
		return nil, 0, err
	}
	if dropped, err = j.resume(known); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", path, err), j.f.Close())
	}
	return j, dropped, nil
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

// resume reads what there is, and has the file end with a whole line.
func (j *Journal) resume(known Known) (dropped int, err error) {
	lines := bufio.NewReaderSize(j.f, 1<<16)
	head, err := readLine(lines)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, err
	case !strings.HasPrefix(journalHead, string(head)):
		return 0, ErrNoJournal
	case len(head) < len(journalHead): // new, or its writer was killed before the end of the line
		_, err = j.f.WriteString(journalHead[len(head):])
		return 0, err
	}
	if dropped, err = known.Read(lines); err != nil {
		return 0, err
	}
	return dropped, j.endLine()
}

// endLine ends a line that was torn; there is one.
func (j *Journal) endLine() error {
	info, err := j.f.Stat()
	if err != nil {
		return err
	}
	var last [1]byte
	if _, err := j.f.ReadAt(last[:], info.Size()-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = j.f.WriteString("\n")
	}
	return err
}

// add writes a row.
func (j *Journal) add(row []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(row[:len(row):len(row)], '\n')); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Empty reports whether it has no rows, and nothing that was to be one.
func (j *Journal) Empty() bool {
	info, err := j.f.Stat()
	return err == nil && info.Size() <= int64(len(journalHead))
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

// Close closes the file. One without a row has nothing to go on from, and is removed.
func (j *Journal) Close() (err error) {
	if j.Empty() {
		err = j.Remove()
	}
	return errors.Join(err, j.f.Close())
}
