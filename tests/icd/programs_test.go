//go:build linux

package icd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// python is Debian's, which has Debian's pyopencl.
const python = "/usr/bin/python3"

func TestClinfoListsThePlatformAndItsDevicesWithoutAWarning(t *testing.T) {
	need(t, "clinfo")
	for _, n := range []int{1, 2, 8} {
		r := on(n).run(t, time.Minute, "", "clinfo")
		require.True(t, r.ok(), "%v", r)
		require.Regexp(t, `Number of platforms\s+1\n`, r.out)
		require.Regexp(t, `Platform Name\s+Godwit\n`, r.out)
		require.Regexp(t, fmt.Sprintf(`Number of devices\s+%d\n`, n), r.out)
		// It puts what a call answers wrongly into angle brackets.
		require.Empty(t, regexp.MustCompile(`(?mi)^.*(warning|error -?[0-9]|<[a-z]+:[0-9]+).*$`).FindAllString(r.out, -1))
		list := on(n).run(t, time.Minute, "", "clinfo", "--list")
		require.True(t, list.ok(), "%v", list)
		require.Equal(t, n, strings.Count(list.out, "Device #"), "%v", list)
	}
}

func TestAListOfDevicesIsAMaskAndAnOrder(t *testing.T) {
	need(t, "clinfo")
	for list, want := range map[string][]string{"1,0": {"cpu1", "cpu0"}, "cpu1": {"cpu1"}, "0,": {"cpu0"}} {
		r := on(1, "GODWIT_DEVICES="+list).run(t, time.Minute, "", "clinfo", "--list")
		require.True(t, r.ok(), "%v", r)
		var got []string
		for _, m := range regexp.MustCompile(`Device #\d+: .*\((\w+)\)`).FindAllStringSubmatch(r.out, -1) {
			got = append(got, m[1])
		}
		require.Equal(t, want, got, list)
	}
	r := on(1, "GODWIT_DEVICES=2,").run(t, time.Minute, "", "clinfo", "--list")
	require.Contains(t, r.out, `godwit: no OpenCL platform: GODWIT_DEVICES=2: no device "2"`)
	require.NotContains(t, r.out, "Device #")
}

func TestPythonProgramsComputeWhatNumpyDoes(t *testing.T) {
	need(t, python)
	if !available(python, "-c", "import pyopencl") {
		t.Skip("Debian's python3-pyopencl is not installed; tools/deps --icd installs it")
	}
	scripts := []string{"arrays", "pool", "subbuffers", "svm", "rects", "events"}
	for _, name := range scripts {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s on %d", name, n), func(t *testing.T) {
				r := on(n).run(t, 2*time.Minute, "", python, data(t, name+".py"), "Godwit")
				require.True(t, r.ok(), "%v", r)
				require.Regexp(t, `(?m)^OK$`, r.out)
			})
		}
	}
}

// data is the absolute path of a file in testdata.
func data(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	require.NoError(t, err)
	return path
}

func TestClpeakMeasuresBandwidthAndLatency(t *testing.T) {
	need(t, "clpeak")
	for _, mode := range []string{"--transfer-bandwidth", "--kernel-latency"} { // that of global memory runs on Oclgrind
		r := on(1).run(t, 2*time.Minute, "", "clpeak", mode)
		require.True(t, r.ok(), "%s: %v", mode, r)
		require.Contains(t, r.out, "Platform: Godwit")
		require.Regexp(t, `(?m) : +[0-9]+\.[0-9]+`, r.out)
		require.NotRegexp(t, `(?i)error|fail`, r.out)
	}
}

func TestWrongHandlesAndValuesAreAnsweredWithOpenCLsErrors(t *testing.T) {
	r := on(2).run(t, time.Minute, "", compile(t, "errors"), "Godwit")
	require.True(t, r.ok(), "%v", r)
	require.Regexp(t, `(?m)^0 of [0-9]{3} calls answered wrongly\nOK$`, r.out)
}

// The programs check what they do by themselves, each on so many devices.
func TestProgramsInCFindWhatOpenCLPromises(t *testing.T) {
	for name, devices := range map[string][]int{
		"objects":  {1, 3},          // who asked is told of the end of objects when they have ended, and in order; what is kept by others lives
		"states":   {1, 2},          // commands say whether they run, and when they did
		"launches": {1, 2},          // short launches among others
		"threads":  {1, 3},          // many threads share a context
		"sigstack": {1, 2, 1, 2, 1}, // signals find a stack whatever threads do to theirs

		"command_buffers":       {1, 2, 4}, // are what their commands are, one by one
		"command_buffers_0_9_0": {1, 2, 4}, // as that version has them
		"command_buffer_errors": {1, 2},    // are refused where they are misused

		"command_buffer_threads": {1, 3}, // by many threads, which release what others use
	} {
		var env []string
		if strings.HasSuffix(name, "0_9_0") {
			env = append(env, commandBuffers)
		}
		for _, n := range devices {
			r := on(n, env...).run(t, time.Minute, "", compile(t, name), "Godwit", strconv.Itoa(n))
			require.True(t, r.ok(), "%s on %d: %v", name, n, r)
			require.Regexp(t, `(?m)^OK$`, r.out, "%s on %d", name, n)
		}
	}
}

