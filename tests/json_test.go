package tests

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// jsonKey is a key of an object, and its type as docs/json.md writes it.
type jsonKey struct{ name, kind string }

// TestTheKeysOfJSONAreDocumented holds the tables of docs/json.md against the structs that
// are printed: the same keys, in the same order, of the same types; and every struct that
// one of them holds has a table.
func TestTheKeysOfJSONAreDocumented(t *testing.T) {
	structs := jsonStructs(t)
	tables := jsonTables(t)
	require.Greater(t, len(tables), 20)
	for name, shown := range tables {
		declared := structs[name]
		assert.NotEmpty(t, declared, "docs/json.md: %s: no struct of this name has keys", name)
		for _, table := range shown {
			if slices.ContainsFunc(declared, func(keys []jsonKey) bool { return slices.Equal(keys, table) }) {
				continue
			}
			nearest := slices.MaxFunc(declared, func(a, b []jsonKey) int { return inCommon(a, table) - inCommon(b, table) })
			assert.Equal(t, nearest, table, "docs/json.md: %s (declared, and documented)", name)
		}
		for _, table := range shown {
			for _, k := range table {
				held := strings.TrimLeft(k.kind, "[]*")
				held = held[strings.LastIndex(held, ".")+1:]
				if len(structs[held]) > 0 && !strings.HasPrefix(k.kind, "map[") {
					assert.Contains(t, tables, held, "docs/json.md: %s, key %s: %s has no table", name, k.name, held)
				}
			}
		}
	}
}

func inCommon(a, b []jsonKey) (n int) {
	for _, k := range a {
		if slices.Contains(b, k) {
			n++
		}
	}
	return n
}

// jsonTables are the tables of docs/json.md, by the name of the type.
func jsonTables(t *testing.T) map[string][][]jsonKey {
	f, err := os.Open(filepath.Join("..", "docs", "json.md"))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // was only read
	begins, row := regexp.MustCompile(`^\*\*(\w+)\*\* `), regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\|")
	out := make(map[string][][]jsonKey)
	name := ""
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := begins.FindStringSubmatch(s.Text()); m != nil {
			name = m[1]
			out[name] = append(out[name], nil)
		}
		if m := row.FindStringSubmatch(s.Text()); m != nil {
			require.NotEmpty(t, name, "a table of no type: %s", s.Text())
			tables := out[name]
			tables[len(tables)-1] = append(tables[len(tables)-1], jsonKey{m[1], strings.TrimSpace(m[2])})
		}
	}
	return out
}

// jsonStructs are the structs with keys of JSON that the module declares, by name. Several
// packages may have one of a name.
func jsonStructs(t *testing.T) map[string][][]jsonKey {
	out := make(map[string][][]jsonKey)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			decl, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := decl.Type.(*ast.StructType); ok {
				if keys := jsonKeys(t, s); len(keys) > 0 {
					out[decl.Name.Name] = append(out[decl.Name.Name], keys)
				}
			}
			return true
		})
		return nil
	}))
	return out
}

// jsonKeys are the keys that a struct is printed with.
func jsonKeys(t *testing.T, s *ast.StructType) (keys []jsonKey) {
	for _, field := range s.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		require.NoError(t, err)
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name != "" && name != "-" {
			kind := strings.NewReplacer("time.Duration", "int", "*", "").Replace(types.ExprString(field.Type)) // as it is printed
			keys = append(keys, jsonKey{name, kind})
		}
	}
	return keys
}
