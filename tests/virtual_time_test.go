package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inVirtualTime are the packages that a context in virtual time runs.
var inVirtualTime = []string{
	"mem", "internal/rangemap", "mem/trace", "internal/ledger", "eviction", "migration", "subbuffer", "internal/resource", "svm", "bufalloc", "runtime",
	"devices", "devices/work", "internal/storage", "devices/engine", "internal/mover", "devices/cpu", "devices/virtual", "internal/network", "devices/gate", "devices/internal/region", "study/scenario",
}

// besideTheWorld says, by file and what it uses, why that is not on the way of a context
// in virtual time.
var besideTheWorld = map[string]string{
	"devices/executor.go: go":               "the executor of everything else",
	"devices/executor.go: time.NewTimer":    "the executor of everything else",
	"devices/executor.go: time.Now":         "the clock of the executor of everything else",
	"devices/executor.go: time.Since":       "the clock of the executor of everything else",
	"devices/engine/engine.go: go":          "a worker, which an engine with a pace has none of",
	"devices/virtual/threads.go: go":        "a host thread, of which one runs at a time",
	"internal/mover/lanes.go: Go":           "lanes: only with devices behind a bus (PageLocker.HostLink)",
	"internal/mover/measure.go: Go":         "links between devices: only with devices.Windowed",
	"internal/mover/windows.go: Go":         "links between devices: only with devices.Windowed",
	"internal/resource/track.go: time.Now":  "when a block was allocated, for people who look for a leak",
	"runtime/request.go: AfterFunc":         "a request's context is the program's, and ends outside of virtual time",
	"mem/trace/async.go: go":                "the reader of records that were handed on, which no command waits for",
	"mem/trace/alloc_writer.go: time.Now":   "the times in a file of allocations, which the program asks for",
	"mem/trace/alloc_writer.go: time.Since": "the times in a file of allocations, which the program asks for",
}

// clocks are what of package time starts a timer or asks a clock.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

func TestNothingInVirtualTimeStartsAGoroutineOrAsksAClock(t *testing.T) {
	used := make(map[string]bool)
	for _, dir := range inVirtualTime {
		files, err := os.ReadDir("../" + dir)
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			name := dir + "/" + f.Name()
			for at, what := range concurrency(t, name) {
				key := name + ": " + what
				if used[key] = true; besideTheWorld[key] == "" {
					t.Errorf("%s: %s: in virtual time this is the executor's (devices.Executor), or besideTheWorld says why not", at, what)
				}
			}
		}
	}
	for key := range besideTheWorld {
		require.True(t, used[key], "%s: besideTheWorld gives a reason for what is not there", key)
	}
}

// concurrency is what a file has of goroutines, timers and clocks, by place.
func concurrency(t *testing.T, name string) map[string]string {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join("..", name), nil, 0)
	require.NoError(t, err)
	timePkg := ""
	for _, i := range f.Imports {
		if path, _ := strconv.Unquote(i.Path.Value); path == "time" {
			if timePkg = "time"; i.Name != nil {
				timePkg = i.Name.Name
			}
		}
	}
	found := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		at := func() string { return fmt.Sprint(fset.Position(n.Pos())) }
		switch n := n.(type) {
		case *ast.GoStmt:
			found[at()] = "go"
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && !executor(s.X) {
				found[at()] = "Go" // of a WaitGroup
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			switch {
			case ok && timePkg != "" && x.Name == timePkg && slices.Contains(clocks, n.Sel.Name):
				found[at()] = "time." + n.Sel.Name
			case n.Sel.Name == "AfterFunc" && !(ok && x.Name == timePkg):
				found[at()] = "AfterFunc" // of a context
			}
		}
		return true
	})
	return found
}

// executor reports whether an expression is called what executors are.
func executor(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "by" || x.Name == "exec"
	case *ast.SelectorExpr:
		return x.Sel.Name == "by" || x.Sel.Name == "exec"
	}
	return false
}