// GODWIT_SOAK=1 makes more of them.
func TestRandomCommandBuffersLeaveWhatTheirCommandsDo(t *testing.T) {
	rounds := "60"
	if os.Getenv("GODWIT_SOAK") != "" {
		rounds = "5000"
	}
	for _, n := range []int{1, 2, 4} {
		for seed := range 3 {
			r := on(n).run(t, 10*time.Minute, "", compile(t, "command_buffer_random"), "Godwit", strconv.Itoa(n), strconv.Itoa(seed), rounds)
			require.True(t, r.ok(), "seed %d on %d: %v", seed, n, r)
			require.Regexp(t, `(?m)^OK$`, r.out, "seed %d on %d", seed, n)
		}
	}
}

func TestAProgramKeepsItsSignalHandlers(t *testing.T) {
	for _, n := range []int{1, 2} {
		// An empty cache: LLVM, which has handlers too, compiles.
		r := on(n, "POCL_CACHE_DIR="+t.TempDir()).run(t, time.Minute, "", compile(t, "signals"), "Godwit")
		require.True(t, r.ok(), "%v", r)
	}
}

// Rust gives each thread a signal stack, and takes it away before the thread's last destructors run.
func TestRustProgramsWithThreads(t *testing.T) {
	need(t, "rustc")
	program := filepath.Join(t.TempDir(), "threads")
	text, err := exec.Command("rustc", "--edition", "2021", "-O", "-o", program, filepath.Join("testdata", "threads.rs")).CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, n := range []int{1, 3} {
		r := on(n).run(t, time.Minute, "", program, "Godwit")
		require.True(t, r.ok(), "%v", r)
		require.Regexp(t, `(?m)^OK$`, r.out)
	}
}

func TestAForkedChildEndsAndItsParentGoesOn(t *testing.T) {
	r := on(2).run(t, time.Minute, "", compile(t, "forkchild"), "Godwit")
	require.True(t, r.ok(), "%v", r)
}

// Without leading what others register for exit through ours, ours is registered again after
// what may compile; a program with nothing in flight ends as well as with it.
func TestExitHandlersOfOthersMayBeLeftAlone(t *testing.T) {
	r := on(2, "GODWIT_ATEXIT=off", "POCL_CACHE_DIR="+t.TempDir()).run(t, time.Minute, "", compile(t, "objects"), "Godwit")
	require.True(t, r.ok(), "%v", r)
	require.Regexp(t, `(?m)^OK$`, r.out)
}

// TestAProgramMayEndWithWorkInFlight starts and ends programs, several at a time: a
// few here, a thousand and more with GODWIT_SOAK=1. Every second one finds its kernels
// in a cache, so that they run while it ends; the others' are compiled meanwhile.
func TestAProgramMayEndWithWorkInFlight(t *testing.T) {
	ways := []string{"exit", "return", "building", "gated", "callback", "thread", "stranger", "quick", "now"}
	each := 2
	if os.Getenv("GODWIT_SOAK") != "" {
		each = 1000/len(ways) + 1
	}
	prog := compile(t, "inflight")
	cache := t.TempDir()
	for _, how := range ways {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			crashed, hung := 0, 0
			for i := range each {
				r := on(1+i/2%3, "POCL_CACHE_DIR="+cache).run(t, 2*time.Minute, "", prog, how, strconv.Itoa(i%2), "Godwit")
				switch {
				case strings.HasPrefix(r.why, hangs):
					hung++
				case !r.ok():
					crashed++
				}
				if crashed+hung <= 3 { // one is like the other
					assert.True(t, r.ok(), "time %d: %v", i, r)
					assert.Contains(t, r.out, "in flight")
				}
			}
			t.Logf("%s: %d starts: %d crashed, %d hung", how, each, crashed, hung)
		})
	}
}

// The cases of PoCL's issues 1962 and 1969, and a random walk over views that overlap.
func TestSubBuffersThatOverlapAgreeOnAllDevices(t *testing.T) {
	steps := "300"
	if os.Getenv("GODWIT_SOAK") != "" {
		steps = "100000"
	}
	for _, n := range []int{1, 2, 8} {
		for seed := range 2 {
			r := on(n).run(t, 5*time.Minute, "", compile(t, "overlaps"), "Godwit", "0", steps, strconv.Itoa(seed))
			require.True(t, r.ok(), "%d devices: %v", n, r)
			require.Regexp(t, `(?m)^OK$`, r.out)
		}
	}
}

// The program that crashes in NVIDIA's library (docs/measured.md) runs on Godwit.
func TestOverlappingSubBuffersAreReleasedInAnyOrderBesideCommands(t *testing.T) {
	for _, n := range []int{1, 2} {
		for _, order := range []string{"f", "l", "r"} {
			r := on(n).run(t, time.Minute, "", compile(t, "vendorrace"), "-t", "4", "-n", "200", "-o", order)
			require.True(t, r.ok(), "%d devices, order %s: %v", n, order, r)
			require.Contains(t, r.out, "every word right")
		}
	}
}

func TestFunctionsOfTheProgramRunBetweenKernels(t *testing.T) {
	for _, n := range []int{1, 2} {
		r := on(n).run(t, time.Minute, "", compile(t, "native"), "Godwit")
		require.True(t, r.ok(), "%d devices: %v", n, r)
		require.Regexp(t, `(?m)^OK$`, r.out)
		require.NotContains(t, r.out, "none here", "PoCL has them")
	}
	r := instant(t).run(t, time.Minute, "", compile(t, "native"), "Godwit")
	require.True(t, r.ok(), "%v", r)
	require.Contains(t, r.out, "none here")
}
