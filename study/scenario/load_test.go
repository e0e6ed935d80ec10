package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	opt := Options{Inputs: map[string]string{}, Set: map[string]string{}, limit: 1000}
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

func TestExpressions(t *testing.T) {
	sc := &scope{
		vars: map[string]value{"n": integerOf(10), "half": realOf(0.5), "lag": durationOf(5000), "how": textOf("ring"), "at": {kind: listValue, list: []value{integerOf(3), integerOf(5)}}},
		of: map[string]func(string) (uint64, error){"size": func(name string) (uint64, error) {
			if name != "a" {
				return 0, errors.New("no buffer or sub-buffer above has this name")
			}
			return 4096, nil
		}},
	}
	for text, want := range map[string]string{
		"1 + 2 * 3":                "7",
		"(1 + 2) * 3":              "9",
		"64 KiB":                   "65536",
		"64KiB/2":                  "32768",
		"1.5 MB":                   "1500000",
		"0x40":                     "64",
		"1_000":                    "1000",
		"size(a)/4 - n":            "1014",
		"min(n, 3) + max(n, 3)":    "13",
		"ceil(n, 4)":               "12",
		"-n + 20 % 7":              "-4",
		"10 - 2 - 3":               "5",
		"":                         "ends where a number is wanted",
		"1 +":                      "ends where a number is wanted",
		"m":                        `no number is named "m"`,
		"size(b)":                  "size(b): no buffer or sub-buffer above has this name",
		"sin(1, 2)":                `no function is named "sin"; there are ceil, floor, if, len, log2, max, min, pow, round, size, sqrt, sum; did you mean "min"?`,
		"1 / 0":                    "division by zero",
		"4 lightyears":             `"4lightyears" is not a number of bytes`,
		"(1":                       `')' is missing`,
		"1 2":                      `unexpected "2"`,
		"9223372036854775807 + 1":  "9223372036854775807 + 1 does not fit 63 bits",
		"-9223372036854775807 - 2": "-9223372036854775807 - 2 does not fit 63 bits",
		"4611686018427387904 * 2":  "4611686018427387904 * 2 does not fit 63 bits",
		"16 EiB":                   `"16EiB" is not a number of bytes`,
		strings.Repeat("(", 200):   "nested too deep",
		"ceil(5, 0)":               "ceil(5, 0): rounds a number up to a multiple of a positive one",
		"$":                        `unexpected "$"`,

		"2.5 + 1":                             "3.5",
		"1e3 * half":                          "500.0",
		"1e-3":                                "0.001",
		"3 / 2.0":                             "1.5",
		"7 / 2":                               "3",
		"5 us + 1 ms":                         "1.005ms",
		"lag * 3 / 2":                         "7.5µs",
		"2.5 * lag":                           "12.5µs",
		"lag / 2 us":                          "2.5",
		"lag + 1":                             "5µs + 1: it is not for a duration and an integer",
		"lag * lag":                           "5µs * 5µs: it is not for a duration and a duration",
		"-lag":                                "-5µs",
		"100 s * 1e12":                        "1m40s * 1e+12 does not fit 63 bits",
		"1e308 * 10":                          "1e+308 * 10 is no real number",
		"1 / 0.0":                             "division by zero",
		"9223372036854775808":                 "9223372036854775808 does not fit 63 bits",
		"(-9223372036854775807 - 1) / -1":     "-9223372036854775808 / -1 does not fit 63 bits",
		"(-9223372036854775807 - 1) % -1":     "0",
		"2.5 % 2":                             "2.5 % 2: it is not for a real number and an integer",
		"[1, 2.5, 3 us]":                      "[1, 2.5, 3µs]",
		"[]":                                  "[]",
		"[64 KiB, n][1]":                      "10",
		"at[0] + at[1]":                       "8",
		"at + [7]":                            "[3, 5, 7]",
		"at[2]":                               "element 2 of 2: they count from 0",
		"n[0]":                                "10 is an integer, and has no elements",
		"[at]":                                "a list in a list",
		"len(at) * sum(at)":                   "16",
		"len(n)":                              "len: want a list, not an integer",
		"max(at) - min(at)":                   "2",
		"min([])":                             "min of nothing",
		"max(1, 2.5, 2)":                      "2.5",
		"max(1, lag)":                         "max: 5µs and 1: there is no order of a duration and an integer",
		"floor(2.5) + ceil(2.5) + round(2.5)": "8",
		"log2(1024)":                          "10.0",
		"10m":                                 "10000000",
		"log2(0)":                             "log2(0) is no real number",
		"sqrt(n * n)":                         "10.0",
		"pow(2, 62)":                          "4611686018427387904",
		"pow(2, 64)":                          "4294967296 * 4294967296 does not fit 63 bits",
		"pow(2, half)":                        "1.4142135623730951",
		"pow(2)":                              "pow: 1 argument, it takes 2",
		"ceil(1, 2, 3)":                       "ceil: 3 arguments, it takes 1 or 2",
		"n == 10":                             "1",
		"n < 9.5":                             "0",
		"how == \"ring\"":                     "1",
		"how != 'ring'":                       "0",
		"how == n":                            "ring and 10: there is no order of a text and an integer",
		"if(n > 5, 100, 1 / 0)":               "100",
		"if(how == 'tree', none[1], 2)":       "2",
		"if(n, 1)":                            `',' is missing`,
		"if(how, 1, 2)":                       "want a number, not a text",
		"'ring":                               `'\'' is missing`,
		strings.Repeat("[1,", 200):            "nested too deep",
		"len([" + strings.Repeat("1,", 10_000) + "1])": "lists of more than 10000 elements",
	} {
		v, err := sc.eval(text)
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		require.Equal(t, want, got, text)
	}
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

// Values that stand for themselves are read again as what they are.
func TestValuesAreReadAsTheyAreWritten(t *testing.T) {
	sc := &scope{vars: map[string]value{}}
	for _, v := range []value{integerOf(-3), realOf(2), realOf(-1e300), realOf(0.1), durationOf(1500), durationOf(90 * time.Second),
		{kind: listValue, list: []value{integerOf(1), textOf("a b"), durationOf(1)}}} {
		got, err := sc.eval(v.String())
		if v.kind == durationValue {
			var d time.Duration
			d, err = sc.duration(v.String())
			got = durationOf(d)
		}
		require.NoError(t, err, v)
		require.Equal(t, v, got)
	}
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
		s, err := Parse(t.Context(), "s.yaml", []byte(text), Options{limit: 1000})
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
