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

// house is the table of docs/design/packages.md: every package and what it may import of
// the project. It names direct imports and is closed over them, so that "runtime" lets in
// "mem". A package that is not here fails the test.
var house = map[string]string{
	"mem":               "internal/pairs",
	"internal/rangemap": "mem",
	"internal/half":     "",
	"internal/heap":     "",
	"internal/pairs":    "",
	"internal/flat":     "mem internal/rangemap",
	"internal/input":    "mem",
	"internal/process":  "",
	"internal/outfile":  "internal/process",
	"internal/suggest":  "mem",
	"internal/figures":  "",
	"internal/journal":  "",
	"mem/trace":         "mem internal/input",
	"internal/ledger":   "mem internal/rangemap mem/trace",
	"bufalloc":          "mem internal/suggest mem/trace",

	"internal/yardstick":    "bufalloc",
	"bufalloc/pack":         "internal/heap mem bufalloc",
	"study/alloc/replay":    "bufalloc mem/trace study/alloc/formats bufalloc/pack internal/yardstick",
	"study/alloc/fuzz":      "internal/input internal/outfile internal/journal bufalloc mem/trace study/alloc/formats study/alloc/replay bufalloc/pack internal/yardstick",
	"bufalloc/bufalloctest": "bufalloc",
	"study/alloc/extern":    "internal/process bufalloc study/alloc/replay mem/trace study/alloc/formats",

	"devices/work":     "mem",
	"devices":          "mem internal/suggest devices/work",
	"internal/storage": "devices bufalloc",
	"devices/engine":   "devices internal/storage devices/work devices/gate",
	"internal/mover":   "devices internal/storage devices/gate bufalloc",

	"internal/network":            "mem internal/heap",
	"devices/virtual":             "devices/engine devices/cpu internal/storage devices/gate internal/heap internal/network internal/flat bufalloc internal/resource",
	"study/profile":               "devices/virtual internal/network",
	"study/machine":               "internal/input internal/suggest internal/yaml internal/expr devices devices/virtual internal/network",
	"devices/null":                "devices/engine internal/storage",
	"devices/cpu":                 "devices/engine internal/storage devices/internal/region",
	"devices/tce":                 "devices/engine internal/storage devices/internal/region",
	"devices/opencl":              "internal/nvlink devices/gate devices/engine internal/storage bufalloc",
	"internal/nvlink":             "internal/input internal/outfile",
	"internal/nvlink/nvlinktest":  "",
	"devices/opencl/internal/ocl": "",

	"devices/internal/region": "devices internal/storage devices/work bufalloc",
	"devices/gate":            "devices",

	"devices/devicetest": "devices devices/engine internal/mover internal/history lib/kernels",

	"svm":               "mem bufalloc",
	"internal/svmfault": "svm",
	"subbuffer":         "mem",
	"internal/resource": "internal/storage mem/trace eviction",
	"migration":         "mem internal/heap internal/rangemap eviction",
	"internal/oracle":   "mem",
	"study/bound":       "mem internal/rangemap",
	"eviction":          "mem",

	"lib/kernels": "devices",
	"runtime":     "migration eviction subbuffer svm devices devices/engine internal/mover internal/resource mem/trace bufalloc/pack",

	"lib/pool": "runtime internal/resource",

	"internal/history": "internal/flat runtime eviction internal/oracle internal/ledger devices/virtual",

	"internal/canvas":            "",
	"internal/canvas/canvastest": "",

	"internal/yaml": "internal/suggest",
	"internal/expr": "internal/suggest internal/yaml",

	"study/scenario": "internal/figures internal/storage devices/virtual study/machine internal/network study/profile study/page internal/input internal/suggest internal/yaml internal/expr internal/flat internal/rangemap runtime lib/kernels internal/ledger study/bound devices/null devices/cpu devices/tce bufalloc",
	"lib/backend":    "lib/pool runtime lib/kernels devices/cpu devices/opencl",

	"study/poolreplay": "lib/pool runtime devices/null mem/trace study/alloc/formats",
	"study/replay":     "eviction devices/virtual study/machine internal/storage runtime internal/icd/tracelog mem/trace study/page",
	"lib/shm":          "runtime",
	"lib/metrics":      "lib/pool internal/resource",
	"study/report":     "internal/canvas internal/figures mem/trace study/alloc/formats study/alloc/replay bufalloc/pack",
	"study/sweep":      "internal/journal internal/figures study/scenario study/machine",
	"study/calibrate":  "devices/virtual internal/figures lib/kernels runtime study/machine",
	"study/predict":    "study/sweep study/compare",
	"study/campaign":   "internal/journal study/sweep study/alloc/fuzz",
	"study/compare":    "internal/figures study/scenario",
	"study/plot":       "internal/expr mem internal/suggest",
	"study/page":       "internal/canvas internal/rangemap mem mem/trace",
	"study/live":       "study/page mem",
	"lib/tensor":       "lib/backend internal/half",

	"internal/icd/devicefile": "internal/input internal/yaml",
	"internal/icd/tracelog":   "internal/outfile internal/ledger study/bound study/page",
	"internal/icd":            "internal/icd/devicefile internal/icd/tracelog internal/outfile internal/half runtime devices/opencl internal/svmfault",
	"study/alloc/formats":     "mem internal/input internal/outfile mem/trace bufalloc/pack",
	"cmd/libgodwit":           "internal/icd",
	"lib/resource":            "internal/resource mem/trace",
	"internal/mutate":         "",
	"cmd/godwit":              everything,
	"tests":                   everything,
	"tests/metamorphic":       everything,
	"examples":                everything,
}

