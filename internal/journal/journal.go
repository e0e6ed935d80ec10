package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// ErrNone is a file that is no journal of the name.
var ErrNone = errors.New("it is no journal of this kind, and is left as it is")

// ErrBusy is a journal that another process has open.
var ErrBusy = errors.New("it is in use")

// ErrChanged is a journal that somebody else has written to, or cut, while it was open.
var ErrChanged = errors.New("somebody else has changed it while it was open: begin again with it; what is whole in it is taken, and the rest made anew")

// File is a journal: rows as they are done, one a line, each written by one call, after a line that says
// whose they are. It is only ever added to: what a killed writer has left torn stays,
// and a new line begins after it. One process has it at a time (on Unix, where the system keeps
// the lock and gives it up with the process). Safe for concurrent use.
type File struct {
	name string // immutable: what heads say that it is
	mu   sync.RWMutex
	f    *os.File // protected by mu
	size int64    // protected by mu
	rows int      // protected by mu: lines that are, or were to be, rows
	kept bool     // protected by mu
}

// Open opens the journal of that name ("godwit sweep") at path, and makes it where there is none. It fails
// with ErrNone where the file is another, and with ErrBusy where another process has it.
// Close must follow.
func Open(path, name string) (*File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNone)
	}
	j, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	j.name = name
	if err := j.look(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), j.f.Close())
	}
	return j, nil
}

// openLocked opens the file at path and locks it. Who has the lock may remove the file before
// it gives it up: then what is there by now is opened.
func openLocked(path string) (*File, error) {
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
			err = fmt.Errorf("%s: %w by process %d", path, ErrBusy, owner)
		case !ok:
			err = fmt.Errorf("%s: %w", path, ErrBusy)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		j := &File{f: f}
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
func (j *File) look() error {
	text, _, err := readLine(bufio.NewReaderSize(io.NewSectionReader(j.f, 0, 1<<20), 1<<16))
	if errors.Is(err, io.EOF) {
		if begun := `{"journal":"` + j.name + `"`; !strings.HasPrefix(begun, string(text[:min(len(text), len(begun))])) {
			return ErrNone
		}
		return j.f.Truncate(0)
	}
	if err != nil {
		return err
	}
	if l, ok := Decode(text); !ok || l.Journal != j.name {
		return ErrNone
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
func (j *File) write(text []byte) error {
	if info, err := j.f.Stat(); err != nil || info.Size() != j.size {
		return errors.Join(fmt.Errorf("%s: %w", j.f.Name(), ErrChanged), err)
	}
	if _, err := j.f.Write(text); err != nil {
		return errors.Join(fmt.Errorf("journal: %w", err), j.f.Truncate(j.size))
	}
	j.size += int64(len(text))
	return nil
}

// Begin says whose the rows are that follow: of a sweep or campaign, with its axes.
func (j *File) Begin(of string, axes any) error {
	text, err := json.Marshal(struct {
		Journal string `json:"journal"`
		Of      string `json:"sweep"`
		Axes    any    `json:"axes,omitempty"`
	}{j.name, of, axes})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.write(append(text, '\n'))
}

// Add writes lines of rows, and returns where they begin.
func (j *File) Add(lines []byte) (place int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	place = j.size
	j.rows++
	return place, j.write(lines)
}

// Size is how long it is, in bytes.
func (j *File) Size() int64 {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.size
}

// ReadAt implements io.ReaderAt.
func (j *File) ReadAt(p []byte, off int64) (int, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.f.ReadAt(p, off)
}

// Sync has all that was added survive the computer. A file that somebody has removed is written again.
func (j *File) Sync() error {
	j.mu.RLock()
	ours, err := j.there()
	j.mu.RUnlock()
	if err == nil && !ours {
		err = j.restore()
	}
	if err != nil {
		return err
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.f.Sync()
}

// restore writes what the file has, which is open and has no name any more, where it was.
func (j *File) restore() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ours, err := j.there(); ours || err != nil { // somebody else has, meanwhile
		return err
	}
	again, err := openLocked(j.f.Name())
	if err != nil {
		return err
	}
	if info, serr := again.f.Stat(); serr != nil || info.Size() > 0 {
		return errors.Join(fmt.Errorf("%s: another file has taken its place: move that away, and what is here is written again", j.f.Name()), serr, again.f.Close())
	}
	if _, err = io.Copy(again.f, io.NewSectionReader(j.f, 0, j.size)); err != nil {
		return errors.Join(fmt.Errorf("%s was removed, and cannot be written again: %w", j.f.Name(), err), again.f.Truncate(0), again.f.Close())
	}
	again.f, j.f = j.f, again.f
	return again.f.Close()
}

// Empty reports whether it has no rows, and nothing that was to be one.
func (j *File) Empty() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rows == 0
}

// Remove removes the file, whose sweep is done, as long as the lock keeps others from it.
// Another's that stands in its place by now stays.
func (j *File) Remove() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ours, err := j.there(); !ours {
		return err
	}
	return os.Remove(j.f.Name())
}

// there reports whether the file is still where it was opened; the caller holds mu, or is alone.
func (j *File) there() (bool, error) {
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
func (j *File) Keep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept = true
}

// Close closes the file. One without a row has nothing to go on from, and is removed.
func (j *File) Close() (err error) {
	if j.Empty() && !j.kept {
		err = j.Remove()
	}
	return errors.Join(err, j.f.Close())
}
