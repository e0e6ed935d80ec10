// Package browser is what tests that load pages in a browser share.
package browser

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Profile is a folder for a browser's own files. The processes that it has started
// write there for a moment after it has ended, so that to remove the folder may take
// several goes (t.TempDir has one).
func Profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "godwit-browser")
	require.NoError(t, err)
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("left behind: %s", dir)
	})
	return dir
}
