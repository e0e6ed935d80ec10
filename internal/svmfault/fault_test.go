//go:build cgo

package svmfault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/svm"
)

var touches = []string{"unmapped", "never mapped", "mapped for reading", "to be mapped", "freed", "recycled", "past the end", "nothing"}

// touch is the program of testdata/touch, which a child process runs.
var touch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "touch")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		touch = filepath.Join(dir, "touch")
		if out, err := exec.Command("go", "build", "-o", touch, "./testdata/touch").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v\n%s", err, out))
		}
		return m.Run()
	}())
}

// run runs a child and returns what it said, and how it ended.
func run(t *testing.T, what string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(touch, what)
	cmd.Env = append(os.Environ(), "GODWIT_DEBUG=svm", "GOTRACEBACK=single")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.TrimSpace(out.String()), errs.String(), err
}

func TestATouchFromCIsExplainedInTheWordsOfGuardBeforeItCrashes(t *testing.T) {
	for _, what := range touches {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			want, got, err := run(t, what)
			require.Error(t, err)
			first, rest, _ := strings.Cut(got, "\n")
			require.Equal(t, "godwit: "+want, first)
			require.Contains(t, rest, "signal arrived during cgo execution", "the Go runtime has its turn")
		})
	}
}

func TestAThreadOfCsOwnIsExplainedToo(t *testing.T) {
	want, got, err := run(t, "unmapped/thread")
	require.Error(t, err)
	require.True(t, strings.HasPrefix(got, "godwit: "+want+"\n"), got)
	require.Contains(t, want, "was unmapped by EnqueueSVMUnmap on queue q")
}

func TestATouchFromGoIsGuardsToExplain(t *testing.T) {
	_, got, err := run(t, "freed/guard")
	require.NoError(t, err, got)
	require.Empty(t, got)
	want, got, err := run(t, "freed/go")
	require.Error(t, err)
	require.True(t, strings.HasPrefix(got, "godwit: "+want+"\n"), "nobody guards: %s", got)
	require.Contains(t, got, "unexpected fault address")
	want, got, err = run(t, "freed/c in guard")
	require.Error(t, err)
	require.True(t, strings.HasPrefix(got, "godwit: "+want+"\n"), "Guard is for Go: %s", got)
}

// TestOtherFaultsAreAsBefore: those outside of any arena, and in one that is
// closed, and without a watch.
func TestOtherFaultsAreAsBefore(t *testing.T) {
	a, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: watch})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.Panics(t, func() {
		var p *int
		*p = 1
	})
}

func TestManyArenasMayBeWatchedButNotAnyNumber(t *testing.T) {
	var open []*svm.Arena
	defer func() {
		for _, a := range open {
			require.NoError(t, a.Close())
		}
	}()
	for len(open) < 64 {
		a, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: watch})
		require.NoError(t, err)
		open = append(open, a)
	}
	_, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: watch})
	require.ErrorContains(t, err, "too many arenas")
	require.NoError(t, open[3].Close())
	open[3], err = svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: watch})
	require.NoError(t, err)
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("GODWIT_DEBUG", "leaks,svm")
	require.NotNil(t, FromEnvironment())
	t.Setenv("GODWIT_DEBUG", "leaks")
	require.Nil(t, FromEnvironment())
}
