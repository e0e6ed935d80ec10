package yaml_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/yaml"
)

// Depth is found before the parser is asked, whose memory grows with its square.
func TestDepthIsBounded(t *testing.T) {
	levels := func(n int, text string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", i) + text + "\n")
		}
		return b.String()
	}
	for name, text := range map[string]func(n int) string{
		"lists":          func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		"not closed":     func(n int) string { return strings.Repeat("[", n) },
		"mappings":       func(n int) string { return strings.Repeat("{a: ", n) + "1" + strings.Repeat("}", n) },
		"dashes":         func(n int) string { return strings.Repeat("- ", n) + "a" },
		"block lists":    func(n int) string { return levels(n, "-") },
		"block mappings": func(n int) string { return levels(n, "a:") },
		"keys":           func(n int) string { return strings.Repeat("? ", n) + "a" },
		"tags":           func(n int) string { return strings.Repeat("!!binary ", n) + "a" },
		"anchors":        func(n int) string { return strings.Repeat("&a ", n) + "a" },
		"both":           func(n int) string { return strings.Repeat("- ", n/2) + strings.Repeat("[", n-n/2) },
	} {
		_, err := yaml.Parse("f", []byte(text(64+1)), "")
		require.ErrorContains(t, err, "nested more than 64 deep", name)
		_, err = yaml.Parse("f", []byte(text(1000)), "")
		require.Error(t, err, name)
		_, err = yaml.Parse("f", []byte(text(64)), "")
		if err != nil {
			require.NotContains(t, err.Error(), "nested", name)
		}
	}
}

func TestWhatStandsSideBySideIsNotDeep(t *testing.T) {
	_, err := yaml.Parse("f", []byte("a:\n"+strings.Repeat("  - {b: [1, {c: 2}]}\n  - x: 1\n    yy: {}\n", 1000)), "")
	require.NoError(t, err)
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		_, err = yaml.Parse("f", data, "")
		require.NoError(t, err, f)
	}
}

func TestErrorsNameTheLineAndQuoteNothing(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "f: empty: ",
		"# nothing":               "f: empty: ",
		"a: 1\n---\nb: 2\n":       "f:3: a second document: want one",
		"a: 1\n\xff\n":            "f:2: not YAML: not UTF-8 text",
		"a: 1\nb: \x00\n":         "f:2: not YAML: not UTF-8 text",
		"secret:x:0\n]: secret\n": "",
		"a: [secret\n":            "",
		"a: 'secret\n":            "",
	} {
		_, err := yaml.Parse("f", []byte(text), "")
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret")
		if want != "" {
			require.EqualError(t, err, want)
		}
	}
	n, err := yaml.Parse("f", []byte("\ufeffdevices: []\n"), "")
	require.NoError(t, err, "a byte order mark")
	require.Equal(t, "devices: []", n.String())
	_, err = yaml.Parse("f", []byte(strings.Repeat("#", yaml.MaxBytes+1)), "")
	require.ErrorContains(t, err, "want at most")
}
