package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// stdinIs has standard input be a pipe with this content.
func stdinIs(t *testing.T, content []byte) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	go func() {
		_, _ = w.Write(content)
		_ = w.Close()
	}()
	before := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = before
		_ = r.Close()
	})
}

// A trace may come from standard input: it is read as a file is, more than once.
func TestReplayReadsStandardInput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stdinIs(t, []byte("op,id,bytes,time_us\na,1,4096,0\na,2,8192,1\nf,1,,2\n"))
	out, _, err := godwit(t, "replay", "-", "--repeats", "0", "--json", "--strategy", "bestfit")
	require.NoError(t, err)
	require.Contains(t, out, `"trace": "stdin"`)
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, _, err = godwit(t, "replay", "-", "-")
	require.ErrorContains(t, err, "standard input is there twice")
	stdinIs(t, []byte("no trace\n"))
	_, _, err = godwit(t, "replay", "-")
	require.ErrorContains(t, err, "stdin:1: ")
	require.NotContains(t, err.Error(), "godwit-stdin", "the file that it was in")
}

// A command trace from standard input, written by another program's encoder.
func TestReplayReadsACommandTraceFromStandardInput(t *testing.T) {
	stdinIs(t, []byte(`{"version": 1, "godwit": "commands"}
{"context": "1", "memories": [{"name": "host"}, {"name": "x"}]}
{"context": "1", "create": {"id": 1, "size": 64, "content": true}}
{"context": "1", "command": {"op": "read", "queue": 1, "uses": [{"buffer": 1, "memory": 1, "range": [0, 64], "mode": "read"}]}}
`))
	out, _, err := godwit(t, "replay", "-", "--policy", "lru", "--json")
	require.NoError(t, err)
	require.Contains(t, out, `"trace": "stdin"`)
	require.Contains(t, out, `"bytes_moved": 64`)
}
