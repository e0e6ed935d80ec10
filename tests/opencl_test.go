package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest = regexp.MustCompile("`([a-z]+)\\.(Test[A-Za-z0-9]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
)

// TestEveryTestThatTheOpenCLTableNamesExists also wants a test in every row.
func TestEveryTestThatTheOpenCLTableNamesExists(t *testing.T) {
	text, err := os.ReadFile("../docs/opencl.md")
	require.NoError(t, err)
	dirs := map[string]string{"metamorphic": "metamorphic", "opencl": "opencl", "svmfault": "../internal/svmfault"}
	have := make(map[string]map[string]bool)
	rows := 0
	for line := range strings.Lines(string(text)) {
		named := namedTest.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| cl") || strings.HasPrefix(line, "| CL_") {
			rows++
			require.NotEmpty(t, named, "a row without a test: %s", line)
		}
		for _, m := range named {
			dir := dirs[m[1]]
			if dir == "" {
				dir = "../" + m[1]
			}
			if have[dir] == nil {
				have[dir] = testsOf(t, dir)
			}
			require.True(t, have[dir][m[2]], "package %s has no test %s", m[1], m[2])
		}
	}
	require.Greater(t, rows, 30)
}

// TestEveryCallThatTheOpenCLTableNamesExists asks go doc.
func TestEveryCallThatTheOpenCLTableNamesExists(t *testing.T) {
	text, err := os.ReadFile("../docs/opencl.md")
	require.NoError(t, err)
	out, err := exec.Command("go", "doc", "-all", "godwit/runtime").Output()
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`(Context|Buffer|Queue|Event)\\.([A-Z][A-Za-z]+)`").FindAllStringSubmatch(string(text), -1) {
		require.Regexp(t, `func \(\w+ \*?`+m[1]+`\) `+m[2]+`\(`, string(out))
	}
}

func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	out := make(map[string]bool)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			out[m[1]] = true
		}
	}
	return out
}
