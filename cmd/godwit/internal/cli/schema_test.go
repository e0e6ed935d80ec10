package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"godwit/study/scenario"
)

// comments are those of the types of a package and of their fields, from its source.
type comments map[string]string // "Type" and "Type.Field"

var readComments = make(map[string]comments)

// commentsOf reads the comments of a package of this module.
func commentsOf(t testing.TB, pkg string) comments {
	t.Helper()
	if c, ok := readComments[pkg]; ok {
		return c
	}
	c := make(comments)
	readComments[pkg] = c
	dir := filepath.Join("..", "..", "..", "..", strings.TrimPrefix(strings.TrimPrefix(pkg, "godwit"), "/"))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				c.add(d)
			}
		}
	}
	return c
}

func (c comments) add(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		spec := spec.(*ast.TypeSpec)
		c[spec.Name.Name] = oneLine(d.Doc.Text() + spec.Doc.Text())
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				c[spec.Name.Name+"."+name.Name] = oneLine(f.Doc.Text() + " " + f.Comment.Text())
			}
		}
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// schemaOf makes the schema of a verb's output.
func schemaOf(t testing.TB, verb string, value any) *jsonschema.Schema {
	r := jsonschema.Reflector{
		AllowAdditionalProperties: true, // keys may be added in any version
		Anonymous:                 true,
		LookupComment: func(of reflect.Type, field string) string {
			if !strings.HasPrefix(of.PkgPath(), "godwit") {
				return ""
			}
			key := of.Name()
			if field != "" {
				key += "." + field
			}
			return byKeys(of, commentsOf(t, of.PkgPath())[key])
		},
	}
	types := make(map[string]reflect.Type)
	r.Namer = func(of reflect.Type) string {
		types[typeName(of)] = of
		return typeName(of)
	}
	s := r.Reflect(value)
	s.Title = "godwit " + verb + " --json"
	for name, d := range s.Definitions {
		addUnits(t, name, d)
		leaveOut(d, types[name])
		allowNil(d, types[name])
		allowNull(d)
	}
	return s
}

// byKeys is a comment in which fields of a type are named by their keys.
func byKeys(of reflect.Type, comment string) string {
	if of.Kind() != reflect.Struct {
		return comment
	}
	return regexp.MustCompile(`\b(Result\.)?[A-Z]\w*\b`).ReplaceAllStringFunc(comment, func(word string) string {
		f, ok := of.FieldByName(strings.TrimPrefix(word, "Result."))
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !ok || key == "" || key == "-" || strings.EqualFold(word, key) && !strings.Contains(word, ".") {
			return word
		}
		return key
	})
}

// typeName is a type's name in schemas: with its package, since two have a Result.
func typeName(of reflect.Type) string {
	pkg := strings.TrimPrefix(of.PkgPath(), "godwit/")
	for _, prefix := range []string{"cmd/godwit/", "internal/", "study/", "lib/"} {
		pkg = strings.TrimPrefix(pkg, prefix)
	}
	return strings.Trim(strings.ReplaceAll(pkg, "/", ".")+"."+of.Name(), ".")
}

// allowNull allows what encoding/json writes of a nil slice or map that is always there.
func allowNull(s *jsonschema.Schema) {
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		kind := p.Value.Type
		if (kind == "array" || kind == "object") && slices.Contains(s.Required, p.Key) {
			p.Value.Type = ""
			if p.Value.Extras == nil {
				p.Value.Extras = make(map[string]any)
			}
			p.Value.Extras["type"] = []string{kind, "null"}
		}
	}
}

// leaveOut makes optional what comes from embedded pointers, which may be nil.
func leaveOut(s *jsonschema.Schema, of reflect.Type) {
	if of.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(of) {
		through := false
		for i := 1; i < len(f.Index); i++ {
			through = through || of.FieldByIndex(f.Index[:i]).Type.Kind() == reflect.Pointer
		}
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if through && key != "" {
			s.Required = slices.DeleteFunc(s.Required, func(k string) bool { return k == key })
		}
	}
}

// allowNil allows null for pointers that are always there.
func allowNil(s *jsonschema.Schema, of reflect.Type) {
	if of.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(of) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || !slices.Contains(s.Required, key) {
			continue
		}
		p, _ := s.Properties.Get(key)
		if f.Type.Kind() == reflect.Float64 && f.Type.Implements(reflect.TypeFor[json.Marshaler]()) {
			p.Type, p.Extras = "", map[string]any{"type": []string{"number", "null"}}
			continue
		}
		if f.Type.Kind() != reflect.Pointer {
			continue
		}
		s.Properties.Set(key, &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Ref: p.Ref}, {Type: "null"}}, Description: p.Description})
	}
}

