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

// library is the variable where devices/opencl looks for CUDA's library.
const library = "GODWIT_CUDA_LIBRARY"

// Env is the environment of a program whose OpenCL devices have links by the fake: two of PoCL's, where those are
// meant. A loader, which it builds, has them import windows of the fake, whatever platform they are of.
// GODWIT_SHIM_DRIVER is the driver's version that they say, and where GODWIT_SHIM_CRASHES is set imports crash.
func (f *Fake) Env(t testing.TB) []string {
	t.Helper()
	from := filepath.Join(t.TempDir(), "shim.c")
	loader := filepath.Join(filepath.Dir(from), "libshim.so")
	require.NoError(t, compile(from, shim, loader, "-lOpenCL", "-ldl"))
	return append(os.Environ(), "GODWIT_OPENCL_LIBRARY="+loader, library+"="+f.Library, "GODWIT_NVLINK=on", "POCL_DEVICES=pthread pthread")
}

// Again runs the test again in a process whose OpenCL devices have links by the fake, which it
// returns there. In the first process it returns nil once that has passed.
func Again(t *testing.T) *Fake {
	t.Helper()
	if path := os.Getenv(library); path != "" {
		f, err := Open(path)
		require.NoError(t, err)
		return f
	}
	f, err := Open(t.TempDir())
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m") //nolint:noctx // a test's
	cmd.Env = f.Env(t)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
	return nil
}
