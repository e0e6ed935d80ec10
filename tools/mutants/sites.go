package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// switchFile is added to each package that has faults: its name, and how many faults there are.
const switchFile = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutant, _     = strconv.Atoi(os.Getenv("MUTANT"))
	mutantReached [%d]atomic.Bool
)

func mutantIs(id int) bool {
	if mutant < 0 {
		mutantNote(id)
	}
	return mutant == id
}

func mutantNote(id int) {
	if mutantReached[id].Swap(true) {
		return
	}
	if f, err := os.OpenFile(os.Getenv("MUTANTS_REACHED"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		fmt.Fprintln(f, id)
		f.Close()
	}
}
`

// file is a file that may have faults.
type file struct {
	pkg  *packages.Package
	tree *ast.File
	name string
	src  []byte
}

// A site is a place for a fault: the bytes from one offset to another.
type site struct {
	*file
	id       int
	from, to int
	text     string // where and what
	verdict  string
	// with is the place's text with the fault behind its switch; of gives the text of a node in it.
	with func(id int, of func(ast.Node) string) string
}

// sites lists every fault that can be put into the packages, in order of file and place.
func sites(pkgs []*packages.Package) (out []*site, err error) {
	for _, p := range pkgs {
		for _, e := range p.Errors {
			return nil, e
		}
		for i, tree := range p.Syntax {
			f := &file{pkg: p, tree: tree, name: p.CompiledGoFiles[i]}
			if f.src, err = os.ReadFile(f.name); err != nil {
				return nil, err
			}
			out = append(out, f.sites()...)
		}
	}
	return out, nil
}

func (f *file) offset(p token.Pos) int { return f.pkg.Fset.Position(p).Offset }

func (f *file) sites() (out []*site) {
	constant := false
	add := func(at token.Pos, n ast.Node, what string, with func(int, func(ast.Node) string) string) {
		s := &site{file: f, from: f.offset(n.Pos()), to: f.offset(n.End()), text: f.pkg.Fset.Position(at).String() + ": " + what, with: with}
		if constant {
			s.verdict = "constant"
		}
		out = append(out, s)
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if constant = n.Tok == token.CONST; constant {
				for _, s := range n.Specs {
					ast.Inspect(s, visit)
				}
				constant = false
				return false
			}
		case *ast.BinaryExpr:
			if op, ok := others[n.Op]; ok {
				add(n.OpPos, n, n.Op.String()+" becomes "+op.String(), f.binary(n, op))
			}
		case *ast.IfStmt:
			add(n.Pos(), n.Cond, "the condition is turned round", func(id int, of func(ast.Node) string) string {
				return fmt.Sprintf("(mutantIs(%d) != (%s))", id, of(n.Cond))
			})
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
				add(n.Pos(), n, n.Value+" becomes one more", func(id int, _ func(ast.Node) string) string {
					return f.either(id, n, strconv.FormatInt(v+1, 10), n.Value)
				})
			}
		case *ast.BlockStmt:
			for _, s := range n.List {
				if droppable(s) {
					add(s.Pos(), s, "the statement is left out", func(id int, of func(ast.Node) string) string {
						return fmt.Sprintf("if !mutantIs(%d) { %s }", id, of(s))
					})
				}
			}
		}
		return true
	}
	ast.Inspect(f.tree, visit)
	return out
}

// binary has another operator in the place of n's. What is true or false needs no type of its own.
func (f *file) binary(n *ast.BinaryExpr, op token.Token) func(int, func(ast.Node) string) string {
	return func(id int, of func(ast.Node) string) string {
		x, y := of(n.X), of(n.Y)
		with, without := x+" "+op.String()+" "+y, x+" "+n.Op.String()+" "+y
		if b, ok := f.pkg.TypesInfo.TypeOf(n).Underlying().(*types.Basic); ok && b.Info()&types.IsBoolean != 0 {
			return fmt.Sprintf("(mutantIs(%[1]d) && (%[2]s) || !mutantIs(%[1]d) && (%[3]s))", id, with, without)
		}
		return f.either(id, n, with, without)
	}
}

// either is an expression of n's type.
func (f *file) either(id int, n ast.Expr, with, without string) string {
	t := types.TypeString(types.Default(f.pkg.TypesInfo.TypeOf(n)), func(p *types.Package) string {
		if p == f.pkg.Types {
			return ""
		}
		return p.Name()
	})
	return fmt.Sprintf("func() %s { if mutantIs(%d) { return %s }; return %s }()", t, id, with, without)
}

// text is the file's with some faults behind their switches.
func (f *file) text(in []*site) string {
	slices.SortStableFunc(in, func(a, b *site) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	return f.render(0, len(f.src), in)
}

// render is text of some bytes; sites come before those within them.
func (f *file) render(from, to int, in []*site) string {
	var b strings.Builder
	for len(in) > 0 {
		s := in[0]
		in = in[1:]
		if s.from < from || s.to > to {
			continue
		}
		n := 0
		for n < len(in) && in[n].from < s.to {
			n++
		}
		inner := in[:n]
		b.Write(f.src[from:s.from])
		b.WriteString(s.with(s.id, func(n ast.Node) string { return f.render(f.offset(n.Pos()), f.offset(n.End()), inner) }))
		from, in = s.to, in[n:]
	}
	b.Write(f.src[from:to])
	return b.String()
}

// compiles reports whether s's package does with its fault.
func (s *site) compiles() bool {
	fset := s.pkg.Fset
	trees := slices.Clone(s.pkg.Syntax)
	tree, err := parser.ParseFile(fset, s.name, s.text1(), parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	trees[slices.Index(trees, s.tree)] = tree
	switches, err := parser.ParseFile(fset, "mutants_switch.go", fmt.Sprintf("package %s\nfunc mutantIs(int) bool { return false }", s.pkg.Name), 0)
	if err != nil {
		return false
	}
	c := types.Config{Importer: s, Sizes: s.pkg.TypesSizes}
	_, err = c.Check(s.pkg.PkgPath, fset, append(trees, switches), nil)
	return err == nil
}

// text1 is the file's with this fault alone.
func (s *site) text1() string { return s.file.text([]*site{s}) }

// Import implements types.Importer by what the package's own load found.
func (s *site) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := s.pkg.Imports[path]; p != nil && p.Types != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("%s: not imported by %s", path, s.pkg.PkgPath)
}

// others are the operators that take an operator's place.
var others = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.ADD, token.QUO: token.MUL, token.REM: token.QUO,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND,
}

// droppable says whether the rest of a block may compile without s.
func droppable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	}
	return false
}