// addUnits gives every number of an object its unit.
func addUnits(t testing.TB, where string, s *jsonschema.Schema) {
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		v := p.Value
		for v.Type == "array" || v.Type == "object" && v.AdditionalProperties != nil && v.AdditionalProperties.Type != "" {
			if v.Type == "array" {
				v = v.Items
			} else {
				v = v.AdditionalProperties
			}
		}
		if v.Type != "integer" && v.Type != "number" {
			continue
		}
		unit := unitOf(where, p.Key)
		require.NotEmpty(t, unit, "%s: %s: its name says no unit: add it to units", where, p.Key)
		if v.Extras == nil {
			v.Extras = make(map[string]any)
		}
		v.Extras["x-unit"] = unit
	}
}

// units are found by key, or where keys mean different things by type and key: the
// first rule that matches counts. A count is a number of things, or a position among
// them.
var units = []struct {
	unit string
	keys *regexp.Regexp
}{
	{"bytes, of allocations blocks", regexp.MustCompile(`^scenario\.figure\.`)},
	{"count", regexp.MustCompile(`^alloc\.replay\.BenchRow\.live$|deviceResult\.memory$|DeviceUse\.memory$|\.(warm|repeat|cases|listed|differ|right)$|Summary\.failed$`)},
	{"s", regexp.MustCompile(`^campaign\..*(elapsed|eta|silent)_s$`)},
	{"rows/s", regexp.MustCompile(`rows_per_s$`)},
	{"count", regexp.MustCompile(`^campaign\.|PlanStats\.`)},
	{"none", regexp.MustCompile(`\.(seed|score|score_before_shrinking)$`)},
	{"ratio", regexp.MustCompile(`\.(at_peak|max|mean|best_ratio|ratio|ratio_low|ratio_high|speed|overhead|overhead_max|safe|safe_max|price|robson|hit_rate|busy_share|spread|\w+_spread|\w+_error)$|Case\.error$`)},
	{"percent", regexp.MustCompile(`_percent$`)},
	{"operations/s", regexp.MustCompile(`operations_per_s$`)},
	{"bytes/s", regexp.MustCompile(`bytes_per_s$`)},
	{"ns", regexp.MustCompile(`_ns$|\.ns$|\.ns_per|_ns_per`)},
	{"bytes", regexp.MustCompile(`bytes`)},
	{"bytes", regexp.MustCompile(`\.(align|base_align|dropped|failing_above|free|global_memory|held|ceiling|high_water|largest|largest_free|live|` +
		`local_memory|max_alloc|median|smallest|min_region|moved|offline|offset|peak_live|peak_use|peak_whole|planned|region|ride_along|safe_region|size|written_back)$`)},
	{"count", regexp.MustCompile(`\.(channels|chunks|classes|copies_in|cores|lanes|dispatcher|pilot|program|copies_out|flows|kernels|work_items|thousandths_of_operations|half_powers|modelled_commands|solves|struck|command|commands|compute_units|contexts|copies|counted|cpus|device|ended|enqueued|evals|events|evictions|failed|failed_allocs|shared_with_more|failures|faults|times|` +
		`first_failure|from|index|launches|legs|line|lived_before|max_at|max_work_group|median_life|missing_frees|never_fits|never_freed|number|op|ops|` +
		`ops_before_shrinking|out_of_memory|pairs|peak_at|probes|refused|reps|retries|rounds|scans|sizes|slots|values|period|plain|to|traces|unknown_frees|planned|taken|resized|added|left|found|written_by|zero_sized|heap_allocs_per_pair)$`)},
}

func unitOf(where, key string) string {
	for _, r := range units {
		if r.keys.MatchString(where + "." + key) {
			return r.unit
		}
	}
	return ""
}

