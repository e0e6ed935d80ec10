//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const sweptScenario = `
params: {n: {type: integer, default: 2}, size: {type: size, default: 1 KiB}}
devices: [{name: d, driver: cpu, count: 2, memory: 1 MiB}]
buffers: [{name: a, size: size, fill: 1}]
commands:
- {repeat: n, as: i, do: [{launch: scale, queue: "d{i % 2}", global: 16, args: [a, a, {float: 1}, size / 4]}]}
`

// TestTwoSweepsOfOneJournal: the second is told who has it, before it does any work, and
// neither loses a row; one that was killed keeps nobody out.
func TestTwoSweepsOfOneJournal(t *testing.T) {
	bin, dir := built(t), t.TempDir()
	file, out := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "two.csv")
	require.NoError(t, os.WriteFile(file, []byte(sweptScenario), 0o600))
	run := func(more ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), bin, append([]string{"sweep", file, "--set", "n=1..400", "--fast", "--out", out}, more...)...)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "two.rows"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for _, kill := range []bool{true, false} {
		first, before := run("--resume"), size()
		require.NoError(t, first.Start())
		require.Eventually(t, func() bool { return size() > before }, time.Minute, time.Millisecond)
		require.NoError(t, first.Process.Signal(syscall.SIGSTOP)) // it has the lock for as long as we like
		said, err := run("--resume").CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitFailed, exit.ExitCode(), "%s", said)
		require.Contains(t, string(said), fmt.Sprintf("two.rows: it is in use by process %d", first.Process.Pid))
		if kill {
			require.NoError(t, first.Process.Kill())
			require.Error(t, first.Wait())
			continue
		}
		require.NoError(t, first.Process.Signal(syscall.SIGCONT))
		require.NoError(t, first.Wait())
	}
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, 401, bytes.Count(text, []byte("\n")))
	require.NoFileExists(t, filepath.Join(dir, "two.rows"))
}

// TestASweepThatWasKilledGoesOn: killed ten times, after some rows each, now and then with
// the end of its journal torn off, and resumed, a sweep comes to the same bytes as one
// that nobody disturbed.
func TestASweepThatWasKilledGoesOn(t *testing.T) {
	bin, dir := built(t), t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(sweptScenario), 0o600))
	run := func(out string, more ...string) *exec.Cmd {
		args := []string{"sweep", file, "--set", "n=1..40", "--set", "size=1KiB,4KiB,64KiB", "--fast", "--jobs", "2", "--wide",
			"--out", filepath.Join(dir, out+".csv"), "--out", filepath.Join(dir, out+".jsonl")}
		return exec.CommandContext(t.Context(), bin, append(args, more...)...)
	}
	said, err := run("whole").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoFileExists(t, filepath.Join(dir, "whole.rows"))

	rng := rand.New(rand.NewPCG(1, 2))
	journal := filepath.Join(dir, "killed.rows")
	rows := func() int {
		text, err := os.ReadFile(journal)
		if err != nil {
			return 0
		}
		return bytes.Count(text, []byte("\n"))
	}
	killed := 0
	for i := range 10 {
		cmd := run("killed", "--resume")
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for at := rows() + 1 + rng.IntN(16); rows() < at; {
			select {
			case err := <-ended:
				require.NoError(t, err) // it was faster than we
				ended <- nil
				at = 0
			case <-time.After(time.Millisecond):
			}
		}
		_ = cmd.Process.Kill() // it may have ended
		if err := <-ended; err != nil {
			killed++
		}
		if text, err := os.ReadFile(journal); err == nil && i%3 == 0 {
			require.NoError(t, os.WriteFile(journal, text[:len(text)-min(len(text), rng.IntN(300))], 0o600))
		}
	}
	t.Logf("killed %d times, with %d rows of 120 done", killed, rows())
	said, err = run("killed", "--resume").CombinedOutput()
	require.NoError(t, err, "%s", said)
	for _, ext := range []string{".csv", ".jsonl"} {
		want, err := os.ReadFile(filepath.Join(dir, "whole"+ext))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "killed"+ext))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	require.NoFileExists(t, journal)
	said, err = run("killed", "--resume").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "120 points, 120 of them known before")
}

// TestAFuzzThatWasKilledLeavesWhatItFound: SIGKILL loses no more than the last turns.
func TestAFuzzThatWasKilledLeavesWhatItFound(t *testing.T) {
	bin, out := built(t), filepath.Join(t.TempDir(), "found")
	cmd := exec.CommandContext(t.Context(), bin, "fuzz", "-s", "fit,bestfit,tight,goodfit", "--for", "1h", "--ops", "100", "--out", out)
	require.NoError(t, cmd.Start())
	found := func() int {
		entries, _ := os.ReadDir(filepath.Join(out, "corpus", "FuzzStrategies")) // none yet
		return len(entries)
	}
	require.Eventually(t, func() bool { return found() == 4 }, time.Minute, 10*time.Millisecond, "each has had a turn")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.NoError(t, os.WriteFile(filepath.Join(out, "corpus", "FuzzStrategies", ".fit-half"), nil, 0o600), "what was being written when it was killed")
	_, _, err := godwit(t, "fuzz", "-s", "fit", "--evals", "20", "--ops", "100", "--out", out, "--resume")
	require.NoError(t, err, "all files are whole")
}
