package outfile

import (
	"errors"
	"os"
	"path/filepath"
)

const noWait = 0 // there are no pipes in folders

// pendingFile is a file that will be at path. Windows replaces a file in one step
// only where nobody has it open; the error says so.
type pendingFile struct {
	*os.File
	path string
}

func newPendingFile(path string) (*pendingFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"*")
	if err != nil {
		return nil, err
	}
	return &pendingFile{f, path}, nil
}

func (f *pendingFile) CloseAtomicallyReplace() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), f.path)
}

func (f *pendingFile) Cleanup() error {
	_ = f.Close() // it may be closed already
	return os.Remove(f.Name())
}
