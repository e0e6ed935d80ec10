//go:build cgo

package opencl

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/opencl/internal/ocl"
)

// oclgrind, as a driver, is a library of its package.
const oclgrind = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

// TestOclgrindConforms runs TestConformance in a process whose OpenCL loader sees
// Oclgrind alone: a platform without threads and locks, see worker.go.
func TestOclgrindConforms(t *testing.T) {
	out := conformance(t, "whole|carved|worker, discrete", "")
	require.Contains(t, out, "--- PASS: TestConformance/whole/Launch/Arguments")
	require.Contains(t, out, "--- PASS: TestConformance/carved/Order/SubmitNeverBlocks")
}

// TestOclgrindConformsWhereItChecks has it check for uninitialised reads meanwhile: all
// that is moved and filled there is initialised. See shadow.go. Histories are left out:
// they copy bytes on purpose that nobody has written.
func TestOclgrindConformsWhereItChecks(t *testing.T) {
	out := conformance(t, "whole", "Histories", "OCLGRIND_UNINITIALIZED=1")
	require.Contains(t, out, "--- PASS: TestConformance/whole/Launch/WritePromisesHold")
	require.NotContains(t, out, "ninitialized ")
	require.NotContains(t, out, "FATAL")
}

// conformance is what TestConformance prints of some cases on Oclgrind, without the one
// named, "" for none.
func conformance(t *testing.T, cases, without string, env ...string) string {
	t.Helper()
	t.Parallel() // with the other processes
	if why := ocl.Missing(); why != "" {
		t.Skip(why)
	}
	if _, err := os.Stat(oclgrind); err != nil {
		t.Skip("oclgrind is not installed; tools/deps --icd installs it")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "oclgrind.icd"), []byte(oclgrind+"\n"), 0o600))
	cmd := exec.Command(os.Args[0], "-test.run=^TestConformance$/^("+cases+")$", "-test.v", "-test.timeout=2m")
	if without != "" {
		cmd.Args = append(cmd.Args, "-test.skip=^TestConformance$/./^"+without+"$")
	}
	cmd.Env = append(append(os.Environ(), "OCL_ICD_VENDORS="+dir, "GODWIT_TEST_PLATFORM=Oclgrind"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
