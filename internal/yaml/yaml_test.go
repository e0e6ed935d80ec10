package yaml_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/stretchr/testify/require"

	"godwit/internal/yaml"
)

// document is a Source that keeps what was wrong, as text.
type document struct{ wrong []string }

func (*document) Plain(n ast.Node) ast.Node { return n }

func (d *document) Wrong(n ast.Node, form bool, format string, args ...any) {
	kind := " rule: "
	if form {
		kind = " form: "
	}
	e := yaml.NewError("f.yaml", n, format, args...)
	d.wrong = append(d.wrong, kind+e.Error())
}

func TestNodesAreReadWithTheirLines(t *testing.T) {
	body, err := yaml.Parse("f.yaml", []byte(`
name: a word
about: |
  several
list: [1, two, [3]]
lone: 7
nothing:
bad: "\e[2J"
nmae: {a: 1}
`), "")
	require.NoError(t, err)
	d := new(document)
	m := yaml.MappingOf(d, body, "thing")
	require.Equal(t, 2, yaml.Line(m.Node))
	require.Equal(t, "a word", yaml.Word(d, m.Get("name"), "name"))
	require.Equal(t, "several", yaml.Word(d, m.Get("about"), "about"))
	require.Len(t, yaml.List(d, m.Get("list")), 3)
	require.Equal(t, "7", yaml.Word(d, yaml.List(d, m.Get("lone"))[0], "lone"))
	require.Empty(t, yaml.List(d, m.Get("nothing")))
	require.False(t, m.Has("none"))
	require.Empty(t, d.wrong)
	require.Empty(t, yaml.Word(d, m.Get("list"), "list"))
	require.Empty(t, yaml.Word(d, m.Get("nothing"), "nothing"))
	require.Empty(t, yaml.Word(d, m.Get("bad"), "bad"))
	require.Empty(t, yaml.MappingOf(d, m.Get("lone"), "lone").Keys)
	m.OnlyKnown(d, []string{"name", "about", "list", "lone", "nothing", "bad"})
	require.Equal(t, []string{
		" form: f.yaml:5: list: want a word, not a list",
		" form: f.yaml:7: nothing: want a word, not nothing",
		` rule: f.yaml:8: bad: "\x1b[2J": it goes to terminals: want no control characters`,
		` form: f.yaml:6: lone: want a mapping, not "7"`,
		` form: f.yaml:9: thing: unknown key "nmae"; known here: name, about, list, lone, nothing, bad; did you mean "name"?`,
	}, d.wrong)
}

func TestErrorsAreShort(t *testing.T) {
	e := yaml.NewError("f.yaml", nil, "%s %s", strings.Repeat("ä", 100_000), "the rule")
	require.Less(t, len(e.Error()), 1100)
	require.Contains(t, e.Error(), "the rule")
	require.Len(t, yaml.Short(strings.Repeat("x", 1000)), 64+len("…"))
	require.Equal(t, "want one of copy, fill; did you mean \"copy\"?", yaml.WantOneOf("cpy", []string{"copy", "fill"}))
}

// What is there twice is no mapping of any language here.
func TestKeysAreThereOnce(t *testing.T) {
	f := yaml.File{Name: "f.yaml", Most: 9}
	require.Nil(t, f.Parse([]byte("a: 1\nb: 2\na: 3\n"), ""))
	require.ErrorContains(t, f.Errs[0], "f.yaml:3: ")
	require.Nil(t, f.Parse([]byte("a: &x 1\nb: *x\n"), ""))
	require.EqualError(t, f.Errs[1], "f.yaml:1: an anchor or an alias: write it out")
}
