// Package outfile writes files that are either complete or not there: beside the
// place where they will be, and renamed when all is written. A file that was there
// before stays until then, and for ever where the writing is given up.
package outfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"godwit/internal/process"
)

// File is a file being written. Exactly one of Commit and Abort ends it; Abort
// after either does nothing. Not safe for concurrent use.
type File struct {
	*os.File
	pending *pendingFile // nil where the place is no regular file
	done    func()
	ended   bool
}

// Create begins the file at path, with the permissions of the one that is there,
// or 0666 before umask. What is no regular file, such as /dev/stdout or a pipe, is
// written as it is; a pipe that nobody reads is an error. ctx carries the process.Guard that gives the file up where the
// process has to end at once; nothing else of it counts.
func Create(ctx context.Context, path string) (*File, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the link stays
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		flags := os.O_WRONLY
		if info.Mode()&os.ModeNamedPipe != 0 {
			flags |= noWait // for somebody who reads it
		}
		f, err := os.OpenFile(path, flags, 0)
		if errors.Is(err, syscall.ENXIO) && flags&noWait != 0 {
			err = fmt.Errorf("%s: nobody reads this pipe", path)
		}
		if err != nil {
			return nil, err
		}
		return &File{File: f, done: func() {}}, nil
	}
	f := &File{}
	var err error
	f.done, err = process.Of(ctx).Make(func() (func(), error) {
		var err error
		f.pending, err = newPendingFile(path)
		return func() { _ = os.Remove(f.pending.Name()) }, err
	})
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			pe.Path = path // and not the temporary file's
		}
		return nil, err
	}
	f.File = f.pending.File
	return f, nil
}

// Commit puts the file into its place.
func (f *File) Commit() error {
	f.ended = true
	defer f.done()
	if f.pending == nil {
		return f.Close()
	}
	if err := f.pending.CloseAtomicallyReplace(); err != nil {
		return errors.Join(err, f.pending.Cleanup())
	}
	return nil
}

// Abort gives the file up, unless Commit was called.
func (f *File) Abort() error {
	if f.ended {
		return nil
	}
	f.ended = true
	defer f.done()
	if f.pending == nil {
		return f.Close()
	}
	return f.pending.Cleanup()
}

// Write writes data to the file at path; see Create.
func Write(ctx context.Context, path string, data []byte) error {
	return Fill(ctx, path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Fill writes what write does to the file at path; see Create.
func Fill(ctx context.Context, path string, write func(io.Writer) error) (err error) {
	f, err := Create(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Abort()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}
