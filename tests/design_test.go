package tests

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the table of packages in docs/design/packages.md")

// tableRow is a row of the table: a package, what it is, what it imports.
var tableRow = regexp.MustCompile("(?m)^\\| `(\\S+)` \\| (.*) \\| (.*) \\|$")

// nested reports whether a package is another's own, and not in the table.
func nested(name string) bool {
	return strings.Contains(strings.TrimPrefix(name, "tests/"), "/internal/")
}

// TestTheDesignHasEveryPackageWithWhatItMayImport compares the table of docs/design/packages.md
// with house: what a package is was written by hand, what it may import is from there.
func TestTheDesignHasEveryPackageWithWhatItMayImport(t *testing.T) {
	const path = "../docs/design/packages.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	missing := make(map[string]bool)
	for name := range house {
		missing[name] = !nested(name)
	}
	want := tableRow.ReplaceAllStringFunc(string(text), func(line string) string {
		m := tableRow.FindStringSubmatch(line)
		imports, ok := house[m[1]]
		require.True(t, ok, "%s is in %s and not in the table here", m[1], path)
		require.True(t, missing[m[1]], "%s twice", m[1])
		missing[m[1]] = false
		deps := slices.DeleteFunc(strings.Fields(imports), func(d string) bool { return nested(d) || d == everything })
		return fmt.Sprintf("| `%s` | %s | %s |", m[1], m[2], strings.Join(deps, ", "))
	})
	for name, is := range missing {
		require.False(t, is, "%s is not in %s", name, path)
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./tests -run DesignHas -rewrite")
}
