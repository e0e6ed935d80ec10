// Package tests holds what crosses packages: the import table, and in its
// sub-directories the tests that run many packages together.
package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// house is the table of DESIGN.md: every package and what it may import of the
// project. What
// a package may import, those may in turn; the table is about direct imports
// and is closed over them, so that "runtime" lets in "mem".
//
// Packages that do not exist yet are listed all the same. A package that is not
// here fails the test.
var house = map[string]string{
	"mem":          "",
	"mem/rangemap": "mem",
	"mem/flat":     "mem mem/rangemap",
	"input":        "mem",
	"process":      "",
	"outfile":      "process",
	"suggest":      "",
	"trace":        "mem input outfile",
	"trace/ledger": "mem mem/rangemap trace",
	"bufalloc":     "mem suggest trace",

	"bufalloc/internal/yardstick": "bufalloc",
	"bufalloc/pack":               "mem trace",
	"bufalloc/replay":             "process bufalloc trace bufalloc/pack bufalloc/internal/yardstick",
	"bufalloc/fuzz":               "input outfile bufalloc trace bufalloc/replay bufalloc/pack bufalloc/internal/yardstick",
	"bufalloc/bufalloctest":       "bufalloc bufalloc/replay",
	"bufalloc/extern":             "process bufalloc bufalloc/replay trace",

	"devices/work":    "mem",
	"devices":         "mem suggest devices/work",
	"devices/storage": "devices bufalloc",
	"devices/soft":    "devices devices/storage devices/work devices/internal/gate",
	"devices/mover":   "devices devices/storage devices/internal/gate bufalloc",

	"devices/model/network":       "mem",
	"devices/model":               "devices/soft devices/cpu devices/storage devices/internal/gate devices/model/network mem/flat bufalloc resource",
	"devices/model/profile":       "devices/model devices/model/network",
	"devices/model/machine":       "input suggest input/yamldoc input/fields devices devices/model devices/model/network",
	"devices/null":                "devices/soft devices/storage",
	"devices/cpu":                 "devices/soft devices/storage devices/internal/region",
	"devices/tce":                 "devices/soft devices/storage devices/internal/region",
	"devices/opencl":              "devices/nvlink devices/soft devices/storage bufalloc",
	"devices/nvlink":              "devices mem",
	"devices/nvlink/nvlinktest":   "devices/nvlink",
	"devices/opencl/internal/ocl": "",

	"devices/internal/region": "devices devices/storage devices/work bufalloc",
	"devices/internal/gate":   "devices",

	"devices/devicetest": "devices devices/soft devices/mover kernels",

	"svm":              "mem bufalloc",
	"svm/fault":        "svm",
	"subbuffer":        "mem",
	"resource":         "mem bufalloc trace eviction",
	"migration":        "mem mem/rangemap eviction",
	"migration/oracle": "mem",
	"migration/bound":  "mem mem/rangemap",
	"eviction":         "mem",

	"kernels": "devices",
	"runtime": "migration eviction subbuffer svm devices devices/soft devices/mover resource trace",

	"pool": "runtime resource",

	"history": "mem/flat runtime eviction migration/oracle trace/ledger devices/cpu devices/tce",

	"input/yamldoc": "",
	"input/fields":  "suggest",

	"scenario": "devices/storage devices/model devices/model/machine devices/model/network devices/model/profile input suggest input/yamldoc input/fields mem/flat mem/rangemap runtime kernels trace/ledger migration/bound devices/null devices/cpu devices/tce bufalloc",
	"backend":  "pool runtime kernels devices/cpu devices/opencl",

	"pool/replay": "pool runtime devices/null trace",
	"replay":      "eviction devices/model devices/model/machine devices/storage runtime icd/tracelog trace",
	"metrics":     "pool resource",
	"report":      "trace bufalloc/replay bufalloc/pack",
	"sweep":       "scenario devices/model/machine",
	"compare":     "scenario",
	"plot":        "mem suggest",
	"tensor":      "backend",

	"icd/devicefile":    "input input/yamldoc",
	"icd/tracelog":      "outfile trace/ledger migration/bound",
	"icd":               "icd/devicefile icd/tracelog outfile runtime devices/opencl svm/fault",
	"cmd/godwit":        everything,
	"tests":             everything,
	"tests/metamorphic": everything,
	"examples":          everything,
}

const everything = "*"

// families are packages whose sub-packages, where not in the table by
// themselves, may import what the family may, and the family. The same goes for
// every package's internal ones.
var families = []string{"pool", "icd", "cmd/godwit", "tests", "examples"}

