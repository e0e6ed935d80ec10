package scenario

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/lib/kernels"
)

// The documentation's table of kernels has them all, with their arguments.
func TestDocumentedKernels(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	for _, name := range kernels.Names() {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_f64"), "_i32")
		var args []string
		for _, a := range kernelNamed(name).Args {
			args = append(args, a.Name)
		}
		want := "`" + base + "(" + strings.Join(args, ", ") + ")`"
		if base == "daxpy" || base == "iaxpy" {
			want = "`" + base + "`"
		}
		require.Contains(t, string(text), want)
	}
}

// The package's comment and docs/scenarios.md have every command and every section.
func TestEveryCommandAndSectionIsDocumented(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	for _, kind := range commandKinds {
		require.Regexp(t, `\b`+kind+`\b`, string(comment), "doc.go")
		require.Contains(t, string(page), "`"+kind, "docs/scenarios.md")
	}
	for _, name := range newLoader(t.Context(), "", Options{}).scope.Functions() {
		require.Contains(t, string(page), "`"+name+"(", "docs/scenarios.md")
	}
	_, err = Parse(t.Context(), "s.yaml", []byte("none: 1"), Options{})
	_, sections, ok := strings.Cut(err.Error(), "known here: ")
	require.True(t, ok, "%v", err)
	sections, _, _ = strings.Cut(sections, "\n")
	for section := range strings.SplitSeq(sections, ", ") {
		require.Regexp(t, `\b`+section+`\b`, string(comment), "doc.go")
	}
}

// One mistake is one error: nothing that only follows from it.
func TestOneMistakeOneError(t *testing.T) {
	const head = "devices: [{name: d, driver: cpu}]\nbuffers: [{name: b, size: 1 KiB}]\n"
	for text, want := range map[string]string{
		head + "commands: [{launch: nope, global: 1, args: [b]}]":                                                   "no such kernel",
		head + "commands: [{read: b}]\nexpect: [{moves: 17}]":                                                       "want one of buffer, moved",
		strings.Replace(head, "1 KiB", "0", 1) + "sub-buffers: [{name: s, of: b, parts: 2}]\ncommands: [{read: b}]": "size is 0",
	} {
		file := t.TempDir() + "/s.yaml"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := Load(t.Context(), file, Options{})
		var bad Errors
		require.ErrorAs(t, err, &bad)
		require.Len(t, bad, 1, "%v", bad)
		require.Contains(t, bad[0].Rule, want)
	}
}

// What the documentation shows of examples is what they are.
func TestDocumentedExamples(t *testing.T) {
	doc, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	for _, name := range []string{"map", "svm"} {
		text, err := os.ReadFile("../../examples/" + name + ".yaml")
		require.NoError(t, err)
		require.Contains(t, string(doc), "```yaml\n"+string(text)+"```\n", name)
	}
}