const everything = "*"

// families are packages whose sub-packages, where not in the table by
// themselves, may import what the family may, and the family. The same goes for
// every package's internal ones.
var families = []string{"internal/icd", "cmd/godwit", "tests", "examples"}

// purely are packages that build without cgo and import nothing from outside but
// allowedOutside. devices/devicetest is for tests, and brings
// what tests need.
var (
	allowedOutside = []string{"github.com/google/btree", "github.com/google/renameio/", "golang.org/x/", "github.com/nlpodyssey/gopickle/"}
	purely         = []string{
		"mem", "internal/pairs", "internal/heap", "internal/rangemap", "internal/input", "internal/process", "internal/outfile", "internal/suggest", "mem/trace", "bufalloc", "internal/yardstick", "study/alloc/formats", "bufalloc/pack", "study/alloc/replay", "study/alloc/fuzz", "study/alloc/extern",
		"devices", "devices/work", "internal/storage", "devices/engine", "internal/mover", "devices/null", "devices/cpu", "devices/tce", "devices/virtual",
		"svm", "subbuffer", "internal/resource", "migration", "internal/oracle", "study/bound", "eviction", "lib/kernels", "runtime", "lib/pool",
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

// floors are the folders from the top down. What a package imports stands no higher than it
// does; internal packages stand with whom they serve, and what only studies and the command
// need no program brings along.
var floors = []string{"cmd", "study", "lib", "runtime", "migration devices bufalloc eviction subbuffer svm", "mem"}

// floor is a package's, 0 for the highest; no floor for internal/, tests/ and examples/.
func floor(name string) (int, bool) {
	top, _, _ := strings.Cut(name, "/")
	i := slices.IndexFunc(floors, func(f string) bool { return slices.Contains(strings.Fields(f), top) })
	return i, i >= 0 && !strings.HasSuffix(name, "test") // what tests call brings what tests need
}

func TestImportsGoDownTheFloors(t *testing.T) {
	imports := make(map[string][]string)
	for _, p := range list(t, "1", "./...") {
		if name, ok := inside(p.ImportPath); ok {
			imports[name] = p.Imports
		}
	}
	require.NotEmpty(t, imports)
	for name := range imports {
		from, ok := floor(name)
		if !ok {
			continue
		}
		reached := map[string]bool{name: true}
		for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
			for _, imp := range imports[todo[0]] {
				require.False(t, from > 1 && strings.HasPrefix(imp, "github.com/nlpodyssey/"), "%s brings %s along, by %s", name, imp, todo[0])
				dep, ok := inside(imp)
				if !ok || reached[dep] {
					continue
				}
				if to, ok := floor(dep); ok && to < from {
					t.Errorf("%s brings %s along, by %s", name, dep, todo[0])
				}
				reached[dep] = true
				todo = append(todo, dep)
			}
		}
	}
}

func TestTheTableNamesNoCycle(t *testing.T) {
	for name := range house {
		require.False(t, mayImport(name)[name], "%s may import itself by way of its row", name)
	}
}

// The signal handler of internal/svmfault cannot be Go, and CUDA's library is C.
func TestCgoIsOnlyWhereALibraryOrAHandlerIsC(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		name, ok := inside(p.ImportPath)
		if ok && len(p.CgoFiles) > 0 && name != "devices/opencl/internal/ocl" && !strings.HasPrefix(name, "internal/icd") && !strings.HasPrefix(name, "internal/svmfault") && !strings.HasPrefix(name, "internal/nvlink") {
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
			t.Errorf("%s is imported by a package of purely", p.ImportPath)
		}
	}
	cmd := exec.Command("go", append([]string{"build"}, args[1:]...)...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
