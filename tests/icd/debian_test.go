//go:build linux

package icd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Programs and libraries of Debian's, of which nobody here wrote a line (tools/deps --icd installs
// them), on one device, two and four. Their results are checked. What one compiles the next finds
// in PoCL's cache.

// link makes a program of testdata that uses a library of Debian's; it skips where that is not
// installed.
func link(t testing.TB, compiler, source, header string, libraries ...string) string {
	t.Helper()
	need(t, compiler)
	if _, err := os.Stat(filepath.Join("/usr/include", header)); err != nil {
		t.Skipf("%s is not installed; tools/deps --icd installs it", header)
	}
	out := filepath.Join(scratch, filepath.Base(source)+".prog")
	if _, err := os.Stat(out); err == nil {
		return out
	}
	args := append([]string{"-O1", "-w", filepath.Join("testdata", source), "-o", out}, libraries...)
	text, err := exec.Command(compiler, append(args, "-lOpenCL", "-lm")...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

func TestLibrariesOfOthersComputeTheSameOnAnyDevices(t *testing.T) {
	for _, c := range []struct {
		compiler, source, header string
		libraries                []string
	}{
		{"gcc", "clblast.c", "clblast_c.h", []string{"-lclblast"}},
		{"gcc", "clfft.c", "clFFT.h", []string{"-lclFFT"}},
		{"g++", "viennacl.cpp", "viennacl/vector.hpp", nil},
	} {
		t.Run(c.source, func(t *testing.T) {
			prog := link(t, c.compiler, c.source, c.header, c.libraries...)
			for _, n := range []int{1, 2, 4} {
				r := on(n).run(t, 5*time.Minute, "", prog, "Godwit", strconv.Itoa(n))
				require.True(t, r.ok(), "%d devices: %v", n, r)
				require.Regexp(t, `(?m)^OK$`, r.out)
			}
		})
	}
}

// The MD5 of a word of three letters and a digit is looked for among all of them.
func TestHashcatFindsTheWord(t *testing.T) {
	need(t, "hashcat")
	home := t.TempDir()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	env := []string{"HOME=" + home, "XDG_CACHE_HOME=" + home, "XDG_DATA_HOME=" + home, "POCL_CACHE_DIR=" + filepath.Join(cache, "pocl")}
	found := filepath.Join(home, "found")
	r := on(2, env...).run(t, 9*time.Minute, home, "hashcat", "--quiet", "--force", "--potfile-disable", "--self-test-disable", // it compiles for each device
		"-m", "0", "-a", "3", "-O", "-w", "1", "-o", found, "2ac071b33d34aa46d288df4dcf8c2173", "?l?l?l?d")
	require.True(t, r.ok(), "%v", r)
	text, err := os.ReadFile(found)
	require.NoError(t, err, "%v", r)
	require.Equal(t, "2ac071b33d34aa46d288df4dcf8c2173:cat7\n", string(text))
}
