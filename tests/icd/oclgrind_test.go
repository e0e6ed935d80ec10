//go:build linux

package icd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oclgrind, as a driver, is a library of the package.
const oclgrind = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

var (
	// finding is how Oclgrind begins what it tells of reads that it checks.
	finding = regexp.MustCompile(`(?m)^(Uninitialized (value|address) |Controlflow depends on uninit|Instruction depends on an uninit|Invalid (read|write) )|^OCLGRIND FATAL ERROR`)
	inside  = regexp.MustCompile(`(?m)^\tKernel: (\w+)`)
)

// ofImages are PoCL's runtime tests of images.
var ofImages = map[string]bool{"test_buffer-image-copy": true, "test_clGetSupportedImageFormats": true, "test_command_buffer_images": true}

// byKernel counts findings by the kernel they are in.
func byKernel(r result) map[string]int {
	counts := make(map[string]int)
	for _, m := range inside.FindAllStringSubmatch(r.out, -1) {
		counts[m[1]]++
	}
	return counts
}

// checked is Godwit over Oclgrind, which checks for uses of uninitialised bytes and
// tells of every one: bytes that are not migrated are such.
func checked(t testing.TB, n int, env ...string) platform {
	t.Helper()
	needOclgrind(t)
	p := on(n, "GODWIT_BACKEND="+oclgrind, "OCLGRIND_UNINITIALIZED=1", "OCLGRIND_MAX_ERRORS=1000000", "OCLGRIND_COMPUTE_UNITS=2").with(env...)
	p.name += " over Oclgrind"
	return p
}

func needOclgrind(t testing.TB) {
	t.Helper()
	need(t, "oclgrind")
	if _, err := os.Stat(oclgrind); err != nil {
		t.Skip("oclgrind is not installed; tools/deps --icd installs it")
	}
}

// alone runs a program on Oclgrind itself, as its users do.
func alone(t testing.TB, limit time.Duration, dir, program string, args ...string) result {
	t.Helper()
	needOclgrind(t)
	p := platform{name: "plain Oclgrind", part: "Oclgrind", env: []string{"OCLGRIND_MAX_ERRORS=1000000"}}
	return p.run(t, limit, dir, "oclgrind", append([]string{"--uninitialized", program}, args...)...)
}

// requireClean wants a program to end well, with no finding.
func requireClean(t testing.TB, r result) {
	t.Helper()
	require.True(t, r.ok(), "%v", r)
	require.Empty(t, finding.FindAllString(r.out, 3), "%v", r)
}

// soak reports whether there is time for all.
func soak() bool { return os.Getenv("GODWIT_SOAK") != "" }

// devicesChecked are how many devices programs are checked on: with three one may have what two others lack.
var devicesChecked = []int{3}

// TestOclgrindFindsWhatIsUninitialisedAndNothingElse: every case of initialised.c, on one
// device and on two, and what Oclgrind itself makes of them.
func TestOclgrindFindsWhatIsUninitialisedAndNothingElse(t *testing.T) {
	prog := compile(t, "initialised")
	truth := map[string]int{
		"unwritten": 64, "beside_the_rectangle": 32, "copied_unwritten": 32,
		"in_place_of_a_released_one": 64, "sub_buffer_unwritten": 32, "moved_unwritten": 32,
	}
	for _, n := range []int{1, 2} {
		r := checked(t, n).run(t, time.Minute, "", prog, "Godwit")
		require.True(t, r.ok(), "%v", r)
		require.Equal(t, truth, byKernel(r))
	}
}

// TestOclgrindFaultHostStoresReplaceAShadow pins what Godwit goes around
// (devices/opencl/shadow.go): where this fails, Oclgrind has been put right, and
// perhaps Godwit need not any more.
func TestOclgrindFaultHostStoresReplaceAShadow(t *testing.T) {
	r := alone(t, time.Minute, "", compile(t, "initialised"), "Oclgrind")
	require.True(t, r.ok(), "%v", r)
	got := byKernel(r)
	for _, clean := range []string{"written_in_parts", "kernel_then_part", "filled", "copied", "rectangle"} {
		require.NotZero(t, got[clean], "all bytes are initialised: %v", got)
	}
	for _, dirty := range []string{"copied_unwritten", "in_place_of_a_released_one"} {
		require.Zero(t, got[dirty], "none of the bytes are initialised: %v", got)
	}
	require.Equal(t, 64, got["unwritten"], "it does check")
	require.Zero(t, got["written"], "and knows of whole writes")
}

func TestHandedAroundBuffersAreInitialised(t *testing.T) {
	for _, n := range devicesChecked {
		for _, how := range []string{"whole", "parts"} {
			r := checked(t, n).run(t, 2*time.Minute, "", compile(t, "handaround"), "65536", "0", "3", "Godwit", how)
			requireClean(t, r)
			require.Contains(t, r.out, `"verified": true`)
		}
	}
}

