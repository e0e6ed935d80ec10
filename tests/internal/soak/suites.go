package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// suite is what one turn runs: the random tests of a file, or a fuzz target.
type suite struct {
	name  string // package and file, or package and target
	dir   string // of the package, from the module's root
	tests []string
	fuzz  string // a target; tests is empty then
	rapid bool   // the package's tests take rapid's flags
}

// random is what makes a test file a suite: a long form, or drawn histories.
var random = regexp.MustCompile(`"GODWIT_SOAK"|history\.Test\(|rapid\.Check\(`)

// findSuites lists the suites of the module at root, by name. A new one needs no
// entry anywhere.
func findSuites(root string) ([]suite, error) {
	var out []suite
	rapid := make(map[string]bool) // by directory
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found, usesRapid, err := suitesOf(path, dir)
		rapid[dir] = rapid[dir] || usesRapid
		out = append(out, found...)
		return err
	})
	for i := range out {
		out[i].rapid = rapid[out[i].dir]
	}
	slices.SortFunc(out, func(a, b suite) int { return strings.Compare(a.name, b.name) })
	return out, err
}

// suitesOf reads one file of tests.
func suitesOf(path, dir string) (out []suite, usesRapid bool, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, false, err
	}
	s := suite{name: dir + "/" + strings.TrimSuffix(filepath.Base(path), "_test.go"), dir: dir}
	for _, i := range f.Imports {
		usesRapid = usesRapid || i.Path.Value == `"pgregory.net/rapid"`
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		switch {
		case !ok || fn.Recv != nil:
		case strings.HasPrefix(fn.Name.Name, "Fuzz"):
			out = append(out, suite{name: dir + "/" + fn.Name.Name, dir: dir, fuzz: fn.Name.Name})
		case strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain":
			s.tests = append(s.tests, fn.Name.Name)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, false, err
	}
	if len(s.tests) > 0 && random.Match(text) {
		out = append(out, s)
	}
	return out, usesRapid, nil
}

// args are those of the package's test binary for one turn.
func (s suite) args(o options) []string {
	if s.fuzz != "" {
		return []string{"-test.run", "^$", "-test.fuzz", "^" + s.fuzz + "$", "-test.fuzztime", o.fuzzTime.String(),
			"-test.fuzzminimizetime", "10x", "-test.fuzzcachedir", filepath.Join(o.dir, "fuzz", s.name)}
	}
	args := []string{"-test.v", "-test.timeout", "2h", "-test.run", "^(" + strings.Join(s.tests, "|") + ")$"}
	if s.rapid {
		args = append(args, fmt.Sprintf("-rapid.checks=%d", o.checks))
	}
	return args
}