// rewriteFlag reports whether the test is to write what it compares. The flag is
// screens_test.go's.
func rewriteFlag() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// same holds a file against what it is to be, or writes it.
func same(t testing.TB, file, want string) {
	t.Helper()
	if rewriteFlag() {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		return
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "go test ./cmd/godwit/internal/cli -run Schemas -rewrite")
}

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	var page strings.Builder
	file := filepath.Join("..", "..", "..", "..", "docs", "json.md")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(text), "\n## ")
	require.True(t, found)
	fmt.Fprintln(&page, head)
	told := make(map[string]bool)
	for _, o := range jsonOutputs {
		s := schemaOf(t, o.verb, o.value)
		out, err := json.MarshalIndent(s, "", " ")
		require.NoError(t, err)
		same(t, schemaFile(schemaName(o.verb)), string(out)+"\n")
		fmt.Fprintf(&page, "## `godwit %s --json`\n\n", o.verb)
		if s.Type == "array" {
			fmt.Fprintf(&page, "A list of %s.\n\n", shortName(s.Items.Ref))
			s.Ref = s.Items.Ref
		}
		if told[s.Ref] {
			fmt.Fprintf(&page, "%s, as above.\n\n", shortName(s.Ref))
		}
		tell(&page, s, s.Ref, told)
	}
	same(t, file, strings.TrimSuffix(page.String(), "\n"))
	files, err := filepath.Glob("schemas/*")
	require.NoError(t, err)
	require.Len(t, files, len(jsonOutputs), "a schema of no verb")
}

// Every verb that prints JSON has a schema.
func TestEveryVerbWithJSONHasASchema(t *testing.T) {
	var verbs func(c *cobra.Command)
	found := 0
	verbs = func(c *cobra.Command) {
		if c.Flags().Lookup("json") != nil {
			found++
			require.Contains(t, schemaNames(), strings.TrimPrefix(c.CommandPath(), "godwit "), "add it to jsonOutputs")
		}
		for _, sub := range c.Commands() {
			verbs(sub)
		}
	}
	verbs(newRoot())
	require.Greater(t, found, 10)
}

const refPrefix = "#/$defs/"

// shortName is the type that a reference is to, without its package.
func shortName(ref string) string { return ref[strings.LastIndexByte(ref, '.')+1:] }

// tell writes a type, and those that it has, for people: each once.
func tell(w *strings.Builder, root *jsonschema.Schema, ref string, told map[string]bool) {
	d := root.Definitions[strings.TrimPrefix(ref, refPrefix)]
	if told[ref] || d == nil || d.Properties == nil {
		return
	}
	told[ref] = true
	about := strings.TrimPrefix(d.Description, shortName(ref)+" ")
	if about == "" {
		about = "has"
	}
	fmt.Fprintf(w, "**%s** %s\n\n| key | type | unit | |\n| --- | --- | --- | --- |\n", shortName(ref), about)
	var more []string
	for p := d.Properties.Oldest(); p != nil; p = p.Next() {
		kind, unit, refs := kindText(p.Value)
		more = append(more, refs...)
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", p.Key, kind, unit, p.Value.Description)
	}
	fmt.Fprintln(w)
	for _, ref := range more {
		tell(w, root, ref, told)
	}
}

// kindText names a type for people.
func kindText(s *jsonschema.Schema) (kind, unit string, refs []string) {
	switch {
	case len(s.OneOf) > 0:
		kind, unit, refs = kindText(s.OneOf[0])
		return kind + " or null", unit, refs
	case s.Ref != "":
		return shortName(s.Ref), "", []string{s.Ref}
	case s.Items != nil:
		kind, unit, refs = kindText(s.Items)
		return "[]" + kind, unit, refs
	case s.AdditionalProperties != nil && s.AdditionalProperties.Type != "":
		kind, unit, refs = kindText(s.AdditionalProperties)
		return "map of " + kind, unit, refs
	}
	unit, _ = s.Extras["x-unit"].(string)
	if s.Type == "" {
		return "map", unit, nil
	}
	return s.Type, unit, nil
}

// strict compiles a verb's schema, without the keys that it allows besides.
func strict(t testing.TB, verb string) *validator.Schema {
	t.Helper()
	text, err := schemaFiles.ReadFile(schemaFile(schemaName(verb)))
	require.NoError(t, err)
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	for _, d := range doc.(map[string]any)["$defs"].(map[string]any) {
		d := d.(map[string]any)
		if d["properties"] != nil {
			d["additionalProperties"] = false
		}
	}
	c := validator.NewCompiler()
	require.NoError(t, c.AddResource("s.json", doc))
	out, err := c.Compile("s.json")
	require.NoError(t, err)
	return out
}

// valid holds JSON against a schema.
func valid(t testing.TB, s *validator.Schema, text []byte) {
	t.Helper()
	v, err := validator.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err, "%s", text)
	require.NoError(t, s.Validate(v), "%.2000s", text)
}

