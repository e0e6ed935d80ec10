//go:build linux

package icd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// instant is Godwit on testdata/instant*.c, a driver whose commands take no time, or as
// long as env says.
func instant(t testing.TB, env ...string) platform {
	t.Helper()
	need(t, "gcc")
	driver := filepath.Join(scratch, "libinstant.so")
	if _, err := os.Stat(driver); err != nil {
		parts, err := filepath.Glob(filepath.Join("testdata", "instant*.c"))
		require.NoError(t, err)
		text, err := exec.Command("gcc", append(parts, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-shared", "-fPIC",
			"-o", driver)...).CombinedOutput()
		require.NoError(t, err, "%s", text)
	}
	return on(1, append([]string{"GODWIT_BACKEND=" + driver}, env...)...)
}

// nvidia makes Godwit treat the driver as NVIDIA's: launches without events of the
// program's have none.
const nvidia = "INSTANT_NAME=NVIDIA, not"

func TestLaunchesThatNobodyAsksAfterEndAllTheSame(t *testing.T) {
	for _, env := range [][]string{{nvidia}, {nvidia, "INSTANT_KERNEL_US=20"}, {}, {"INSTANT_KERNEL_US=20"}} {
		r := instant(t, env...).run(t, time.Minute, "", compile(t, "quiet"), "Godwit")
		require.True(t, r.ok(), "%v: %v", env, r)
		require.Regexp(t, `(?m)^OK$`, r.out)
	}
}

// A compiler that is loaded when it first compiles registers its handlers of exit after ours; a thread still compiles when
// the program exits.
func TestAProgramMayExitWhileACompilerThatWasLoadedLateCompiles(t *testing.T) {
	need(t, "gcc")
	compiler := filepath.Join(scratch, "libcompiler.so")
	text, err := exec.Command("gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", filepath.Join("testdata", "compiler.c"), "-o", compiler).CombinedOutput()
	require.NoError(t, err, "%s", text)
	for i := range 4 {
		r := instant(t, nvidia, "INSTANT_COMPILER="+compiler).run(t, time.Minute, "", compile(t, "inflight"), "building", strconv.Itoa(i%2), "Godwit")
		require.True(t, r.ok(), "time %d: %v", i, r)
	}
}

func TestAFailureOfALaunchThatNobodyAsksAfterIsSeen(t *testing.T) {
	for _, name := range []string{nvidia, "INSTANT_NAME=Instant"} {
		r := instant(t, name, "INSTANT_FAIL=5").run(t, time.Minute, "", compile(t, "quiet"), "Godwit", "fails")
		require.True(t, r.ok(), "%s: %v", name, r)
	}
}

// A sync point passes a failure on, as an event in a wait list does, also where the queue is in order. (Not on NVIDIA's, where
// launches that nobody observes have no events and a kernel that fails takes all later commands with it.)
func TestASyncPointPassesAFailureOn(t *testing.T) {
	r := instant(t, "INSTANT_NAME=Instant", "INSTANT_FAIL=1").run(t, time.Minute, "", compile(t, "command_buffer_fails"), "Godwit")
	require.True(t, r.ok(), "%v", r)
	require.Regexp(t, `(?m)^OK$`, r.out)
}

// BenchmarkOnADriverThatTakesNoTime is what calls cost in Godwit alone: medians of as many runs as
// -benchtime asks for.
func BenchmarkOnADriverThatTakesNoTime(b *testing.B) {
	var runs []figures
	for b.Loop() {
		runs = append(runs, bench(b, instant(b, nvidia), "0.1"))
	}
	for _, name := range []string{"launch_us", "launch_with_args_us", "ndrange_finish_us", "write_4_us", "gated_write_us"} {
		b.ReportMetric(spread(runs, name)[1], name)
	}
}
