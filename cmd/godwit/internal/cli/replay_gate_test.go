package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplayFailsOverALimitOrABaseline(t *testing.T) {
	a, b := traceFile("minimalloc/A.1048576.csv"), traceFile("minimalloc/B.1048576.csv")
	base := filepath.Join(t.TempDir(), "base.json")
	text, _, err := godwit(t, "replay", a, b, "-s", "fit,tight,offline", "--offline-limit", "10ms", "--repeats", "0", "--json")
	require.NoError(t, err)
	write := func(text string) string {
		require.NoError(t, os.WriteFile(base, []byte(text), 0o600))
		return base
	}
	write(text)
	never := filepath.Join(t.TempDir(), "never.csv") // more chunks than pocl-tight can have
	var lines strings.Builder
	lines.WriteString("id,lower,upper,size\n")
	for i := range 1100 {
		lines.WriteString(strings.Repeat("x", i+1) + ",0,9,1\n")
	}
	require.NoError(t, os.WriteFile(never, []byte(lines.String()), 0o600))
	for _, c := range []struct {
		args   []string
		status int // 0, 1 or 2
		want   string
	}{
		{[]string{a, b, "-s", "fit,tight,offline", "--offline-limit", "10ms", "--baseline", base}, 0, "ok   A.1048576, fit: safe 1."},
		{[]string{a, "-s", "fit", "--fail-over", "3"}, 0, "ok   A"},
		{[]string{a, "-s", "fit", "--fail-over", "1.05"}, 1, ": over 1.05"},
		{[]string{a, "-s", "fit,tight", "--baseline", base}, 1, "FAIL B.1048576, tight: in the baseline with alignment 1, and was not run"},
		{[]string{a, b, "-s", "fit,tight,bestfit", "--baseline", base}, 1, "FAIL A.1048576, bestfit"},
		{[]string{a, b, "-s", "fit,tight", "--align", "2", "--baseline", base}, 1, "with alignment 2 not in the baseline"},
		{[]string{a, b, a, "-s", "fit,tight", "--baseline", base}, 1, "run twice"},
		{[]string{a, b, "-s", "fit,tight", "--safe=false", "--baseline", base}, 1, "the baseline has a safe region"},
		{[]string{never, "-s", "pocl-tight", "--fail-over", "1000"}, 1, "never fits"},
		{[]string{a, "-s", "offline", "--offline-limit", "10ms", "--fail-over", "2"}, 2, ""},
		{[]string{a, "--fail-over", "0.9"}, 2, ""},
		{[]string{a, "--fail-over", "NaN"}, 2, ""},
		{[]string{a, "--fail-over", "0"}, 2, ""},
		{[]string{a, "--fail-over", "2", "--region", "1GiB"}, 2, ""},
		{[]string{a, "--baseline", filepath.Join(t.TempDir(), "none")}, 2, ""},
		{[]string{a, "--baseline", a}, 2, ""},
	} {
		out, _, err := godwit(t, append([]string{"replay", "--repeats", "0"}, c.args...)...)
		status := 0
		if err != nil {
			status = 2
			if isFailed(err) {
				status = 1
			}
		}
		assert.Equal(t, c.status, status, "%v: %v", c.args, err)
		assert.Contains(t, out, c.want, "%v", c.args)
	}
	for _, key := range []string{"safe_region", "min_region", "peak_live", "ops"} {
		less := regexp.MustCompile(`"`+key+`": \d+`).ReplaceAllString(text, `"`+key+`": 5`)
		out, _, err := godwit(t, "replay", a, b, "-s", "fit,tight", "--repeats", "0", "--baseline", write(less))
		require.True(t, isFailed(err), "%s: %v", key, err)
		require.Equal(t, 4, strings.Count(out, "FAIL"))
	}
	for _, empty := range []string{`{}`, `{"results":[]}`, `[]`, ``} {
		_, _, err := godwit(t, "replay", a, "--repeats", "0", "--baseline", write(empty))
		require.Error(t, err)
		require.False(t, isFailed(err), "%q is bad usage", empty)
	}
}
