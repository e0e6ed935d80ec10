// Command mutants draws small faults by a seed, puts one at a time into the code, and says how
// many of them a test finds. A mutant dies where its own package's tests fail, else those of
// the packages that it is drawn from, else the suites given by -suites. The tree is not written
// to: each fault is a file that the go command reads in place of the real one.
//
// usage: go run -C tools ./mutants [-n 300] [-seed 31] [-j 2] [-dir DIR] [-suites ./tests/metamorphic] PACKAGE...
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	count  = flag.Int("n", 300, "how many mutants are drawn")
	seed   = flag.Uint64("seed", 31, "the drawing's seed")
	jobs   = flag.Int("j", 2, "how many mutants are tried at a time")
	dir    = flag.String("dir", "..", "the module's `folder`")
	suites = flag.String("suites", "./tests/metamorphic", "further packages whose tests run, by commas")
	limit  = flag.Duration("timeout", 3*time.Minute, "how long one run of tests may take; a run that takes longer has found the fault")
)

func main() {
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A mutant is one fault: the n-th site of a file.
type mutant struct {
	file, text string // text says where and what
	source     []byte
	verdict    string
}

func run(packages []string) error {
	var err error
	if *dir, err = filepath.Abs(*dir); err != nil {
		return err
	}
	all, err := sites(packages)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(*seed, *seed))
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	drawn := all[:min(*count, len(all))]
	fmt.Printf("%d of %d sites\n", len(drawn), len(all))
	var wg sync.WaitGroup
	next := make(chan *mutant)
	for range *jobs {
		wg.Go(func() {
			for m := range next {
				m.verdict = try(m, packages)
				fmt.Printf("%-9s %s\n", m.verdict, m.text)
			}
		})
	}
	sum := make(map[string]int)
	for i := range drawn {
		next <- &drawn[i]
	}
	close(next)
	wg.Wait()
	for _, m := range drawn {
		sum[m.verdict]++
	}
	fmt.Println(sum)
	return nil
}

// try runs the tests with m in place, its own package's first.
func try(m *mutant, packages []string) string {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "error"
	}
	defer os.RemoveAll(tmp)
	changed := filepath.Join(tmp, filepath.Base(m.file))
	overlay := filepath.Join(tmp, "overlay.json")
	list, _ := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}}) // strings cannot fail
	if errors.Join(os.WriteFile(changed, m.source, 0o600), os.WriteFile(overlay, list, 0o600)) != nil {
		return "error"
	}
	own, err := filepath.Rel(*dir, filepath.Dir(m.file))
	if err != nil {
		return "error"
	}
	own = "./" + own
	if command(overlay, "build", own) != nil {
		return "unbuilt"
	}
	if command(overlay, "test", own) != nil {
		return "own"
	}
	if command(overlay, "test", packages...) != nil {
		return "others"
	}
	if command(overlay, "test", strings.Split(*suites, ",")...) != nil {
		return "suites"
	}
	return "lives"
}

func command(overlay, verb string, packages ...string) error {
	ctx, stop := context.WithTimeout(context.Background(), *limit)
	defer stop()
	args := []string{verb, "-overlay", overlay, "-p", "2"}
	if verb == "test" {
		args = append(args, "-vet=off", "-failfast", "-timeout", limit.String())
	}
	c := exec.CommandContext(ctx, "go", append(args, packages...)...)
	c.Dir = *dir
	return c.Run()
}

// sites lists every fault that can be put into the packages' files, in order of file and place.
func sites(packages []string) ([]mutant, error) {
	var out []mutant
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(*dir, p, "*.go"))
		if err != nil {
			return nil, err
		}
		sort.Strings(files)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			ms, err := ofFile(f)
			if err != nil {
				return nil, err
			}
			out = append(out, ms...)
		}
	}
	return out, nil
}

// ofFile makes each fault in the file's syntax, prints it, and takes it back.
func ofFile(file string) ([]mutant, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []mutant
	add := func(at token.Pos, what string, change, back func()) {
		change()
		var b bytes.Buffer
		if err = printer.Fprint(&b, fset, tree); err == nil {
			out = append(out, mutant{file: file, text: fset.Position(at).String() + ": " + what, source: b.Bytes()})
		}
		back()
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, op := range others[n.Op] {
				was := n.Op
				add(n.OpPos, was.String()+" becomes "+op.String(), func() { n.Op = op }, func() { n.Op = was })
			}
		case *ast.IfStmt:
			was := n.Cond
			add(n.Pos(), "the condition is turned round", func() { n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: was}} }, func() { n.Cond = was })
		case *ast.BasicLit:
			if v, e := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && e == nil {
				was := n.Value
				add(n.Pos(), was+" becomes one more", func() { n.Value = strconv.FormatInt(v+1, 10) }, func() { n.Value = was })
			}
		case *ast.BlockStmt:
			for i, s := range n.List {
				if droppable(s) {
					add(s.Pos(), "the statement is left out", func() { n.List[i] = &ast.EmptyStmt{Semicolon: s.Pos()} }, func() { n.List[i] = s })
				}
			}
		}
		return err == nil
	})
	return out, err
}

// others are the operators that take an operator's place.
var others = map[token.Token][]token.Token{
	token.LSS: {token.LEQ}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ}, token.GEQ: {token.GTR},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.ADD}, token.QUO: {token.MUL}, token.REM: {token.QUO},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL}, token.AND: {token.OR}, token.OR: {token.AND},
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
