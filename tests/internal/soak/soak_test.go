package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSuitesAreFoundInTheSources(t *testing.T) {
	all, err := findSuites("../../..")
	require.NoError(t, err)
	byName := make(map[string]suite)
	for _, s := range all {
		byName[s.name] = s
	}
	m := byName["tests/metamorphic/metamorphic"]
	require.Contains(t, m.tests, "TestHistoriesAgreeWithOneFlatMemory")
	require.Contains(t, byName["migration/history"].tests, "TestManyHistories")
	require.True(t, byName["migration/waits"].rapid)
	require.Equal(t, "FuzzParse", byName["study/scenario/FuzzParse"].fuzz)
	require.Contains(t, byName["tests/opencl/apart"].tests, "TestGoroutinesThatComeAndGoBesideOthersOnRealDevices")
	require.NotContains(t, byName, "tests/layering", "nothing in it is random")
	args := byName["migration/waits"].args(options{checks: 7})
	require.Contains(t, args, "-rapid.checks=7")
	require.Contains(t, byName["study/scenario/FuzzParse"].args(options{fuzzTime: time.Minute}), "1m0s")
}

func TestWhatSuitesLogIsCounted(t *testing.T) {
	var x tally
	x.add(`=== RUN   TestA
    a_test.go:10: metamorphic: first seed 17: 5 histories over 2 of 3 configurations, 1,000 commands, 20 refused for want of memory, 300 bytes moved (the lower bound), 400 bytes read and compared
metamorphic: 1000 commands, first seed 17
    b_test.go:11: [rapid] OK, passed 100 tests (1s)
fuzz: elapsed: 3s, execs: 50 (16/sec)
fuzz: elapsed: 6s, execs: 90 (16/sec)
--- PASS: TestA (1.00s)
`)
	require.Equal(t, tally{Commands: 1000, Drawn: 5 + 100 + 90, Faults: 20, Bytes: 700, Seeds: []string{"17"}}, x)
}

// A soak of a module with two suites: both get turns, it stops when the time is
// over, goes on where it was, and keeps what failed.
func TestASoakTakesTurnsAndGoesOn(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o666))
	}
	write("go.mod", "module example.com/m\n\ngo 1.25\n")
	head := "import (\"os\"; \"testing\")\n"
	write("a/a_test.go", "package a\n"+head+"func TestGood(t *testing.T) { t.Log(os.Getenv(\"GODWIT_SOAK\") + \"0 commands, seed 3\") }\n")
	write("c/c_test.go", "package c\n"+head+`func TestLong(t *testing.T) { if os.Getenv("GODWIT_SOAK") != "" { t.Log(os.Getenv("GODWIT_SOAK_COMMANDS")+" commands, first seed "+os.Getenv("GODWIT_SEED")) } }`)
	write("b/b_test.go", "package b\n"+head+"func TestBad(t *testing.T) { if os.Getenv(\"GODWIT_SOAK\") != \"\" { t.Fatal(\"broken by seed 4\") } }\n")
	t.Chdir(root)
	o := options{length: time.Nanosecond, dir: "soak", checks: 1, fuzzTime: time.Second}
	failed, err := run(t.Context(), o)
	require.NoError(t, err)
	require.False(t, failed)
	s, err := load("soak/state.json", time.Nanosecond)
	require.NoError(t, err)
	require.Len(t, s.Suites, 1, "the time was over after one turn")
	require.EqualValues(t, 10, s.Suites["a/a"].Commands)

	o.length = s.took() + time.Nanosecond
	failed, err = run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, failed)
	s, err = load("soak/state.json", o.length)
	require.NoError(t, err)
	require.Equal(t, 1, s.Suites["a/a"].Turns, "it has had more time than the other")
	require.Equal(t, 1, s.Suites["b/b"].Failed)
	require.Equal(t, []string{"4"}, s.Suites["b/b"].Seeds)
	text, err := os.ReadFile("soak/failures/b_b.1.log")
	require.NoError(t, err)
	require.Contains(t, string(text), "broken by seed 4")
	var out bytes.Buffer
	s.print(&out)
	require.Contains(t, out.String(), "2 suites")

	o.commands, o.seed, o.only = 12, 34, "c/"
	for n := range 2 { // whatever ran before
		_, err = run(t.Context(), o)
		require.NoError(t, err)
		s, err = load("soak/state.json", o.length)
		require.NoError(t, err)
		require.Equal(t, n+1, s.Suites["c/c"].Turns)
	}
	require.EqualValues(t, 24, s.Suites["c/c"].Commands)
	require.Equal(t, []string{"34", "34"}, s.Suites["c/c"].Seeds)

	o.commands, o.seed, o.only = 0, 0, "none"
	o.length = time.Hour
	_, err = run(t.Context(), o)
	require.ErrorContains(t, err, "no suite")
}
