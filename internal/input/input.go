// Package input reads files that somebody else wrote. Whoever reads one says how
// large it may be and under which context, so that no file, whatever it is, makes
// a program wait or grow without end.
//
//   - A file named by a person (a command's argument) may be of any kind: Open.
//     A pipe without a writer is empty, and nobody waits for one to come.
//   - A file named by another file must be a regular one: ReadFile. A scenario
//     has no business with devices, pipes and sockets.
//
// A trace is walked line by line by [Lines], and is told from what it is not by [ErrMalformed].
//
// More bytes than the bound are ErrTooLarge. What stands inside a file has bounds
// of its own, which its reader keeps: see docs/limits.md for all of them.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"godwit/mem"
)

// Errors of this package.
var (
	ErrTooLarge = mem.Sentinel("larger than is read", mem.InvalidValue)
	ErrKind     = mem.Sentinel("not a regular file", mem.InvalidValue)
)

// ReadFile returns the content of the regular file at path, which has at most
// limit bytes.
func ReadFile(ctx context.Context, path string, limit uint64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w", path, ErrKind)
	case uint64(info.Size()) > limit:
		return nil, tooLarge(path, limit)
	}
	return ReadAny(ctx, path, limit)
}

// ReadAny is ReadFile for a file of any kind.
func ReadAny(ctx context.Context, path string, limit uint64) (data []byte, err error) {
	f, err := Open(ctx, path, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}

// Open opens the file at path for reading. Reads fail with ErrTooLarge past
// limit bytes and with ctx's error once that has ended, also one that is waiting.
func Open(ctx context.Context, path string, limit uint64) (io.ReadCloser, error) {
	// Not blocking: opening a pipe does not wait for its writer, and a read of
	// one can be ended by a deadline.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // not of files on a disk, whose reads do not wait
	var r io.Reader = f
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		r = regular{f}
	}
	return &file{limited: limited{ctx: ctx, r: r, name: path, left: limit, limit: limit}, f: f, stop: stop}, nil
}

// patience is how long a regular file may keep its reader waiting: some that the system makes
// up (/proc/kmsg) wait for what comes next, for ever.
const patience = time.Second

// regular is a regular file.
type regular struct{ f *os.File }

func (r regular) Read(p []byte) (int, error) {
	_ = r.f.SetReadDeadline(time.Now().Add(patience)) // files on a disk have none, and do not wait
	n, err := r.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s: it calls itself a regular file and keeps its reader waiting: %w: %w", r.f.Name(), ErrKind, err)
	}
	return n, err
}

type file struct {
	limited
	f    *os.File
	stop func() bool
}

func (f *file) Close() error {
	f.stop()
	return f.f.Close()
}

// limited is a reader with a bound and a context.
type limited struct {
	ctx   context.Context
	r     io.Reader
	name  string
	left  uint64
	limit uint64
}

// Limit bounds what is read from r; name is for errors. Reads fail as those of
// Open do, but for one that is waiting, which only r can end.
func Limit(ctx context.Context, r io.Reader, name string, limit uint64) *limited {
	return &limited{ctx, r, name, limit, limit}
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	if uint64(len(p)) > l.left {
		p = p[:l.left+1] // one more says whether there is more
	}
	n, err := l.r.Read(p)
	if uint64(n) > l.left {
		return int(l.left), tooLarge(l.name, l.limit)
	}
	l.left -= uint64(n)
	if cerr := l.ctx.Err(); cerr != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = cerr
	}
	return n, err
}

func tooLarge(name string, limit uint64) error {
	return fmt.Errorf("%s: more than %d bytes: %w", name, limit, ErrTooLarge)
}
