//go:build linux

package icd_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/icd/tracelog"
)

// TestGodwitExecShowsWhatAProgramMoved runs the verb itself, with the library
// beside it.
func TestGodwitExecShowsWhatAProgramMoved(t *testing.T) {
	prog := compile(t, "handaround")
	dir := t.TempDir()
	bin := filepath.Join(dir, "godwit")
	cmd := exec.Command("go", "build", "-o", bin, "../../cmd/godwit")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	lib, err := filepath.Abs(library)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(lib, filepath.Join(dir, "libgodwit.so")))

	args := []string{"65536", "2", "4", "Godwit"}
	lines := filepath.Join(dir, "lines")
	cmd = exec.Command(bin, append([]string{"exec", "--devices", "2", "--json", "--trace=" + lines, "--", prog}, args...)...)
	cmd.Env = append(os.Environ(), "POCL_DEVICES=pthread", "GODWIT_LIB=")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", errs.String())
	var s tracelog.Summary
	require.NoError(t, json.Unmarshal(out, &s), "%s", out)
	require.EqualValues(t, leastHanded(65536, 2, 4, 4, false), s.BytesMoved)
	require.Contains(t, errs.String(), `"verified": true`, "the program's own output")

	require.True(t, s.Complete)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd = exec.CommandContext(ctx, bin, append([]string{"exec", "--backend", lib, "--", prog}, args...)...)
	cmd.Env = append(os.Environ(), "GODWIT_LIB=")
	text, err = cmd.CombinedOutput()
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it called itself and waited for ever")
	require.Contains(t, string(text), "is libgodwit.so itself")

	text, err = os.ReadFile(lines)
	require.NoError(t, err)
	require.Contains(t, string(text), "advance launch reads and writes buffer 1 (64 KiB)")
	require.Regexp(t, `(?m)^ +copy buffer 1 \(64 KiB\), .* lacks what #[0-9]+ advance wrote$`, string(text))
	require.Contains(t, string(text), ": the least possible\n")
}
