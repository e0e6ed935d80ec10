package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestScenarioErrorsNameFileLineAndRule runs testdata/errors and its like: a scenario
// each, and what is reported of it.
func TestScenarioErrorsNameFileLineAndRule(t *testing.T) {
	for _, file := range []string{"testdata/errors", "testdata/errors_objects", "testdata/errors_params", "testdata/errors_form", "testdata/errors_kernels"} {
		datadriven.RunTest(t, file, loadText)
	}
}

func loadText(t *testing.T, d *datadriven.TestData) string {
	require.Equal(t, "load", d.Cmd)
	opt := Options{Inputs: map[string]string{}, Set: map[string]string{}, Limits: map[string]int{"commands": 1000}}
	for _, a := range d.CmdArgs {
		if name, ok := strings.CutPrefix(a.Key, "set."); ok {
			opt.Set[name] = strings.Join(a.Vals, ",")
			continue
		}
		opt.Inputs[a.Key] = a.Vals[0]
	}
	s, err := Parse(t.Context(), "s.yaml", []byte(d.Input), opt)
	if err == nil {
		return fmt.Sprintf("ok: %d commands\n", len(s.Commands))
	}
	var es Errors
	require.ErrorAs(t, err, &es)
	var out strings.Builder
	for _, e := range es {
		require.Equal(t, "s.yaml", e.File)
		require.NotEmpty(t, e.Rule)
		fmt.Fprintln(&out, e)
	}
	return out.String()
}

func TestRepeatsUnrollWithTheirVariables(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(`
let: {n: 64}
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: a, size: n * 8, ramp: uint}]
sub-buffers: [{name: part, of: a, parts: 4}]
commands:
- {fill: a, pattern: 7, queue: d0, id: start}
- repeat: 3
  as: t
  do:
  - repeat: 2
    as: i
    do: [{read: "part{i}", offset: t * 4, size: 4, queue: "d{i}", after: start, id: "r{i}"}]
- {read: a, queue: d1, after: [r0, r1]}
`), Options{})
	require.NoError(t, err)
	require.Len(t, s.Commands, 8)
	c := s.Commands[6] // t = 2, i = 1
	require.Equal(t, "part1", c.Place.Name)
	require.Equal(t, "[136,140)", c.Place.Range.String())
	require.Equal(t, "d1", s.Queues[c.Queue].Device)
	require.Equal(t, []int{0}, c.After)
	require.Equal(t, loop{Line: 8, Start: 1, Round: 2, Rounds: 3}, c.Loop)
	require.Equal(t, []int{5, 6}, s.Commands[7].After, "an id is the last command that had it")
}

func TestARepeatOfNoRoundsMayUseItsVariables(t *testing.T) {
	const chain = `params: {n: {type: integer, default: 3}}
devices: [{name: d, driver: cpu, count: n}]
buffers: [{name: a, size: 4, count: n}]
commands:
- {fill: a0, pattern: 1, queue: d0}
- {repeat: n - 1, as: i, do: [{copy: "a{i}", to: "a{i + 1}", queue: "d{i + 1}"}]}
- {repeat: n > 1, do: [{repeat: n, as: j, do: [{read: "a{j}", queue: "d{j}", after: []}]}]}
`
	for n, commands := range map[string]int{"3": 1 + 2 + 3, "1": 1} {
		s, err := Parse(t.Context(), "s.yaml", []byte(chain), Options{Set: map[string]string{"n": n}})
		require.NoError(t, err, "n=%s", n)
		require.Len(t, s.Commands, commands, "n=%s", n)
	}
}

func TestContent(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("abc"), 0o600))
	for text, want := range map[string]string{
		"fill: 7":            "0707070707070707",
		"fill: {short: -2}":  "fefffefffefffeff",
		"fill: {float: 0.5}": "0000003f0000003f",
		"fill: {hex: 01 02}": "0102010201020102",
		"fill: {double: 1}":  "000000000000f03f",
		"ramp: ushort":       "0000010002000300",
		"file: f":            "6162630000000000",
		"input: in":          "6162630000000000",
	} {
		s, err := Parse(t.Context(), filepath.Join(dir, "s.yaml"), []byte(`
inputs: {in: {default: f}}
devices: [{name: d, driver: cpu}]
buffers: [{name: a, size: 8, `+text+`}]
commands: []
`), Options{})
		require.NoError(t, err, text)
		require.Equal(t, want, fmt.Sprintf("%x", s.Buffers[0].Data.Bytes(8, nil)), text)
	}
}

func TestLoadFailsWhereThereIsNoFile(t *testing.T) {
	_, err := Load(t.Context(), filepath.Join(t.TempDir(), "none.yaml"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	var es Errors
	require.False(t, errors.As(err, &es))
}

// FuzzParse: whatever the text, reading ends, does not panic, and what it
// accepts names only things that are there.
func FuzzParse(f *testing.F) {
	f.Add("devices: [{name: d, driver: cpu}]\nbuffers: [{name: a, size: 8}]\ncommands: [{read: a}]")
	f.Add("devices: &x [{name: d, driver: cpu}]\nbuffers: [{name: a, size: 8, fill: {int: 3}}]\ncommands: [{repeat: 3, as: i, do: [{fill: a, pattern: i}]}]\nexpect: [{buffer: a, fill: 2}]")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") || strings.Contains(text, "inputs") || len(text) > 1<<13 {
			return
		}
		s, err := Parse(t.Context(), "s.yaml", []byte(text), Options{Limits: map[string]int{"commands": 1000}})
		if err != nil {
			require.Nil(t, s)
			return
		}
		for i := range s.Commands {
			requireInside(t, s, i)
		}
		for _, m := range s.Mappings {
			require.Less(t, m.Map, m.Unmap)
			require.Less(t, m.Unmap, len(s.Commands))
		}
		for _, e := range s.Events {
			require.GreaterOrEqual(t, e.Set, 0)
		}
	})
}

// requireInside tests that command i names only what is there.
func requireInside(t *testing.T, s *Scenario, i int) {
	c := &s.Commands[i]
	require.Less(t, c.Queue, len(s.Queues))
	for _, a := range append(c.After, c.Order...) {
		require.Less(t, a, i)
		require.True(t, s.Commands[a].queued())
	}
	places := append([]place{c.Place, c.To}, c.Places...)
	for _, a := range append(c.Args, c.Indirect...) {
		places = append(places, a.Place)
		require.LessOrEqual(t, a.At, a.Place.Range.Size())
	}
	for _, p := range places {
		if p.Name == "" {
			continue
		}
		require.LessOrEqual(t, p.Range.End, s.Buffers[p.Buffer].Size)
		require.False(t, p.Range.Empty())
		if svm := s.Buffers[p.Buffer].SVM; svm != nil && p.View < 0 {
			require.LessOrEqual(t, svm.Born, i)
			require.True(t, svm.Freed < 0 || svm.Freed >= i)
		}
	}
	if c.Rect != nil {
		require.LessOrEqual(t, c.Rect.span(c.Rect.Row, c.Rect.Slice), c.Place.Range.Size())
	}
	_ = s.text(c)
}

// TestTheDocumentedExampleIsAScenario parses the first example of the language's
// reference.
func TestTheDocumentedExampleIsAScenario(t *testing.T) {
	doc, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(doc), "```yaml\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "```")
	s, err := Parse(t.Context(), "../../docs/x.yaml", []byte(text), Options{})
	require.NoError(t, err)
	require.Len(t, s.Devices, 3)
	require.Len(t, s.Views, 3)
}
