package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/icd/tracelog"
)

// execed runs godwit exec with a library that is never opened, since the programs
// here use no OpenCL; tests/icd runs some that do.
func execed(t *testing.T, bin string, args ...string) (out, errs string, code int) {
	t.Helper()
	lib := filepath.Join(t.TempDir(), libraryName)
	require.NoError(t, os.WriteFile(lib, nil, 0o666))
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"exec", "--lib", lib}, args...)...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return o.String(), e.String(), exit.ExitCode()
	}
	require.NoError(t, err)
	return o.String(), e.String(), 0
}

func TestExecTellsTheProgramByItsEnvironmentAndPassesItsExitCodeOn(t *testing.T) {
	bin := built(t)
	out, _, code := execed(t, bin, "--devices", "3", "--backend", "oclgrind", "--trace", "--", "sh", "-c",
		`echo "$GODWIT_DEVICES $GODWIT_BACKEND $GODWIT_TRACE"; test -e "$OCL_ICD_VENDORS" || echo no library; exit 7`)
	require.Equal(t, "3 oclgrind -\n", out)
	require.Equal(t, 7, code)

	dir := t.TempDir()
	file := filepath.Join(dir, "two.yaml")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	out, _, code = execed(t, bin, "--devices", file, "--trace="+filepath.Join(dir, "lines"), "sh", "-c", `echo "$GODWIT_DEVICES $GODWIT_TRACE"`)
	require.Equal(t, file+" "+filepath.Join(dir, "lines")+"\n", out)
	require.Zero(t, code)

	for _, c := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{}, "which program?", 2},
		{[]string{"--devices", "0", "--", "true"}, "at least 1", 2},
		{[]string{"--devices", "nothere.yaml", "--", "true"}, "a number or a file", 2},
		{[]string{"--trace=/nothere/x", "--", "true"}, "--trace", 2},
		{[]string{"--lib", "/nothere", "--", "true"}, "no such file", 2},
		{[]string{"--", "/nothere"}, "no such file", 127},
		{[]string{"--", dir}, "permission denied", 126},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, "ended by signal 9 (killed)", 128 + 9},
		{[]string{"--", "true"}, "made no OpenCL context", 0},
	} {
		_, errs, code := execed(t, bin, c.args...)
		require.Equal(t, c.code, code, "%q: %s", c.args, errs)
		require.Contains(t, errs, c.says, "%q", c.args)
	}
}

func TestExecShowsWhatWasMoved(t *testing.T) {
	bin := built(t)
	want := tracelog.Summary{Commands: 3, Copies: 1, BytesMoved: 4096, LowerBound: 4096, Links: []tracelog.LinkUse{{From: "a", To: "b", Route: "peer", Copies: 1, Bytes: 4096}}}
	text, err := json.Marshal(&want)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(file, text, 0o666))
	script := `cp "$0" "$GODWIT_SUMMARY"; echo out; exit 3`
	out, errs, code := execed(t, bin, "--", "sh", "-c", script, file)
	require.Equal(t, "out\n", out)
	require.Contains(t, errs, "moved 4096 bytes (4 KiB) in 1 copies: the least possible")
	require.Equal(t, 3, code)

	_, errs, _ = execed(t, bin, "--trace", "--", "sh", "-c", script, file)
	require.NotContains(t, errs, "moved 4096", "the library has printed it at the end of its trace")

	out, errs, code = execed(t, bin, "--json", "--", "sh", "-c", script, file)
	var got tracelog.Summary
	require.NoError(t, json.Unmarshal([]byte(out), &got), "%s", out)
	require.Equal(t, want, got)
	require.Contains(t, errs, "out\n")
	require.Equal(t, 3, code)

	out, _, _ = execed(t, bin, "--json", "--", "true")
	require.NotContains(t, out, "null", "lists are lists, empty or not")

	_, errs, code = execed(t, bin, "--", "sh", "-c", `echo nonsense > "$GODWIT_SUMMARY"`)
	require.Contains(t, errs, "cannot be read")
	require.Equal(t, 2, code)
}

func TestExecHandsSignalsOn(t *testing.T) {
	bin := built(t)
	lib := filepath.Join(t.TempDir(), libraryName)
	require.NoError(t, os.WriteFile(lib, nil, 0o666))
	cmd := exec.CommandContext(t.Context(), bin, "exec", "--lib", lib, "--", "sh", "-c", `trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	buf := make([]byte, len("ready\n"))
	_, err = out.Read(buf)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 42, exit.ExitCode())
}
