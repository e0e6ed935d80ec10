package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// contract is what every driver implements; the rest of the interfaces of package
// devices is optional, or is a part of one of these.
var contract = map[string]bool{
	"Device": true, "Queue": true, "Module": true, "Kernel": true, "Driver": true,
	"Late": true, // given to drivers with a command
}

// TestAnOptionalInterfaceHasTwoImplementorsOrItsReason counts, for each optional
// interface of package devices, the packages that assert at compile time that a type of
// theirs has it. Fewer than two need a reason in docs/drivers.md, and a reason that is no
// longer needed must go.
func TestAnOptionalInterfaceHasTwoImplementorsOrItsReason(t *testing.T) {
	doc, err := os.ReadFile("../docs/drivers.md")
	require.NoError(t, err)
	_, part, ok := strings.Cut(string(doc), "<!-- one implementor -->")
	require.True(t, ok)
	part, _, ok = strings.Cut(part, "<!-- end -->")
	require.True(t, ok)
	reasons := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^- `([A-Za-z]+)`: .").FindAllStringSubmatch(part, -1) {
		reasons[m[1]] = true
	}
	by := asserted(t)
	var optional []string
	for _, name := range interfaces(t, "../devices") {
		if !contract[name] {
			optional = append(optional, name)
			require.Equal(t, len(by[name]) < 2, reasons[name], "%s: implemented in %v; a reason in docs/drivers.md is for fewer than two", name, by[name])
			delete(reasons, name)
		}
	}
	require.NotEmpty(t, optional)
	require.Empty(t, reasons, "docs/drivers.md gives reasons for what is not in package devices")
}

// interfaces lists the exported interfaces that a package declares.
func interfaces(t *testing.T, dir string) (names []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		ast.Inspect(parse(t, path), func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() && !strings.HasSuffix(path, "_test.go") {
				names = append(names, s.Name.Name)
			}
			return false
		})
	}
	return names
}

// asserted finds declarations of the form `var _ devices.X = (*T)(nil)` outside tests and
// what tests use, and returns the directories by X.
func asserted(t *testing.T) map[string][]string {
	by := make(map[string][]string)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "devicetest") {
			return err
		}
		ast.Inspect(parse(t, path), func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || v.Names[0].Name != "_" {
				return true
			}
			if s, ok := v.Type.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "devices" {
					by[s.Sel.Name] = append(by[s.Sel.Name], filepath.Dir(path))
				}
			}
			return false
		})
		return nil
	})
	require.NoError(t, err)
	return by
}

func parse(t *testing.T, path string) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}
