package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyColoursReachTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain ─ text\tand\nlines": "plain ─ text\tand\nlines",
		"\x1b[31mred\x1b[0m":       "\x1b[31mred\x1b[0m",
		"\x1b[1;38;5;9mred":        "\x1b[1;38;5;9mred",
		"\x1b[2J\x1b]0;title\a":    "␛[2J␛]0;title␇",
		"\x1b":                     "␛",
		"\x1b[":                    "␛[",
		"\x1b[123456789012345678m": "␛[123456789012345678m",
		"a\rb\x7f\x00":             "a␍b␡␀",
		"\u009b2J":                 "\ufffd2J",
		"\x9b2J\xff":               "\ufffd2J\ufffd",
		"\u202eabc":                "\ufffdabc",
		"é\xc3":                    "é\ufffd",
	} {
		for _, step := range []int{1, 2, 3, 100} { // however it is cut into writes
			var b bytes.Buffer
			o := newOutput(&b)
			for at := 0; at < len(in); at += step {
				n, err := o.Write([]byte(in[at:min(at+step, len(in))]))
				require.NoError(t, err)
				require.Equal(t, min(step, len(in)-at), n)
			}
			require.NoError(t, o.close())
			require.Equal(t, want, b.String(), "%q by %d", in, step)
		}
	}
	long := strings.Repeat("é\x1b[1m", 10_000)
	var b bytes.Buffer
	o := newOutput(&b)
	_, err := o.Write([]byte(long))
	require.NoError(t, err)
	require.NoError(t, o.close())
	require.Equal(t, long, b.String())
}

// Output that cannot be written is no success, whatever the verb thinks of it.
func TestAFullDiskIsNoSuccess(t *testing.T) {
	bin := built(t)
	dir := t.TempDir()
	for _, args := range [][]string{
		{"run", example("pingpong")}, {"run", example("pingpong"), "--json"},
		{"devices"}, {"devices", "--json"},
		{"replay", "../../../../testdata/traces/minimalloc/A.1048576.csv", "--repeats", "0", "--strategy", "fit"},
		{"trace", "info", "../../../../testdata/traces/minimalloc/A.1048576.csv"}, {"trace", "info", "--json", "../../../../testdata/traces/minimalloc/A.1048576.csv"},
		{"trace", "convert", "../../../../testdata/traces/minimalloc/A.1048576.csv"},
		{"fuzz", "--evals", "20", "--ops", "20", "--out", dir},
		{"--help"}, {"--version"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("no /dev/full here")
		}
		cmd := exec.CommandContext(t.Context(), bin, args...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		err = cmd.Run()
		require.NoError(t, full.Close())
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%q", args)
		require.Equal(t, exitFailed, exit.ExitCode(), "%q: %s", args, &errs)
		require.Contains(t, errs.String(), "no space left on device")
		require.Equal(t, 1, strings.Count(errs.String(), "no space"), "said once: %s", &errs)
	}
}

// A verb that prints nothing needs no room: a full disk refuses even empty writes.
func TestNothingFitsOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	o := newOutput(full)
	require.NoError(t, o.close())
	_, err = o.Write(nil)
	require.NoError(t, err)
}

func TestNamesOfFilesAreShownAsText(t *testing.T) {
	bin := built(t)
	_, err := exec.CommandContext(t.Context(), bin, "run", "no\x1b[2Jfile.yaml").Output()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit))
	require.NotContains(t, string(exit.Stderr), "\x1b")
	require.Contains(t, string(exit.Stderr), "no␛[2Jfile.yaml")

	text, err := os.ReadFile("../../../../testdata/traces/minimalloc/A.1048576.csv")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "a\x1b[2Jb.csv")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	out, err := exec.CommandContext(t.Context(), bin, "replay", path, "--repeats", "0", "--strategy", "fit").Output()
	require.NoError(t, err)
	require.NotContains(t, string(out), "\x1b")
	require.Contains(t, string(out), "a␛[2Jb")
}
