// Command path counts what a maintainer steps through while a launch gets 1 MiB that another
// device wrote: the functions of the project that run, in how many packages, and how often they
// take a lock of Go's. It runs tests/internal/path, built for coverage.
//
// usage: go run -C tools ./path [-list] [DIR]
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/cover"
)

var list = flag.Bool("list", false, "list the functions of each window, and how often each ran")

func main() {
	flag.Parse()
	root := ".."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := count(root); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

func count(root string) error {
	dir, err := os.MkdirTemp("", "path")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "path")
	if err := run(root, dir, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", bin, "./tests/internal/path"); err != nil {
		return err
	}
	fmt.Println("kind    window  functions  packages  locks")
	for _, kind := range []string{"cpu", "opencl", "bus"} {
		if err := run(root, dir, bin, kind, filepath.Join(dir, kind)); err != nil {
			fmt.Printf("%-7s %v\n", kind, err)
			continue
		}
		for _, window := range []string{"first", "again"} {
			profile := filepath.Join(dir, "profile")
			if err := run(root, dir, "go", "tool", "covdata", "textfmt", "-i", filepath.Join(dir, kind, window), "-o", profile); err != nil {
				return err
			}
			s, err := read(root, profile)
			if err != nil {
				return err
			}
			fmt.Printf("%-7s %-7s %9d %9d %6d\n", kind, window, s.functions, len(s.packages), s.locks)
			if *list {
				slices.Sort(s.names)
				fmt.Println(strings.Join(s.names, "\n"))
			}
		}
	}
	return nil
}

// run runs a program in the project's root; end is a folder for the coverage of its end.
func run(root, end, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	// What the program writes at its end counts nothing here. PoCL makes two devices of the processor.
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+end, "POCL_DEVICES=pthread pthread")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// block is a run of statements and how often it ran.
type block struct {
	from, to, count int // line and column of its ends, as place has them
}

// place is a line and a column as one number.
func place(line, column int) int { return line<<12 | column }

type steps struct {
	functions, locks int
	packages         map[string]bool
	names            []string
}

// read counts what a profile in text says.
func read(root, profile string) (steps, error) {
	s := steps{packages: make(map[string]bool)}
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return s, err
	}
	ran := make(map[string][]block)
	for _, p := range profiles {
		for _, b := range p.Blocks {
			if b.Count > 0 {
				ran[p.FileName] = append(ran[p.FileName], block{place(b.StartLine, b.StartCol), place(b.EndLine, b.EndCol), b.Count})
			}
		}
	}
	for file, blocks := range ran {
		_, inside, _ := strings.Cut(file, "/")
		if err := s.add(root, inside, blocks); err != nil {
			return s, err
		}
		s.packages[path.Dir(file)] = true
	}
	return s, nil
}

// add counts the functions of a file that ran, and their calls of Lock and RLock.
func (s *steps) add(root, file string, blocks []block) error {
	if strings.HasPrefix(file, "tests/internal/path/") {
		return nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	at := func(p token.Pos) int { x := set.Position(p); return place(x.Line, x.Column) }
	times := func(p int) int {
		for _, b := range blocks {
			if b.from <= p && p < b.to {
				return b.count
			}
		}
		return 0
	}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		for _, b := range blocks {
			if b.from >= at(fn.Body.Pos()) && b.to <= at(fn.Body.End()) {
				s.functions++
				s.names = append(s.names, fmt.Sprintf("%s:%d %s %d", file, set.Position(fn.Pos()).Line, name(fn), b.count))
				break
			}
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Lock" || sel.Sel.Name == "RLock") && len(call.Args) == 0 {
					s.locks += times(at(call.Pos()))
				}
			}
			return true
		})
	}
	return nil
}

// name is a function's, with its receiver's type.
func name(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return types.ExprString(fn.Recv.List[0].Type) + "." + fn.Name.Name
}
