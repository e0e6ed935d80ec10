package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/mutate"
	"godwit/study/scenario"
)

// bases are the examples: what is damaged.
func bases(t testing.TB) (files []string, texts []string) {
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return files, texts
}

// long is how long a damaged scenario may go on. Some have as much to compute as a
// good one that asks for it: they are to end when they are told to.
const long = 5 * time.Second

// runMutant reads and runs a damaged scenario. It is an error, or it runs: nothing
// panics, nothing goes on where it is to end, and what is run is right.
func runMutant(t *testing.T, file, text string) (valid bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	defer watch(t, text)()
	s, err := scenario.Parse(ctx, file, []byte(text), scenario.Options{Memory: 32 << 20})
	var bad scenario.Errors
	if err != nil {
		require.ErrorAs(t, err, &bad, "%s", text)
		return false
	}
	res, err := scenario.Run(ctx, s, scenario.RunOptions{})
	if err == nil {
		require.Empty(t, res.Mismatches, "%s", text)
	}
	return true
}

// watch says which scenario it is that does not end, since the test's own limit ends
// the process without its log.
func watch(t *testing.T, text string) (stop func()) {
	alarm := time.AfterFunc(10*long, func() {
		fmt.Fprintf(os.Stderr, "%s: does not end when it is told to:\n%s\n", t.Name(), text)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
	})
	return func() { alarm.Stop() }
}

// TestDamagedScenarios: the same 300 each time, and 20,000 new ones where GODWIT_SOAK
// is set.
func TestDamagedScenarios(t *testing.T) {
	runs, seed := 300, uint64(1)
	if os.Getenv("GODWIT_SOAK") != "" {
		runs, seed = 20_000, rand.Uint64()
	}
	files, texts := bases(t)
	t.Logf("seed %d", seed)
	valid := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var most time.Duration
	for i := range runs {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		k := r.IntN(len(files))
		text := mutate.Text(r, texts[k])
		began := time.Now()
		ok := false
		if !t.Run("", func(t *testing.T) { ok = runMutant(t, files[k], text) }) {
			t.Fatalf("damaged scenario %d of seed %d", i, seed)
		}
		if ok {
			valid++
		} else {
			most = max(most, time.Since(began))
		}
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d scenarios, %d of them run; the longest refusal took %v; the Go heap grew to %d MiB", runs, valid, most, after.HeapSys>>20)
}

// FuzzRun: whole scenarios, with sizes up to 2^64 and beyond.
func FuzzRun(f *testing.F) {
	_, texts := bases(f)
	for i := range texts {
		f.Add(texts[i], uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if seed != 0 {
			text = mutate.Text(rand.New(rand.NewPCG(seed, 0)), text)
		}
		runMutant(t, "../examples/fuzz.yaml", text)
	})
}
