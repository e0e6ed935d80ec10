//go:build cgo

package svmfault_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/internal/svmfault"
	"godwit/internal/svmfault/internal/ctouch"
	"godwit/svm"
)

// A child process is this test binary, told by GODWIT_TEST_TOUCH what to touch.
func TestMain(m *testing.M) {
	if what := os.Getenv("GODWIT_TEST_TOUCH"); what != "" {
		child(what)
	}
	os.Exit(m.Run())
}

// must is for the child.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println("child:", err)
		os.Exit(3)
	}
	return v
}

// scene is what a touch is about, and where.
type scene struct {
	a    *svm.Arena
	addr svm.Pointer
}

// set makes an arena with a history, and finds the address to touch.
func set(what string, a *svm.Arena) scene {
	const page = 4096
	cells := must(a.Alloc(2*page, 0, 0, "cells"))
	old := must(a.Alloc(page, 0, 0, "old"))
	short := must(a.Alloc(100, 0, 0, "short"))
	m := must(a.Map(cells+100, 200, svm.MapRead|svm.MapWrite))
	must(0, m.Grant())
	must(0, m.Drop("EnqueueSVMUnmap on queue q"))
	freed := must(a.Free(old, "SVMFree"))
	switch what {
	case "unmapped":
		return scene{a, cells + 104}
	case "never mapped":
		return scene{a, cells + 5000}
	case "mapped for reading":
		must(0, must(a.Map(cells+page, page, svm.MapRead)).Grant())
		return scene{a, cells + page + 3}
	case "to be mapped":
		must(a.Map(cells+page, page, svm.MapRead))
		return scene{a, cells + page + 3}
	case "freed":
		return scene{a, old + 7}
	case "recycled":
		must(0, a.Recycle(freed))
		return scene{a, old + 7}
	case "past the end":
		return scene{a, short + 110}
	}
	return scene{a, svm.Pointer(a.Bounds().End - 1)}
}

var touches = []string{"unmapped", "never mapped", "mapped for reading", "to be mapped", "freed", "recycled", "past the end", "nothing"}

// child prints what must be said on standard output, and touches.
func child(what string) {
	what, how, _ := strings.Cut(what, "/")
	a := must(svm.New(svm.Options{Name: "test", Size: 1 << 24, Watch: svmfault.Watch}))
	for i := range 20 { // others are there, too
		must(a.Alloc(uint64(1+i*1000), 0, 0, fmt.Sprintf("other %d", i)))
	}
	s := set(what, a)
	fmt.Printf("%v\n", &svm.Fault{Addr: s.addr, Why: a.Explain(s.addr)})
	known := must(a.Alloc(1, 0, 0, "")) // from where a pointer is made
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(must(a.User(known, 1)))), int64(s.addr)-int64(known))
	switch how {
	case "thread":
		ctouch.StoreOnThread(p)
	case "go":
		*(*byte)(p) = 1
	case "guard":
		if err := a.Guard(func() { *(*byte)(p) = 1 }); err == nil || err.Error() != (&svm.Fault{Addr: s.addr, Why: a.Explain(s.addr)}).Error() {
			fmt.Println("child: guard:", err)
		}
		os.Exit(0)
	case "c in guard":
		_ = a.Guard(func() { ctouch.Store(p, 1) })
	default:
		ctouch.Store(p, 1)
	}
	fmt.Println("child: nothing happened")
	os.Exit(4)
}

// run runs a child and returns what it said, and how it ended.
func run(t *testing.T, what string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GODWIT_TEST_TOUCH="+what, "GOTRACEBACK=single")
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
	a, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: svmfault.Watch})
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
		a, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: svmfault.Watch})
		require.NoError(t, err)
		open = append(open, a)
	}
	_, err := svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: svmfault.Watch})
	require.ErrorContains(t, err, "too many arenas")
	require.NoError(t, open[3].Close())
	open[3], err = svm.New(svm.Options{Name: "test", Size: 1 << 20, Watch: svmfault.Watch})
	require.NoError(t, err)
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("GODWIT_DEBUG", "leaks,svm")
	require.NotNil(t, svmfault.FromEnvironment())
	t.Setenv("GODWIT_DEBUG", "leaks")
	require.Nil(t, svmfault.FromEnvironment())
}