// purely are the packages of levels 0 to 3, which build without cgo and import
// nothing from outside but these. devices/devicetest is for tests, and brings
// what tests need.
var (
	allowedOutside = []string{"github.com/google/btree", "github.com/google/renameio/", "golang.org/x/", "github.com/nlpodyssey/gopickle/"}
	purely         = []string{
		"mem", "mem/rangemap", "input", "process", "outfile", "suggest", "trace", "bufalloc", "bufalloc/internal/yardstick", "bufalloc/pack", "bufalloc/replay", "bufalloc/fuzz", "bufalloc/extern",
		"devices", "devices/work", "devices/storage", "devices/soft", "devices/mover", "devices/null", "devices/cpu", "devices/tce", "devices/model",
		"svm", "subbuffer", "resource", "migration", "migration/oracle", "migration/bound", "eviction", "kernels", "runtime", "pool",
	}
)

type pkg struct {
	ImportPath string
	Imports    []string
	CgoFiles   []string
	Standard   bool
	Error      *struct{ Err string }
}

// list runs go list over patterns, with or without cgo.
func list(t *testing.T, cgo string, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Imports,CgoFiles,Standard,Error"}, args...)...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
}

// inside strips the module from an import path of the project.
func inside(path string) (string, bool) { return strings.CutPrefix(path, "godwit/") }

// row finds a package's row, its own or its family's.
func row(name string) (string, bool) {
	if r, ok := house[name]; ok {
		return r, true
	}
	parent, ok := familyOf(name)
	if !ok {
		return "", false
	}
	r, ok := house[parent]
	return r + " " + parent, ok
}

// familyOf finds the package whose row a sub-package shares.
func familyOf(name string) (string, bool) {
	for _, f := range families {
		if strings.HasPrefix(name, f+"/") {
			return f, true
		}
	}
	parent, _, ok := strings.Cut(name, "/internal/")
	return parent, ok
}

// mayImport is a package's row closed over the rows of what it names.
func mayImport(name string) map[string]bool {
	may := make(map[string]bool)
	var add func(row string)
	add = func(row string) {
		for _, dep := range strings.Fields(row) {
			if !may[dep] {
				may[dep] = true
				r, _ := house[dep]
				add(r)
			}
		}
	}
	r, _ := row(name)
	add(r)
	return may
}

func TestEveryPackageIsInTheTableAndImportsOnlyWhatItMay(t *testing.T) {
	pkgs := list(t, "1", "./...")
	require.NotEmpty(t, pkgs)
	for _, p := range pkgs {
		name, ok := inside(p.ImportPath)
		if !ok {
			continue
		}
		if _, ok := row(name); !ok {
			t.Errorf("package %s is not in the table", name)
			continue
		}
		may := mayImport(name)
		if may[everything] {
			continue
		}
		for _, imp := range p.Imports {
			dep, ok := inside(imp)
			if !ok || may[dep] {
				continue
			}
			if f, ok := familyOf(dep); ok && (f == name || may[f]) && house[dep] == "" {
				continue
			}
			t.Errorf("%s imports %s, which the table does not allow", name, dep)
		}
	}
}

func TestTheTableNamesNoCycle(t *testing.T) {
	for name := range house {
		require.False(t, mayImport(name)[name], "%s may import itself by way of its row", name)
	}
}

// The signal handler of svm/fault cannot be Go, and CUDA's library is C.
func TestCgoIsOnlyWhereALibraryOrAHandlerIsC(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		name, ok := inside(p.ImportPath)
		if ok && len(p.CgoFiles) > 0 && name != "devices/opencl/internal/ocl" && !strings.HasPrefix(name, "icd") && !strings.HasPrefix(name, "svm/fault") && !strings.HasPrefix(name, "devices/nvlink") {
			t.Errorf("%s uses cgo: %v", name, p.CgoFiles)
		}
	}
}

// Everybody else has OpenCL's handles from there.
func TestGoOpenCLIsImportedByOnePackage(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		name, ok := inside(p.ImportPath)
		if ok && name != "devices/opencl/internal/ocl" && !strings.HasPrefix(name, "cmd/godwit/internal/") {
			require.NotContains(t, p.Imports, "github.com/jgillich/go-opencl/cl", name)
		}
	}
}

func TestLowerLevelsBuildWithoutCgoAndTakeLittleFromOutside(t *testing.T) {
	have := make(map[string]bool)
	for _, p := range list(t, "0", "./...") {
		if name, ok := inside(p.ImportPath); ok {
			have[name] = true
		}
	}
	args := []string{"-deps"}
	for _, name := range purely {
		if have[name] {
			args = append(args, "./"+name)
		}
	}
	for _, p := range list(t, "0", args...) {
		if p.Error != nil {
			t.Errorf("%s does not build without cgo: %s", p.ImportPath, p.Error.Err)
		}
		if _, ok := inside(p.ImportPath); ok || p.Standard {
			continue
		}
		ok := slices.ContainsFunc(allowedOutside, func(a string) bool { return strings.HasPrefix(p.ImportPath, a) })
		if !ok {
			t.Errorf("%s is imported by a package of levels 0 to 3", p.ImportPath)
		}
	}
	cmd := exec.Command("go", append([]string{"build"}, args[1:]...)...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
