//go:build cgo

package opencl

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// platformNames are those that only quirks.go may know.
var platformNames = regexp.MustCompile(`(?i)pocl|portable computing|nvidia|oclgrind|rusticl|rocm|\bamd|\bintel\b`)

// sources calls f with every file of the driver but tests.
func sources(t *testing.T, f func(path, text string)) {
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		f(path, string(text))
		return err
	}))
}

func TestPlatformsAreNamedInOneFile(t *testing.T) {
	sources(t, func(path, text string) {
		if path != "quirks.go" {
			require.Empty(t, platformNames.FindAllString(text, -1), "%s: say it in quirks.go", path)
		}
	})
}

func TestTheEnvironmentIsReadInOneFile(t *testing.T) {
	reads := regexp.MustCompile(`\b(os\.(Getenv|LookupEnv)|getenv)\(`)
	sources(t, func(path, text string) {
		if path != "options.go" && path != "quirks.go" {
			require.NotRegexp(t, reads, text, path)
		}
	})
}

// Every quirk, and everything that is worked around everywhere, says where it was seen and
// which test holds it, and there is such a test.
func TestEveryQuirkSaysWhereItWasSeenAndIsTested(t *testing.T) {
	tests := make(map[string]bool)
	for _, dir := range []string{".", "internal/ocl", "../../tests/icd", "../../cmd/godwit/internal/cli"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "quirks.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var entries []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if n.Name.Name == "quirks" {
				for _, f := range n.Type.(*ast.StructType).Fields.List {
					entries = append(entries, f.Names[0].Name+": "+f.Doc.Text())
				}
			}
		case *ast.ValueSpec:
			if n.Doc != nil && strings.Contains(n.Doc.Text(), "Seen:") {
				entries = append(entries, n.Doc.Text())
			}
		}
		return true
	})
	last := file.Comments[len(file.Comments)-1].Text()
	require.True(t, strings.HasPrefix(last, "Worked around everywhere:"))
	entries = append(entries, strings.Split(last, "\n  - ")[1:]...)
	require.Greater(t, len(entries), 20)
	said := regexp.MustCompile(`Seen: [A-Za-z]+ [0-9.]+(, [A-Za-z]+ [0-9.]+)*\. Test: (Test\w+)\.`)
	for _, e := range entries {
		e = strings.Join(strings.Fields(e), " ")
		m := said.FindStringSubmatch(e)
		require.NotNil(t, m, "it does not say where it was seen and what tests it: %s", e)
		require.True(t, tests[m[2]], "there is no %s, which is to hold: %s", m[2], e)
	}
}

// The bytes of a write may be another command's until its waits are reached.
func TestAWriteOfBytesThatAreStillToComeTakesThemWhenTheyHave(t *testing.T) {
	for _, early := range []bool{false, true} {
		d := open(t, 1, map[string]string{"direct": "off", "events": "watch"})[0]
		d.host.quirks.takesBytesAtEnqueue = early
		q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
		b, bytes, got := alloc(t, d, 64), make([]byte, 64), make([]byte, 64)
		gate := gateOn(t, q)
		before := events()
		p := run(t, q, write(d, b, 0, bytes), mem.Wait{Point: gate.Point, Kind: mem.Data})
		require.Equal(t, early, events() == before, "OpenCL has it only where it takes the bytes later")
		time.Sleep(time.Millisecond)
		copy(bytes, pattern(64, 1))
		gate.end(t, 0)
		finishPoint(t, q, p)
		finishPoint(t, q, run(t, q, read(d, b, 0, got)))
		require.Equal(t, pattern(64, 1), got)
	}
}
