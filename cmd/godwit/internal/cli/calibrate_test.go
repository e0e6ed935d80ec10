package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// What was asked for is looked at before anything is measured.
func TestCalibrateRefusesWhatThereCannotBe(t *testing.T) {
	for args, want := range map[string]string{
		"--driver nope":             `--driver "nope": there is none of this name; there are cpu, null, opencl, tce`,
		"--driver null --count 513": "--count 513: want 1 to 512",
		"--driver null --count -1":  "--count -1: want 1 to 512",
	} {
		_, told, err := godwit(t, append([]string{"calibrate", "--quick"}, strings.Fields(args)...)...)
		require.EqualError(t, err, want)
		require.Equal(t, 2, exitCode(new(interrupts), err), args)
		require.NotContains(t, told, "of ", "nothing was measured")
	}
}

// Readings make a machine without the devices.
func TestCalibrateFromReadings(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.json")
	require.NoError(t, os.WriteFile(kept, []byte(`{"head": ["Of old."], "groups": [{"name": "gpu", "info": {"type": "gpu"}, "devices": [0]}], "told": {"steps": [1], "enqueue_ns": 1000}, "shapes": [
		{"shape": "wait for what has ended", "slopes_ns": [250, 100, 300]}, {"shape": "create and release a buffer", "slopes_ns": [900]}, {"shape": "of another version", "slopes_ns": [1]}]}`), 0o600))
	out, _, err := godwit(t, "calibrate", "--from", kept)
	require.NoError(t, err)
	require.Contains(t, out, "# Of old.")
	require.Contains(t, out, "poll: 0.25 us # read off, +- ")
	require.NotContains(t, out, "pageable_up:", "nothing was measured of it")
	_, _, err = godwit(t, "calibrate", "--from", judged)
	require.ErrorContains(t, err, "want readings of godwit calibrate")
}

// A file that cannot be written is an error before anything is measured.
func TestCalibrateLooksWhetherItCanWriteFirst(t *testing.T) {
	_, told, err := godwit(t, "calibrate", "--driver", "null", "--quick", "-o", filepath.Join(t.TempDir(), "none", "x.yaml"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, told, "of ", "nothing was measured")
}

// A bound of a scenario's is raised by its name.
func TestLimitsByName(t *testing.T) {
	_, _, err := godwit(t, "run", "--example", "pingpong", "--limit", "commands=1")
	require.ErrorContains(t, err, "more than 1 commands (--limit commands=N)")
	_, _, err = godwit(t, "run", "--example", "pingpong", "--limit", "command=1")
	require.ErrorContains(t, err, "--limit command=1: want a number of commands, devices, items, objects, steps")
	require.Equal(t, 2, exitCode(new(interrupts), err))
}
