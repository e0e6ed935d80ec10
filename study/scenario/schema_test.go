package scenario

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/goccy/go-yaml/ast"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"godwit/internal/mutate"
	"godwit/internal/yaml"
)

// compiled is the schema of scenarios.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("scenario.json", doc))
	s, err := c.Compile("scenario.json")
	require.NoError(t, err)
	return s
}

// jsonOf is what a node stands for, as an editor gives it to a schema.
func (s *source) jsonOf(n ast.Node) any {
	switch v := s.plain(n).(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		return s.jsonOfKeys(v.Values)
	case *ast.MappingValueNode:
		return s.jsonOfKeys([]*ast.MappingValueNode{v})
	case *ast.SequenceNode:
		out := []any{}
		for _, e := range v.Values {
			out = append(out, s.jsonOf(e))
		}
		return out
	case *ast.BoolNode:
		return v.Value
	case *ast.IntegerNode, *ast.FloatNode:
		return json.Number("1")
	case *ast.StringNode:
		return v.Value
	case *ast.LiteralNode:
		return v.Value.Value
	default: // of no kind that the language has
		return map[string]any{"?": nil}
	}
}

func (s *source) jsonOfKeys(keys []*ast.MappingValueNode) any {
	out := make(map[string]any)
	for _, kv := range keys {
		out[yaml.Name(kv)] = s.jsonOf(kv.Value)
	}
	return out
}

// agree holds the loader against the schema: what it takes the schema takes, and
// what it finds wrong in the form of a scenario the schema refuses. It is false where
// there is nothing to compare.
func agree(t testing.TB, schema *jsonschema.Schema, file, text string, opt Options) (compared bool) {
	t.Helper()
	l := newLoader(t.Context(), file, opt)
	l.read([]byte(text))
	shapeFaults := 0
	for _, e := range l.errs {
		if e.File == file {
			shapeFaults = l.shapeFaults
		}
	}
	taken := len(l.errs) == 0
	if !taken && shapeFaults == 0 {
		return false
	}
	all := newLoader(t.Context(), file, opt)
	var doc any
	func() {
		defer recoverBailout()
		doc = all.jsonOf(all.parse([]byte(text), ""))
	}()
	if doc == nil {
		return false // no YAML, or aliases that make much of little
	}
	err := schema.Validate(doc)
	switch {
	case taken:
		require.NoError(t, err, "the loader takes what the schema refuses:\n%s", text)
	case len(l.included) == 0:
		require.Error(t, err, "the schema takes what the loader refuses: %v\n%s", l.errs, text)
	}
	return true
}

func TestTheSchemaTakesEveryExample(t *testing.T) {
	schema := compiled(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "testdata/objects.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, agree(t, schema, file, string(text), Options{}), file)
	}
}

// The scenarios of the documentation, and those with one fault each or several.
func TestTheSchemaRefusesWhatIsOfTheWrongForm(t *testing.T) {
	schema := compiled(t)
	n := 0
	for _, file := range []string{"testdata/errors", "testdata/errors_objects", "testdata/errors_params", "testdata/errors_form"} {
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			opt := Options{Set: map[string]string{}, Inputs: map[string]string{}, Limits: map[string]int{"commands": 1000}}
			for _, a := range d.CmdArgs {
				if name, ok := strings.CutPrefix(a.Key, "set."); ok {
					opt.Set[name] = strings.Join(a.Vals, ",")
					continue
				}
				opt.Inputs[a.Key] = a.Vals[0]
			}
			if agree(t, schema, "s.yaml", d.Input, opt) {
				n++
			}
			return d.Expected
		})
	}
	require.Greater(t, n, 20, "scenarios that were compared")
}

// Damaged examples: the same each time.
func TestTheSchemaAgreesOnDamagedExamples(t *testing.T) {
	schema := compiled(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	compared := 0
	for i := range 400 {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		file := files[r.IntN(len(files))]
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if agree(t, schema, file, mutate.Text(r, string(text)), Options{Memory: 32 << 20, Limits: map[string]int{"commands": 1000}}) {
			compared++
		}
	}
	require.Greater(t, compared, 100)
}

// Every key of every shape is in the documentation.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	require.NoError(t, err)
	for _, s := range shapes() {
		for _, k := range s.keys {
			if s.one {
				continue // types of numbers and layers
			}
			name := strings.TrimPrefix(strings.TrimPrefix(k.name, "to-"), "host-")
			require.True(t, regexp.MustCompile(`\b`+name+`\b`).Match(page), "docs/scenarios.md: %s of a %s", k.name, s.name)
		}
	}
}

// FuzzSchema: the loader and the schema agree, whatever the text.
func FuzzSchema(f *testing.F) {
	f.Add("devices: [{name: d, driver: cpu}]\nbuffers: [{name: a, size: 8}]\ncommands: [{read: a}]")
	f.Add("params: {n: {type: list, of: size, default: [1, 2 KiB], max: 1 MiB}}\ndevices: {name: d, driver: cpu, resources: [pool, {limit: n[1]}]}\nbuffers: [{name: a, size: \"n[1]\", parts: 2}]\ncommands: [{repeat: 0, do: [{fill: a, pattern: {int: 3}}]}]")
	f.Add("devices: &x [{name: d, driver: cpu}]\nlinks: [{between: [d, host], way: ring}]\nsvm: [{name: s, size: 64}]\nbuffers: [{name: w, over: s}]\nevents: e\ncommands: [{set: e}, {free: s, now: true}]\nexpect: [{moved: lower-bound}]")
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") || strings.Contains(text, "input") || strings.Contains(text, "include") || len(text) > 1<<13 {
			return
		}
		agree(t, schema, "s.yaml", text, Options{Limits: map[string]int{"commands": 1000}})
	})
}
