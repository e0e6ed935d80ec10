package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/icd/tracelog"
)

// stubLibrary is a library that looks like Godwit's from outside.
func stubLibrary(t *testing.T) string {
	t.Helper()
	return libraryOf(t, entryPoint)
}

// libraryOf is a shared library with one function.
func libraryOf(t *testing.T, name string) string {
	t.Helper()
	lib := filepath.Join(t.TempDir(), libraryName)
	gcc := exec.CommandContext(t.Context(), "gcc", "-shared", "-x", "c", "-o", lib, "-")
	gcc.Stdin = strings.NewReader("int " + name + "(void) { return 0; }")
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Skipf("no C compiler for a library: %v %s", err, out)
	}
	return lib
}

// execed runs godwit exec with a library that is never opened, since the programs
// here use no OpenCL; tests/icd runs some that do.
func execed(t *testing.T, bin string, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, append([]string{"exec", "--lib", stubLibrary(t)}, args...)...)
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
	require.NoError(t, os.WriteFile(file, []byte("devices: [{name: a}, {name: b}]"), 0o666))
	out, _, code = execed(t, bin, "--devices", file, "--trace="+filepath.Join(dir, "lines"), "--record", filepath.Join(dir, "commands"), "sh", "-c", `echo "$GODWIT_DEVICES $GODWIT_TRACE $GODWIT_RECORD"`)
	require.Equal(t, file+" "+filepath.Join(dir, "lines")+" "+filepath.Join(dir, "commands")+"\n", out)
	require.Zero(t, code)

	for _, c := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{}, "which program?", 2},
		{[]string{"--devices", "0", "--", "true"}, "1 to 1024", 2},
		{[]string{"--devices", "1025", "--", "true"}, "1 to 1024", 2},
		{[]string{"--devices", "/etc/passwd", "--", "true"}, "/etc/passwd:1: ", 2},
		{[]string{"--devices", "/dev/zero", "--", "true"}, "not a regular file", 2},
		{[]string{"--lib", "/etc/passwd", "--", "true"}, "is no shared library", 2},
		{[]string{"--lib", bin, "--", "true"}, "is not Godwit's library", 2},
		{[]string{"--lib", libraryOf(t, "clGetPlatformIDs"), "--", "true"}, "is not Godwit's library", 2},
		{[]string{"--", "sh", "-c", "exit 200"}, "made no OpenCL context", 200},
		{[]string{"--devices", "nothere.yaml", "--", "true"}, "a number, a list of devices or a file", 2},
		{[]string{"--devices", "0,,1", "--", "true"}, "item 1 of the list is empty", 2},
		{[]string{"--trace=/nothere/x", "--", "true"}, "--trace", 2},
		{[]string{"--record=/nothere/x", "--", "true"}, "--record", 2},
		{[]string{"--lib", "/nothere", "--", "true"}, "no such file", 2},
		{[]string{"--", "/nothere"}, "no such file", 127},
		{[]string{"--", dir}, "permission denied", 126},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, "ended by signal 9 (killed)", 128 + 9},
		{[]string{"--", "true"}, "made no OpenCL context", 0},
	} {
		_, errs, code := execed(t, bin, c.args...)
		require.Equal(t, c.code, code, "%q: %s", c.args, errs)
		require.Contains(t, errs, c.says, "%q", c.args)
		require.NotContains(t, errs, "root:", "what stands in other files is not told")
	}
}

func TestExecShowsWhatWasMoved(t *testing.T) {
	bin := built(t)
	want := tracelog.Summary{Commands: 3, Copies: 1, BytesMoved: 4096, LowerBound: 4096, Links: []tracelog.LinkUse{{From: "a", To: "b", Way: "direct", Copies: 1, Bytes: 4096}}}
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
	cmd := exec.CommandContext(t.Context(), bin, "exec", "--lib", stubLibrary(t), "--", "sh", "-c", `trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done`)
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

// What is in the current directory is not run, unless somebody says so.
func TestExecLoadsOnlyTheLibraryThatIsInstalledOrNamed(t *testing.T) {
	bin, lib := filepath.Join(t.TempDir(), "godwit"), stubLibrary(t)
	require.NoError(t, os.Link(built(t), bin)) // alone in its folder
	here := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(here, "bin"), 0o777))
	planted, err := os.ReadFile(lib)
	require.NoError(t, err)
	for _, path := range []string{libraryName, filepath.Join("bin", libraryName)} {
		require.NoError(t, os.WriteFile(filepath.Join(here, path), planted, 0o777))
	}
	run := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), bin, "exec", "--", "sh", "-c", `echo "$OCL_ICD_VENDORS"`)
		cmd.Dir = here
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	out, err := run("GODWIT_LIB=")
	require.Error(t, err, "loaded %s", out)
	require.Empty(t, out)
	out, err = run("GODWIT_LIB=" + lib)
	require.NoError(t, err)
	require.Equal(t, lib, out)
	beside := filepath.Join(filepath.Dir(bin), libraryName)
	require.NoError(t, os.WriteFile(beside, planted, 0o777))
	out, err = run("GODWIT_LIB=")
	require.NoError(t, err)
	require.Equal(t, beside, out)
}

// The program does not outlive us, even where we are killed outright.
func TestExecsProgramDiesWithUs(t *testing.T) {
	tmp := t.TempDir()
	mark := "GODWIT_TEST_MARK=" + tmp
	cmd := exec.CommandContext(t.Context(), built(t), "exec", "--lib", stubLibrary(t), "--", "sh", "-c", `trap '' INT TERM HUP; echo ready; while :; do sleep 0.05; done`)
	cmd.Env = append(os.Environ(), mark)
	got := send(t, cmd, true, delayed{syscall.SIGKILL, 0})
	require.Equal(t, 128+9, got.code)
	nothingLeft(t, "exec", mark, tmp)
}
