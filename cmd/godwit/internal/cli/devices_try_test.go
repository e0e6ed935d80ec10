//go:build cgo

package cli

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/opencl"
	"godwit/internal/nvlink"
	"godwit/internal/nvlink/nvlinktest"
)

// linked is the environment of a program whose OpenCL devices have links, by a fake of CUDA's
// library; the test is skipped where there is no OpenCL.
func linked(t *testing.T, driver string) []string {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if found, err := opencl.Discover(); err != nil || len(found) == 0 {
		t.Skip("no OpenCL device here: ", err)
	}
	fake, err := nvlinktest.Open(t.TempDir())
	require.NoError(t, err)
	return append(fake.Env(t), "GODWIT_SHIM_DRIVER="+driver)
}

// runGodwit runs the program and returns what it says, and its exit code.
func runGodwit(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(built(t), args...)
	cmd.Env = env
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func TestAnUnknownDriverIsUsedOnceItWasTried(t *testing.T) {
	env := linked(t, "777.1")
	out, code := runGodwit(t, env, "devices")
	require.Zero(t, code)
	require.Contains(t, out, "by page-locked host memory; no link: driver 777.1 has never been tried; `godwit devices --try` tries it")

	out, code = runGodwit(t, append(env, "GODWIT_SHIM_CRASHES=1"), "devices", "--try", "--try-most=65536")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "driver 777.1: not to be used (the process ended with signal: aborted in: opening the links, and their first windows, of ")
	out, _ = runGodwit(t, env, "devices")
	require.Contains(t, out, "no link: driver 777.1 has failed (the process ended with signal: aborted")

	out, code = runGodwit(t, env, "devices", "--try", "--try-most=65536")
	require.Zero(t, code, out)
	require.Contains(t, out, "driver 777.1: good")
	out, _ = runGodwit(t, env, "devices")
	require.Contains(t, out, "  0 to 1, 1 to 0: over NVLink\n")
	out, _ = runGodwit(t, env, "devices", "--json")
	require.Contains(t, out, `"way": "over NVLink"`)
}

func TestDevicesSaysWhatALinkLacks(t *testing.T) {
	env := linked(t, "580.159.04")
	out, _ := runGodwit(t, env, "devices")
	require.Contains(t, out, "over NVLink\n")
	out, _ = runGodwit(t, append(env, "GODWIT_FAKE_NO_PEER=1"), "devices")
	require.Contains(t, out, "no link: GPU-02020202-0202-0202-0202-020202020202 and GPU-01010101-0101-0101-0101-010101010101: no NVLink joins the GPUs")
	out, _ = runGodwit(t, append(env, "GODWIT_CUDA_LIBRARY=/none.so"), "devices")
	require.Contains(t, out, "no link: /none.so: cannot open shared object file: No such file or directory: CUDA's driver library cannot be opened")
	out, code := runGodwit(t, append(env, "GODWIT_NVLINK=off"), "devices", "--try")
	require.Equal(t, 1, code)
	require.Contains(t, out, "no platform here has two GPUs that links are for")
}

func TestATrialSaysHowItWent(t *testing.T) {
	if found, err := opencl.Discover(); err != nil || len(found) < 2 {
		t.Skip("two OpenCL devices are needed: ", err)
	}
	fake := nvlinktest.Again(t)
	if fake == nil {
		return
	}
	var steps []string
	try := func() nvlink.Driver {
		d, err := tryLinks(t.Context(), 64<<10, func(step string) { steps = append(steps, step) })
		require.NoError(t, err)
		require.Equal(t, "580.159.04", d.Version)
		require.Contains(t, steps, "2000 hand-overs of 64 KiB")
		return d
	}
	d := try()
	require.True(t, d.Good, "%+v", d)
	require.Contains(t, d.Tried, "2000 hand-overs of 64 KiB")
	require.Empty(t, fake.Violations())
	fake.Fail(500, 1)
	d = try()
	require.False(t, d.Good)
	require.Contains(t, d.Tried, "then: ")
}