// TestOurOtherProgramsUseNothingUninitialised leaves states.c out, whose kernel takes
// long on purpose.
func TestOurOtherProgramsUseNothingUninitialised(t *testing.T) {
	for _, name := range []string{"errors", "objects", "signals", "forkchild"} {
		requireClean(t, checked(t, 2).run(t, 2*time.Minute, "", compile(t, name), "Godwit"))
	}
}

// TestPythonProgramsUseNothingUninitialised leaves svm.py out: Oclgrind 21.10 has no
// shared virtual memory.
func TestPythonProgramsUseNothingUninitialised(t *testing.T) {
	need(t, python)
	if !available(python, "-c", "import pyopencl") {
		t.Skip("Debian's python3-pyopencl is not installed; tools/deps --icd installs it")
	}
	for _, n := range devicesChecked {
		for _, name := range []string{"subbuffers", "rects", "events", "arrays", "pool"} {
			r := checked(t, n).run(t, 10*time.Minute, "", python, data(t, name+".py"), "Godwit")
			requireClean(t, r)
			require.Regexp(t, `(?m)^OK$`, r.out)
		}
	}
}

// TestPoCLsOwnRuntimeTestsUseNothingUninitialised also wants them to pass where they
// pass on Oclgrind itself.
func TestPoCLsOwnRuntimeTestsUseNothingUninitialised(t *testing.T) {
	needPoCLTests(t)
	names, err := poclTests()
	require.NoError(t, err)
	for _, n := range devicesChecked {
		passed := 0
		for _, name := range names {
			p := checked(t, n).with(commandBuffers)
			if name == "test_event_cycle" {
				p = p.with("OCLGRIND_GLOBAL_MEM_SIZE=16777216") // it takes a part of all there is
			}
			why, r := poclTest(t, p, name)
			require.Empty(t, finding.FindAllString(r.out, 3), "%s: %v", name, r)
			switch {
			case why == "":
				passed++
			case ofImages[name]: // its devices say that they have none here
				t.Logf("%s: of images: %s", name, why)
			default:
				dir := filepath.Join(scratch, "pocl", "tests", "runtime")
				base := alone(t, 20*time.Second, dir, filepath.Join(scratch, "pocl", "bin", name))
				require.False(t, base.ok(), "%s passes on Oclgrind and fails on Godwit over it: %s: %v", name, why, r)
				t.Logf("%s fails on Oclgrind too: %s", name, why)
			}
		}
		t.Logf("%d of %d pass on %d devices", passed, len(names), n)
		require.Greater(t, passed, 15)
	}
}

// TestClpeakUsesOnlyItsOwnUninitialisedBytes runs clpeak with small buffers and the first
// and the last work-group of each launch: with all it runs for hours.
func TestClpeakUsesOnlyItsOwnUninitialisedBytes(t *testing.T) {
	need(t, "clpeak")
	small := checked(t, 2, "GODWIT_DEVICE_TYPE=cpu", "OCLGRIND_QUICK=1", "OCLGRIND_MAX_WGSIZE=16", "OCLGRIND_GLOBAL_MEM_SIZE=4194304")
	for _, mode := range []string{"--transfer-bandwidth", "--global-bandwidth"} {
		r := small.run(t, 2*time.Minute, "", "clpeak", "--device", "0", mode)
		requireClean(t, r)
		require.Regexp(t, `(?m) : +[0-9]+\.[0-9]+`, r.out)
	}
	if !soak() {
		return // 70 MB of findings
	}
	// It reads a buffer that it never writes (inputBuf in its kernel_latency.cpp), in
	// 20,002 launches, here of one work-item each.
	r := small.with("OCLGRIND_MAX_WGSIZE=1", "OCLGRIND_COMPUTE_UNITS=1").run(t, 5*time.Minute, "", "clpeak", "--device", "0", "--kernel-latency")
	require.True(t, r.ok(), r.why)
	require.Equal(t, map[string]int{"global_bandwidth_v1_local_offset": 20002}, byKernel(r))
}

// TestOclgrindFaultOptimisedKernels pins two more, for which Godwit has programs built
// without optimisation: the check crashes on sums of vectors, as in clpeak's kernels.
func TestOclgrindFaultOptimisedKernels(t *testing.T) {
	prog := compile(t, "vectors")
	requireClean(t, checked(t, 1).run(t, time.Minute, "", prog, "Godwit"))
	needOclgrind(t)
	run := func(args ...string) error {
		out, err := exec.Command("oclgrind", append(args, prog, "Oclgrind")...).CombinedOutput()
		if err == nil {
			require.True(t, strings.HasSuffix(string(out), "OK\n"), "%s", out)
		}
		return err
	}
	require.Error(t, run("--uninitialized"))
	require.NoError(t, run("--uninitialized", "--build-options", "-cl-opt-disable"))
	require.NoError(t, run())
}
