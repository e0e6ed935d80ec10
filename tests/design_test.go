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

var rewrite = flag.Bool("rewrite", false, "rewrite the table of packages in docs/design.md")

// line is a line of the table: level, package, what it is, what it imports.
var line = regexp.MustCompile(`(?m)^ ([0-9 ])  (\S+) +(.*?)(?: +-> .*)?$`)

// nested reports whether a package is another's own, and not in the table.
func nested(name string) bool {
	return strings.Contains(strings.TrimPrefix(name, "tests/"), "/internal/")
}

// TestTheDesignHasEveryPackageWithWhatItMayImport compares the table of docs/design.md with
// house: what a package is was written by hand, what it may import is from there.
func TestTheDesignHasEveryPackageWithWhatItMayImport(t *testing.T) {
	const path = "../docs/design.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), "## The house\n")
	require.True(t, ok)
	intro, rest, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	table, rest, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)

	missing := make(map[string]bool)
	for name := range house {
		missing[name] = !nested(name)
	}
	var out strings.Builder
	for _, m := range line.FindAllStringSubmatch(table, -1) {
		level, name, what := m[1], m[2], m[3]
		row, ok := house[name]
		require.True(t, ok, "%s is in docs/design.md and not in the table here", name)
		require.True(t, missing[name], "%s twice", name)
		missing[name] = false
		deps := slices.DeleteFunc(strings.Fields(row), func(d string) bool { return nested(d) || d == everything })
		text := fmt.Sprintf(" %s  %-26s %s", level, name, what)
		if len(deps) > 0 {
			text = fmt.Sprintf("%-94s -> %s", text, strings.Join(deps, ", "))
		}
		out.WriteString(text + "\n")
	}
	for name, is := range missing {
		require.False(t, is, "%s is not in docs/design.md", name)
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(head+"## The house\n"+intro+"```\n"+out.String()+"```\n"+rest), 0o644))
		return
	}
	require.Equal(t, out.String(), table, "go test ./tests -run DesignHas -rewrite")
}
