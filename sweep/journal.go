package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// Journal keeps rows as they are done, one a line, each written by one call. It is only
// ever added to: what a killed writer has left torn stays, and a new line begins after
// it. Safe for concurrent use.
type Journal struct {
	mu sync.Mutex
	f  *os.File // protected by mu
}

// OpenJournal opens the journal at path, and makes it where there is none. Close must
// follow.
func OpenJournal(path string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	j := &Journal{f: f}
	if err := j.endLine(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// endLine ends a line that was torn.
func (j *Journal) endLine() error {
	info, err := j.f.Stat()
	if err != nil || info.Size() == 0 {
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

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }
