package cli

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Devices that are not there are an error that names what was asked for, however it was asked.
func TestCalibrateSaysWhichDevicesAreNotThere(t *testing.T) {
	for _, args := range [][]string{
		{"--platform", "nowhere"}, {"--set", "platform=nowhere"}, {"--set", "bus=on", "--platform", "nowhere"}, {"--platform", "nowhere", "--set", "bus=on"},
	} {
		_, _, err := godwit(t, append([]string{"calibrate"}, args...)...)
		require.ErrorContains(t, err, "nowhere", "%v", args)
		require.Equal(t, 1, exitCode(new(interrupts), err))
	}
}

// A file that cannot be written is an error before anything is measured.
func TestCalibrateLooksWhetherItCanWriteFirst(t *testing.T) {
	_, told, err := godwit(t, "calibrate", "--driver", "null", "--quick", "-o", filepath.Join(t.TempDir(), "none", "x.yaml"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, told, "of ", "nothing was measured")
}
