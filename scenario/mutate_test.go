package scenario_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/scenario"
	"godwit/tests/mutate"
)

// bases are the examples: what is damaged.
func bases(t testing.TB) (files []string, texts []string) {
	files, err := filepath.Glob("../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return files, texts
}

// runMutant reads and runs a damaged scenario. It is an error, or it runs: nothing
// panics, nothing hangs, and what is run is right.
func runMutant(t *testing.T, file, text string) (valid bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := scenario.Parse(ctx, file, []byte(text), scenario.Options{Memory: 32 << 20})
	var bad scenario.Errors
	if err != nil {
		require.ErrorAs(t, err, &bad, "%s", text)
		return false
	}
	res, err := scenario.Run(ctx, s, scenario.RunOptions{})
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a minute was not enough:\n%s", text)
	}
	if err == nil {
		require.Empty(t, res.Mismatches, "%s", text)
	}
	return true
}

// TestDamagedScenarios: 300 here, 20,000 where GODWIT_SOAK is set, new ones each
// time.
func TestDamagedScenarios(t *testing.T) {
	runs := 300
	if os.Getenv("GODWIT_SOAK") != "" {
		runs = 20_000
	}
	files, texts := bases(t)
	seed := uint64(time.Now().UnixNano())
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
