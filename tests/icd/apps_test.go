//go:build linux

package icd_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// application is a program of others that checks its own results.
type application struct {
	name    string
	command func(b *testing.B, p platform, n int) []string
}

// script is a Python script of testdata/apps, and the module that it uses, whose name the script must not have.
func script(name, module string) func(*testing.B, platform, int) []string {
	return func(b *testing.B, _ platform, _ int) []string {
		if !available(python, "-c", "import "+module) {
			b.Skipf("Python's %s is not installed", module)
		}
		return []string{python, data(b, filepath.Join("apps", "with_"+name+".py"))}
	}
}

// applications are those of docs/icd.md.
var applications = []application{
	{"hashcat", func(b *testing.B, _ platform, _ int) []string {
		return []string{"hashcat", "--quiet", "--force", "--potfile-disable", "--self-test-disable", "-m", "0", "-a", "3", "-O", "-w", "1",
			"2ac071b33d34aa46d288df4dcf8c2173", "?l?l?l?d"}
	}},
	{"CLBlast", linked("gcc", "clblast.c", "clblast_c.h", "-lclblast")},
	{"clFFT", linked("gcc", "clfft.c", "clFFT.h", "-lclFFT")},
	{"ViennaCL", linked("g++", "viennacl.cpp", "viennacl/vector.hpp")},
	{"Boost.Compute", linked("g++", "apps/boost.cpp", "boost/compute/core.hpp")},
	{"clpeak", func(*testing.B, platform, int) []string { return []string{"clpeak", "--kernel-latency"} }},
	{"pyopencl", script("pyopencl", "pyopencl")}, {"silx", script("silx", "silx")}, {"sasmodels", script("sas", "sasmodels")},
	{"dtcwt", script("dtcwt", "dtcwt")}, {"gpyfft", script("gpyfft", "gpyfft")}, {"compyle", script("compyle", "compyle")},
}

// linked is a program of testdata and what it is linked with.
func linked(compiler, source, header string, libraries ...string) func(*testing.B, platform, int) []string {
	return func(b *testing.B, p platform, n int) []string {
		return []string{link(b, compiler, source, header, libraries...), p.part, strconv.Itoa(n)}
	}
}

// BenchmarkApplications runs applications on plain PoCL and on Godwit with one device and two, in
// turns, and logs medians: of the seconds that they print after OK, of clpeak's microseconds, else
// of the whole run. What is not installed is left out. It takes as many rounds as -benchtime asks
// for; the first one compiles, so that a single one measures little.
func BenchmarkApplications(b *testing.B) {
	need(b)
	for _, a := range applications {
		b.Run(a.name, func(b *testing.B) {
			platforms := []platform{plain(b, 1), on(1), on(2)}
			commands, took := make([][]string, len(platforms)), make([][]float64, len(platforms))
			for i, p := range platforms {
				commands[i] = a.command(b, p, max(i, 1))
			}
			for b.Loop() {
				for i, p := range platforms {
					took[i] = append(took[i], timeApplication(b, a.name, p, commands[i]))
				}
			}
			for i, t := range took {
				t = t[min(1, len(t)-1):]
				slices.Sort(t)
				took[i] = t[len(t)/2:]
			}
			b.Logf("%-14s plain %10.5f  Godwit %10.5f (%.2f)  on two %10.5f (%.2f)", a.name, took[0][0],
				took[1][0], took[1][0]/took[0][0], took[2][0], took[2][0]/took[0][0])
		})
	}
}

// timeApplication runs an application and returns its seconds, or clpeak's microseconds.
func timeApplication(b *testing.B, name string, p platform, args []string) float64 {
	b.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		b.Skip(err)
	}
	start := time.Now()
	r := p.run(b, 9*time.Minute, "", args[0], args[1:]...)
	s := time.Since(start).Seconds()
	require.True(b, r.ok(), "%s on %s: %v", name, p.name, r)
	if m := regexp.MustCompile(`(?m)^OK ([0-9.]+)$|latency : ([0-9.]+) us`).FindStringSubmatch(r.out); m != nil {
		var err error
		s, err = strconv.ParseFloat(m[1]+m[2], 64)
		require.NoError(b, err)
	} else {
		require.True(b, name == "hashcat" && strings.Contains(r.out, ":cat7") || strings.Contains(r.out, "OK"), "%v", r)
	}
	return s
}
