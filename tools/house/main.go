// Command house measures the tree: how many lines, packages and names somebody has to
// know who maintains it. usage: go run -C tools ./house [-names] [DIR]
//
// Tests are files _test.go; testdata counts as nothing. A name is used where another
// package's file that is no test says package.Name; methods and fields are not counted.
// A test of another package, or an Example, uses it likewise.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// api are the folders whose names programs use, so that nobody in the tree need do so.
var api = []string{"runtime", "devices", "mem", "lib"}

type house struct {
	module           string
	goLines, cLines  int
	testLines        int
	importable       int // lines of Go and C that another module could import, study/ apart
	study            int
	comments         int // lines of Go with nothing but a comment
	functions        []int
	packages         map[string]bool
	folders          map[string]bool
	names            map[string]token.Position // package.Name
	used, usedInTest map[string]bool
}

func main() {
	list := flag.Bool("names", false, "list the exported names that no other package uses: those beyond "+strings.Join(api, ", ")+", and those of these without a test from outside")
	flag.Parse()
	root := ".."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	h, err := measure(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	h.print(*list)
}

func measure(root string) (*house, error) {
	h := &house{packages: map[string]bool{}, folders: map[string]bool{}, names: map[string]token.Position{}, used: map[string]bool{}, usedInTest: map[string]bool{}}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	h.module = strings.Fields(string(mod))[1]
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			skip := strings.HasPrefix(d.Name(), ".") && rel != "." || rel == "bin"
			if !skip && rel != "." && !strings.Contains(rel, "/") {
				h.folders[rel] = true
			}
			if skip || d.Name() == "testdata" || rel == "tools" {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go":
			return h.goFile(path, filepath.ToSlash(rel))
		case ".c", ".h":
			b, err := os.ReadFile(path)
			h.cLines += h.count(rel, "", b)
			return err
		}
		return nil
	})
	return h, err
}

// count adds a file's lines to what can be imported or not.
func (h *house) count(rel, pkg string, text []byte) int {
	n := strings.Count(string(text), "\n")
	dir := "/" + filepath.ToSlash(filepath.Dir(rel)) + "/"
	switch {
	case strings.HasPrefix(dir, "/study/"):
		h.study += n
	case !strings.Contains(dir, "/internal/") && pkg != "main":
		h.importable += n
	}
	return n
}

func (h *house) goFile(path, rel string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments)
	if err != nil {
		return err
	}
	dir := filepath.ToSlash(filepath.Dir(rel))
	test := strings.HasSuffix(rel, "_test.go")
	h.uses(f, dir, test)
	if test {
		h.testLines += strings.Count(string(src), "\n")
		return nil
	}
	h.packages[dir] = true
	h.goLines += h.count(rel, f.Name.Name, src)
	h.comments += commentLines(src)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			h.functions = append(h.functions, fset.Position(d.End()).Line-fset.Position(d.Pos()).Line+1)
			if d.Recv == nil && f.Name.Name != "main" {
				h.declare(dir, d.Name, fset)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					h.declare(dir, s.Name, fset)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						h.declare(dir, n, fset)
					}
				}
			}
		}
	}
	return nil
}

func (h *house) declare(dir string, n *ast.Ident, fset *token.FileSet) {
	if n.IsExported() {
		h.names[dir+"."+n.Name] = fset.Position(n.Pos())
	}
}

// uses notes which names of other packages a file says.
func (h *house) uses(f *ast.File, dir string, test bool) {
	by := map[string]string{}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		of, ok := strings.CutPrefix(path, h.module+"/")
		if !ok || of == dir && !test {
			continue
		}
		name := filepath.Base(of)
		if i.Name != nil {
			name = i.Name.Name
		}
		by[name] = of
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && test {
			if of, ok := strings.CutPrefix(fn.Name.Name, "Example"); ok {
				of, _, _ = strings.Cut(of, "_")
				h.usedInTest[dir+"."+of] = true
			}
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil && by[x.Name] != "" {
			if test {
				h.usedInTest[by[x.Name]+"."+s.Sel.Name] = true
			} else {
				h.used[by[x.Name]+"."+s.Sel.Name] = true
			}
		}
		return true
	})
}

// commentLines counts the lines on which there is a comment and nothing else.
func commentLines(src []byte) (n int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	code, comment := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		for l := range strings.Count(text, "\n") + 1 {
			if tok == token.COMMENT {
				comment[first+l] = true
			} else {
				code[first+l] = true
			}
		}
	}
	for l := range comment {
		if !code[l] {
			n++
		}
	}
	return n
}

func (h *house) print(list bool) {
	var unused, beyond, onlyTests, untold []string
	for n := range h.names {
		if h.used[n] {
			continue
		}
		unused = append(unused, n)
		if top, _, _ := strings.Cut(n, "/"); !slices.Contains(api, strings.Split(top, ".")[0]) {
			beyond = append(beyond, n)
			if h.usedInTest[n] {
				onlyTests = append(onlyTests, n)
			}
		} else if !h.usedInTest[n] && !strings.Contains(n, "/internal/") {
			untold = append(untold, n)
		}
	}
	slices.Sort(h.functions)
	at := func(per int) int { return h.functions[min(len(h.functions)*per/100, len(h.functions)-1)] }
	all := h.goLines + h.cLines
	fmt.Printf("lines without tests     Go %d, C %d; tests %d\n", h.goLines, h.cLines, h.testLines)
	fmt.Printf("packages                %d, in %d folders at the top\n", len(h.packages), len(h.folders))
	fmt.Printf("exported names          %d, of which no other package uses %d; beyond %s: %d, of which tests use %d\n",
		len(h.names), len(unused), strings.Join(api, ", "), len(beyond), len(onlyTests))
	fmt.Printf("of these four           %d are used by no other package, no test from outside and no Example\n", len(untold))
	fmt.Printf("importable lines        %.0f %% without study/ (%d of %d), study/ %.0f %%\n", 100*float64(h.importable)/float64(all), h.importable, all, 100*float64(h.study)/float64(all))
	fmt.Printf("functions               %d; lines: median %d, p90 %d, most %d\n", len(h.functions), at(50), at(90), at(100))
	fmt.Printf("lines of comments       %.1f %%\n", 100*float64(h.comments)/float64(h.goLines))
	if list {
		slices.Sort(beyond)
		slices.Sort(untold)
		for _, n := range append(beyond, untold...) {
			fmt.Println(n, h.names[n])
		}
	}
}
