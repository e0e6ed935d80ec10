package scenario

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/expr"
)

const parametric = `name: p
about: with {braces}
params:
  n: {type: integer, default: 2, min: 1, max: 4, about: devices}
  size: {type: size, about: of a buffer}
  sizes: {type: list, of: size, default: [1 KiB, 64]}
  how: {type: string, default: ring, values: [ring, tree]}
let: {half: size / 2}
devices: [{name: d, driver: cpu, count: n}]
buffers: [{name: a, size: size, fill: 3, parts: 2}]
commands:
- {repeat: how == "ring", do: [{read: a1, queue: d0}]}
`

func TestAScenarioIsDescribedWithoutItsValues(t *testing.T) {
	d, err := Describe(t.Context(), "s.yaml", []byte(parametric), Options{})
	require.NoError(t, err)
	require.Equal(t, &Description{Name: "p", About: "with {braces}", Params: []expr.Param{
		{Name: "n", Type: expr.IntegerType, About: "devices", Default: "2", Min: "1", Max: "4", Value: "2", File: "s.yaml", Line: 4},
		{Name: "size", Type: expr.SizeType, About: "of a buffer", Required: true, File: "s.yaml", Line: 5},
		{Name: "sizes", Type: expr.ListType, Of: expr.SizeType, Default: "[1 KiB, 64]", Value: "[1024, 64]", File: "s.yaml", Line: 6},
		{Name: "how", Type: expr.StringType, Default: "ring", Values: []string{"ring", "tree"}, Value: "ring", File: "s.yaml", Line: 7},
	}}, d)
	_, err = Describe(t.Context(), "s.yaml", []byte("params: {n: {type: integer, default: x}}\ndevices: 7"), Options{})
	require.EqualError(t, err, `s.yaml:1: param "n": default "x": no number is named "x"`)
}

// expandedText is what WriteExpanded writes of a scenario.
func expandedText(t *testing.T, file, text string, opt Options) string {
	t.Helper()
	s, err := Parse(t.Context(), file, []byte(text), opt)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, s.WriteExpanded(&out))
	return out.String()
}

func TestScenariosThatRunAlikeAreExpandedAlike(t *testing.T) {
	first := expandedText(t, "s.yaml", parametric, Options{Set: map[string]string{"size": "1 KiB"}})
	alike := expandedText(t, "other/file.yaml", "# other lines\n\n"+parametric, Options{Set: map[string]string{"size": "512 * n", "n": "4 / 2", "sizes": "[1]"}})
	require.Equal(t, first, alike)
	for name, value := range map[string]string{"size": "2 KiB", "n": "3", "how": "tree"} {
		set := map[string]string{"size": "1 KiB"}
		set[name] = value
		require.NotEqual(t, first, expandedText(t, "s.yaml", parametric, Options{Set: set}), name)
	}
	require.NotEqual(t, first, expandedText(t, "s.yaml", parametric, Options{Set: map[string]string{"size": "1 KiB"}, Policy: "lru"}))
}

func TestExpandedContentIsThatOfTheFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a": "one", "b": "one", "c": "two"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	with := func(name string) string {
		return expandedText(t, filepath.Join(dir, "s.yaml"), "devices: [{name: d, driver: cpu}]\nbuffers: [{name: x, file: "+name+"}]\ncommands: []", Options{})
	}
	require.Equal(t, with("a"), with("b"))
	require.NotEqual(t, with("a"), with("c"))
}

// What is set is an expression of what is declared above, and nothing of the
// scenario sets it again.
func TestWhatIsSetOverridesTheDefaultAndNothingElse(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(parametric), Options{Set: map[string]string{"n": "3", "size": "n * 1 KiB", "how": "tree"}})
	require.NoError(t, err)
	var got []string
	for _, p := range s.Params {
		got = append(got, p.Name+"="+p.Value)
	}
	require.Equal(t, []string{"n=3", "size=3072", "sizes=[1024, 64]", "how=tree"}, got)
	require.Len(t, s.Devices, 3)
	require.Empty(t, s.Commands)
	_, err = Parse(t.Context(), "s.yaml", []byte(parametric), Options{Set: map[string]string{"size": "1 KiB", "half": "2"}})
	require.EqualError(t, err, "s.yaml:8: --set half=...: it is computed, under let; what is to be set is declared under params")
}

// TestAParameterLeavesAnotherAlone: one whose default is another list has a list of its own.
func TestAParameterLeavesAnotherAlone(t *testing.T) {
	d, err := Describe(t.Context(), "s.yaml", []byte("params:\n  a: {type: list, of: integer, default: [1, 2]}\n  b: {type: list, of: real, default: a}\n  c: {type: list, of: integer, default: a}"), Options{})
	require.NoError(t, err)
	require.Equal(t, "[1.0, 2.0]", d.Params[1].Value)
	require.Equal(t, "[1, 2]", d.Params[2].Value)
	s, err := Parse(t.Context(), "s.yaml", []byte("params:\n  a: {type: list, of: integer, default: [1, 2]}\n  b: {type: list, of: real, default: a}\ndevices: [{name: l, driver: cpu}]\nbuffers: [{name: \"x{a[0]}\", size: 4}]\ncommands: []"), Options{})
	require.NoError(t, err)
	require.Equal(t, "x1", s.Buffers[0].Name, "an integer, as a says")
}
