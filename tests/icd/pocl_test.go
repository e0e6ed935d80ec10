//go:build linux

package icd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// poclSource is where Debian's pocl-source puts PoCL's sources.
const poclSource = "/usr/src/pocl.tar.xz"

// commandBuffers is the version of cl_khr_command_buffer that Debian 12's headers have, and so the tests.
const commandBuffers = "GODWIT_COMMAND_BUFFER=0.9.0"

// mustPrint is what a test must print to pass, besides what exit code it has: from
// PoCL's tests/runtime/CMakeLists.txt.
var mustPrint = map[string]*regexp.Regexp{
	"test_clCreateKernelsInProgram": regexp.MustCompile("Hello\nWorld"),
	"test_clFinish":                 regexp.MustCompile("ABABC|A\nB\nA\nB\nC\n"),
	"test_kernel_cache_includes":    regexp.MustCompile("(?s)function 1.*first include.*function 2.*second include"),
	// These end with exit code 0 whatever they find.
	"test_buffer_migration": regexp.MustCompile(`(?m)^OK$`),
	"test_buffer_ping_pong": regexp.MustCompile(`(?m)^OK$`),
}

// unrunnable are tests that say nothing outside of PoCL's own build tree.
var unrunnable = map[string]string{
	"test_dlopen":  "opens libpocl by a path in PoCL's build tree",
	"test_version": "compares with the version of the PoCL it is built with",
}

// The suite is unpacked and compiled once.
var poclTests = sync.OnceValues(compilePoCL)

// compilePoCL compiles PoCL's runtime tests with its own helper library and
// returns their names; the programs are in scratch/pocl/bin.
func compilePoCL() ([]string, error) {
	root := filepath.Join(scratch, "pocl")
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o777); err != nil {
		return nil, err
	}
	tar := exec.Command("tar", "-C", scratch, "-xf", poclSource, "pocl/tests/runtime", "pocl/poclu", "pocl/include", "pocl/lib/CL", "pocl/config.h.in.cmake")
	if out, err := tar.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", poclSource, err, out)
	}
	// What PoCL's build would generate, as far as its tests use it.
	config := fmt.Sprintf("#define SRCDIR %q\n#define BUILDDIR %q\n#define BUILD_ICD 1\n", root, root)
	if err := os.WriteFile(filepath.Join(bin, "config.h"), []byte(config), 0o666); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bin, "pocl_opencl.h"), []byte("#include <CL/opencl.h>\n#include <poclu.h>\n"), 0o666); err != nil {
		return nil, err
	}
	flags := []string{"-w", "-O1", "-pthread", "-I" + bin, "-I" + filepath.Join(root, "poclu"), "-I" + root, "-DCL_TARGET_OPENCL_VERSION=300"}
	for _, v := range []string{"1_0", "1_1", "1_2", "2_0", "2_1", "2_2"} {
		flags = append(flags, "-DCL_USE_DEPRECATED_OPENCL_"+v+"_APIS")
	}
	sources, err := filepath.Glob(filepath.Join(root, "poclu", "*.c"))
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(bin, "poclu.o")
	if out, err := exec.Command("gcc", append(append(flags, "-r", "-o", lib), sources...)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("PoCL's helper library: %w: %s", err, out)
	}
	tests, err := filepath.Glob(filepath.Join(root, "tests", "runtime", "test_*.c"))
	if err != nil {
		return nil, err
	}
	var names []string
	errs := make(chan error, len(tests))
	slot := make(chan struct{}, runtime.NumCPU())
	for _, src := range tests {
		name := strings.TrimSuffix(filepath.Base(src), ".c")
		if unrunnable[name] != "" {
			continue
		}
		names = append(names, name)
		go func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			out, err := exec.Command("gcc", append(flags, src, lib, "-o", filepath.Join(bin, name), "-lOpenCL", "-ldl", "-lm")...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", name, err, out)
			}
			errs <- err
		}()
	}
	for range names {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return names, err
}

// needPoCLTests skips where they cannot be compiled.
func needPoCLTests(t testing.TB) {
	t.Helper()
	need(t, "gcc", "tar", "xz")
	if _, err := os.Stat(poclSource); err != nil {
		t.Skip("PoCL's sources are not installed; tools/deps --icd installs them")
	}
}

// poclTest runs one of PoCL's tests on p; it passes, or why says why not.
func poclTest(t *testing.T, p platform, name string) (why string, r result) {
	root := filepath.Join(scratch, "pocl")
	r = p.run(t, 60*time.Second, filepath.Join(root, "tests", "runtime"), filepath.Join(root, "bin", name))
	want := mustPrint[name]
	if name == "test_clSetEventCallback" {
		text, err := os.ReadFile(filepath.Join(root, "tests", "runtime", name+"_expout.txt"))
		require.NoError(t, err)
		want = regexp.MustCompile(regexp.QuoteMeta(strings.TrimSpace(string(text))))
	}
	switch {
	case r.why != "":
		return r.why, r
	case r.code == 77:
		return "skipped itself", r
	case r.code != 0:
		return fmt.Sprintf("exit code %d", r.code), r
	case want != nil && !want.MatchString(r.out):
		return "printed something else", r
	}
	return "", r
}

// TestPoCLsOwnRuntimeTestsPassWhereTheyPassOnPoCL runs each test on plain PoCL
// first.
func TestPoCLsOwnRuntimeTestsPassWhereTheyPassOnPoCL(t *testing.T) {
	needPoCLTests(t)
	names, err := poclTests()
	require.NoError(t, err)
	require.Greater(t, len(names), 20)
	for _, n := range []int{3} {
		t.Run(fmt.Sprintf("%d devices", n), func(t *testing.T) {
			passed := 0
			for _, name := range names {
				why, r := poclTest(t, on(n, commandBuffers), name)
				if why == "" {
					passed++
				} else if base, _ := poclTest(t, plain(t, n), name); base != "" {
					t.Logf("%s fails on plain PoCL too: %s", name, base)
				} else {
					t.Errorf("%s passes on plain PoCL and fails on Godwit: %s: %v", name, why, r)
				}
			}
			t.Logf("%d of %d pass", passed, len(names))
		})
	}
}
