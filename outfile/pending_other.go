//go:build !windows

package outfile

import (
	"path/filepath"

	"github.com/google/renameio/v2"
)

type pendingFile = renameio.PendingFile

func newPendingFile(path string) (*pendingFile, error) {
	return renameio.NewPendingFile(path, renameio.WithPermissions(0o666), renameio.WithExistingPermissions(),
		renameio.WithTempDir(filepath.Dir(path)))
}
