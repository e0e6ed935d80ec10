//go:build !windows

package outfile

import (
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// noWait has the opening of a pipe that nobody reads fail.
const noWait = syscall.O_NONBLOCK

type pendingFile = renameio.PendingFile

func newPendingFile(path string) (*pendingFile, error) {
	return renameio.NewPendingFile(path, renameio.WithPermissions(0o666), renameio.WithExistingPermissions(),
		renameio.WithTempDir(filepath.Dir(path)))
}
