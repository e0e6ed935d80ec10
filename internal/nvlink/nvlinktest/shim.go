//go:build cgo

package nvlinktest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/shim.c
var shim []byte

// LibraryEnv is the variable where devices/opencl looks for CUDA's library.
const LibraryEnv = "GODWIT_CUDA_LIBRARY"

// Shim builds, in a folder, an OpenCL loader whose devices import windows of the fake, whatever
// platform they are of. GODWIT_SHIM_DRIVER is the driver's version that they say, and where
// GODWIT_SHIM_CRASHES is set imports crash.
func Shim(t testing.TB, dir string) (path string) {
	t.Helper()
	from, path := filepath.Join(dir, "shim.c"), filepath.Join(dir, "libshim.so")
	require.NoError(t, os.WriteFile(from, shim, 0o600))
	out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", path, from, "-lOpenCL", "-ldl").CombinedOutput() //nolint:noctx // a test's
	require.NoError(t, err, "%s", out)
	return path
}

// Env is the environment of a program whose OpenCL devices have links by the fake: two of PoCL's,
// where those are meant.
func (f *Fake) Env(shim string) []string {
	return append(os.Environ(), "GODWIT_OPENCL_LIBRARY="+shim, LibraryEnv+"="+f.Library, "GODWIT_NVLINK=on", "POCL_DEVICES=pthread pthread")
}

// Again runs the test again in a process whose OpenCL devices have links by the fake, which it
// returns there. In the first process it returns nil once that has passed.
func Again(t *testing.T) *Fake {
	t.Helper()
	if library := os.Getenv(LibraryEnv); library != "" {
		f, err := Load(library)
		require.NoError(t, err)
		return f
	}
	dir := t.TempDir()
	f, err := Build(dir)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m") //nolint:noctx // a test's
	cmd.Env = f.Env(Shim(t, dir))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
	return nil
}