// Values of every type, empty ones and full ones, are what their schema says.
func TestValuesOfEveryOutputAreValid(t *testing.T) {
	for _, o := range jsonOutputs {
		t.Run(o.verb, func(t *testing.T) {
			s := strict(t, o.verb)
			full := reflect.New(reflect.TypeOf(o.value)).Elem()
			fill(full, 0)
			for _, v := range []any{o.value, full.Interface()} {
				text, err := json.Marshal(v)
				require.NoError(t, err)
				if string(text) != "null" {
					valid(t, s, text)
				}
			}
		})
	}
}

// fill gives every part of a value a value of its own.
func fill(v reflect.Value, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(elem, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.String:
		v.SetString("words")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	}
}

// What verbs print is what their schema says. Those that want devices of OpenCL are
// left to TestValuesOfEveryOutputAreValid.
func TestWhatVerbsPrintIsValid(t *testing.T) {
	bin := built(t)
	dir := t.TempDir()
	trace := filepath.Join("..", "..", "..", "..", "examples", "resnet50.csv.gz")
	bad := filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("devices: 7"), 0o600))
	for _, c := range []struct {
		verb string
		args []string
		code int
	}{
		{"run", []string{"--example", "svm", "--stats", "--profile"}, 0},
		{"run", []string{"--example", "matmul-tiles", "--set", "n=3"}, 0},
		{"run", []string{bad}, 2},
		{"run --summary", []string{"--example", "matmul-tiles"}, 0},
		{"sweep", []string{"--example", "matmul-tiles", "--set", "n=2"}, 0},
		{"compare", []string{example("matmul-tiles"), "--set", "n=2,3"}, 0},
		{"compare", []string{example("matmul-tiles"), example("matmul-tiles")}, 0},
		{"compare", []string{"--example", "overlap", "--clock", "measured,modelled", "--machine", "h200-nvlink", "--repeat", "2"}, 0},
		{"run", []string{"--example", "overlap", "--warm", "1", "--repeat", "2"}, 0},
		{"predict", []string{"--example", "overlap", "--machine", "h200-nvlink", "--repeat", "2"}, 0},
		{"devices", nil, 0},
		{"examples", nil, 0},
		{"machines", nil, 0},
		{"machines NAME", nil, 0},
		{"run", []string{"--example", "overlap", "--machine", "h200-nvlink"}, 0},
		{"run", []string{"--example", "overlap", "--machine", "h200-pcie"}, 0},
		{"version", nil, 0},
		{"replay", []string{trace, "-s", "fit,bestfit", "--repeats", "1", "--series", "--pool", "power-of-two"}, 0},
		{"replay", []string{trace, "-s", "fit", "--repeats", "0"}, 0},
		{"trace info", []string{trace}, 0},
		{"fuzz", []string{"--evals", "20", "--ops", "40", "--out", filepath.Join(dir, "found")}, 0},
		{"bench alloc", []string{"--live", "1000", "--pairs", "200", "--rounds", "1", "--pocl", "-", "-s", "fit"}, 0},
	} {
		verb := strings.Fields(strings.ReplaceAll(c.verb, "NAME", "h200-nvlink"))
		cmd := exec.CommandContext(t.Context(), bin, slices.Concat(verb, c.args, []string{"--json"})...)
		cmd.Env = append(os.Environ(), "OCL_ICD_VENDORS="+dir)
		cmd.Dir = "."
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, _ := cmd.Output()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s %q: %s", c.verb, c.args, &stderr)
		valid(t, strict(t, c.verb), out)
	}
}

// A schema refuses what is no output of its verb.
func TestSchemasRefuseOtherThings(t *testing.T) {
	s := strict(t, "version")
	for _, text := range []string{`{}`, `[]`, `{"version": 1}`, `{"versions": "x"}`} {
		v, err := validator.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.Error(t, s.Validate(v), text)
	}
}

func TestTheSchemaVerb(t *testing.T) {
	bin := built(t)
	out, err := exec.CommandContext(t.Context(), bin, "schema", "bench", "alloc").Output()
	require.NoError(t, err)
	want, err := os.ReadFile("schemas/bench-alloc.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(out))
	out, err = exec.CommandContext(t.Context(), bin, "schema", "scenario").Output()
	require.NoError(t, err)
	require.Equal(t, string(scenario.Schema()), string(out))
	out, err = exec.CommandContext(t.Context(), bin, "schema", "rum").CombinedOutput()
	require.Equal(t, "exit status 2", exitText(err))
	require.Contains(t, string(out), `did you mean "run"?`)
}
