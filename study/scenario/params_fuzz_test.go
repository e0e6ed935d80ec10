package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/expr"
)

// FuzzParameters: whatever a scenario, the file that it includes and the values that
// it is given, reading ends: with a scenario, or with errors that name a file and a
// rule. The steps of it are bounded (limits.go), and so are its time and memory on
// every machine. What is described is what is read.
func FuzzParameters(f *testing.F) {
	f.Add(parametric, "", "size", "1 KiB")
	f.Add(parametric, "", "sizes", "[1 KiB, 9")
	f.Add(user, rig, "pairs", "1e18")
	f.Add(user, "include: s.yaml\ndevices: &d [*d]\n", "rig", "../machines/rig")
	f.Add("include: [machines/rig.yaml, machines/rig.yaml, s.yaml]\nlet: {a: &a [*a], b: *a}\n", "params: &p {n: *p}\nlet: {x: y, y: x}", "n", "n")
	f.Add("params: {n: {type: integer, default: n}, l: {type: list, of: string, default: [a, {b: c}]}}\nlet: {x: \"{l}\", l: 3}\ninclude: \"{l}\"", "", "l", "[\"a\", 'b']")
	f.Add("params: {n: {type: integer}}\ninclude: machines/rig.yaml\ndevices: [{name: d, driver: cpu, count: n}]\nbuffers: [{name: a, size: n, count: n, parts: n}]\ncommands: [{repeat: n, do: [{read: \"a{n}\", queue: d0}]}]", rig, "n", "1000000000000000000")
	f.Fuzz(func(t *testing.T, text, included, name, value string) {
		if strings.Contains(text, "file") || strings.Contains(text, "input") || len(text)+len(included) > 1<<13 {
			return
		}
		opt := Options{Set: map[string]string{name: value}, Files: map[string][]byte{"machines/rig.yaml": []byte(included)}, Memory: 16 << 20, Limits: map[string]int{"commands": 1000}}
		s, err := Parse(t.Context(), "s.yaml", []byte(text), opt)
		if err != nil {
			var bad Errors
			require.ErrorAs(t, err, &bad)
			for _, e := range bad {
				require.NotEmpty(t, e.File)
				require.NotEmpty(t, e.Rule)
			}
			return
		}
		d, err := Describe(t.Context(), "s.yaml", []byte(text), opt)
		require.NoError(t, err)
		require.Equal(t, s.Params, d.Params)
		for _, p := range s.Params {
			if p.Type == expr.StringType || p.Type == expr.ListType && p.Of == expr.StringType {
				continue
			}
			again := opt
			again.Set = map[string]string{name: value, p.Name: p.Value}
			same, err := Parse(t.Context(), "s.yaml", []byte(text), again)
			require.NoError(t, err, "%s=%s", p.Name, p.Value)
			require.Equal(t, s.Params, same.Params, "a value is read again as itself")
		}
	})
}
