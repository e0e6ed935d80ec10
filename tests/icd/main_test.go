//go:build linux

// Package icd_test runs real OpenCL programs, each in a process of its own, on
// libgodwit.so: clinfo, PoCL's own runtime tests, Python, clpeak, oclgrind, and
// the C and Python programs in testdata. What is compared with another OpenCL
// platform is compared with plain PoCL, in the same run.
//
// The library is built once, without the race detector, which a shared library
// cannot have. GODWIT_LIB names a library that is there already.
package icd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	scratch string // a directory for what is built, gone at the end
	library string // libgodwit.so
	missing string // why there is no library, and so nothing to test
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "godwit-icd"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := build(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// build makes the library, or says in missing why it cannot be here.
func build() error {
	if library = os.Getenv("GODWIT_LIB"); library != "" {
		_, err := os.Stat(library)
		return err
	}
	if out, err := exec.Command("bash", "../../tools/deps", "--have").CombinedOutput(); err != nil {
		missing = strings.TrimSpace("no OpenCL to build with; tools/deps installs it. " + string(out))
		return nil
	}
	if err := noteSources(); err != nil {
		return err
	}
	library = filepath.Join(scratch, "libgodwit.so")
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-o", library, "./cmd/libgodwit") // as make lib: compiled once for both
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("libgodwit.so: %w\n%s", err, out)
	}
	return nil
}

// noteSources reads the directories that the library is built from, so that go
// test knows of them and does not take a result of other sources for this one's.
func noteSources() error {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{.Dir}}{{end}}", "./cmd/libgodwit")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for dir := range strings.FieldsSeq(string(out)) {
		if _, err := os.ReadDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// need skips where there is no library, or not that program.
func need(t testing.TB, programs ...string) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed; tools/deps --icd installs it", p)
		}
	}
}

// compile makes a program of testdata, once.
func compile(t testing.TB, name string) string {
	t.Helper()
	need(t, "gcc")
	out := filepath.Join(scratch, name)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	text, err := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread",
		filepath.Join("testdata", name+".c"), "-o", out+".new", "-lOpenCL", "-lm").CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.NoError(t, os.Rename(out+".new", out))
	return out
}
