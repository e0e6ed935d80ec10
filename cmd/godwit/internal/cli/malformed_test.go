//go:build unix

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/icd/devicefile"
	"godwit/internal/mutate"
	"godwit/study/alloc/formats"
	"godwit/study/machine"
	"godwit/study/scenario"
)

// ours is the most memory that this process has had, in KiB, and some. A child begins with
// that in its figures, which counts where the race detector has made it large.
func ours() int64 {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return use.Maxrss + use.Maxrss/8
}

// fileKind is a kind of file that strangers write, and how the command reads it.
type fileKind struct {
	name  string
	texts []string // to damage
	ext   string
	args  func(file string) []string
	sound func(t *testing.T, file, text string) bool // whether it is still a good one
}

// firstLines are the first n lines of a text.
func firstLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[:min(n, len(lines))], "")
}

func fileKinds(t *testing.T) []fileKind {
	var scenarios, traces []string
	files, err := filepath.Glob("../../../../examples/*.yaml")
	require.NoError(t, err)
	root, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		scenarios = append(scenarios, strings.ReplaceAll(string(text), "../../", root+"/"))
	}
	csv, err := filepath.Glob("../../../../testdata/traces/minimalloc/*.csv")
	require.NoError(t, err)
	text, err := os.ReadFile(csv[0])
	require.NoError(t, err)
	mini := firstLines(string(text), 200)
	all, err := formats.ReadAllocs(t.Context(), strings.NewReader(mini), "mini")
	require.NoError(t, err)
	var godwit, rmm, pytorch bytes.Buffer
	require.NoError(t, errors.Join(all[0].WriteGodwit(&godwit), all[0].WriteRMM(&rmm), all[0].WritePyTorch(&pytorch)))
	for _, f := range []string{"vma.json", "snapshot2.pickle", "snapshot4.pickle"} {
		text, err := os.ReadFile("../../../../study/alloc/formats/testdata/" + f)
		require.NoError(t, err)
		traces = append(traces, string(text))
	}
	traces = append(traces, mini, godwit.String(), rmm.String(), pytorch.String())
	stub := stubLibrary(t)
	overlap, err := filepath.Abs(example("overlap"))
	require.NoError(t, err)
	var machines []string
	files, err = filepath.Glob("../../../../study/machine/machines/*.yaml")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		machines = append(machines, string(text))
	}
	return []fileKind{
		{"machine", machines, ".yaml", func(f string) []string { return []string{"run", overlap, "--machine", f} }, func(_ *testing.T, file, text string) bool {
			_, err := machine.Parse(file, []byte(text), machine.Options{Devices: 2})
			return err == nil
		}},
		{"scenario", scenarios, ".yaml", func(f string) []string { return []string{"run", f, "--memory", "64MiB"} }, func(t *testing.T, file, text string) bool {
			s, err := scenario.Parse(t.Context(), file, []byte(text), scenario.Options{Memory: 64 << 20})
			if err == nil {
				_, err = scenario.Run(t.Context(), s, scenario.RunOptions{})
			}
			var bad scenario.Errors
			return !errors.As(err, &bad)
		}},
		{"trace", traces, ".csv", func(f string) []string { return []string{"replay", f, "--repeats", "0", "--strategy", "fit"} }, func(t *testing.T, file, text string) bool {
			_, err := formats.ReadAllocs(t.Context(), strings.NewReader(text), file)
			return err == nil
		}},
		{"file of devices", []string{
			"devices:\n- {name: gpu, count: 2, memory: 64 MiB, type: gpu, device: 0}\n- {name: b}\nlinks:\n- {between: [gpu0, b], way: direct, latency: 5 us, bandwidth: 2 GB/s}\n- {from: host, to: b}\n",
		}, ".yaml", func(f string) []string { return []string{"exec", "--lib", stub, "--devices", f, "--", "true"} }, func(t *testing.T, _, text string) bool {
			_, err := devicefile.Parse("devices.yaml", []byte(text))
			return err == nil
		}},
	}
}

// TestMalformedFiles damages files of every kind until so many are malformed: each
// ends the command with exit code 2 and no panic, within 512 MiB and ten seconds of
// processor time, on whatever machine. The same 20 of each kind here; 500 new ones, within
// two seconds, where GODWIT_SOAK is set. Where a damaged file is still a good one, the command says so by another code.
func TestMalformedFiles(t *testing.T) {
	bin := built(t)
	want, seed, most := 20, uint64(1), 10*time.Second
	if os.Getenv("GODWIT_SOAK") != "" {
		want, seed, most = 500, rand.Uint64(), 2*time.Second
	}
	t.Logf("seed %d", seed)
	for k, kind := range fileKinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "damaged"+kind.ext)
			malformed, sound := 0, 0
			var slowest time.Duration
			var largest int64
			for i := 0; malformed < want; i++ {
				r := rand.New(rand.NewPCG(seed+uint64(k), uint64(i)))
				text := mutate.Text(r, kind.texts[r.IntN(len(kind.texts))])
				if kind.sound(t, file, text) {
					sound++
					continue
				}
				malformed++
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				cmd := exec.CommandContext(t.Context(), bin, kind.args(file)...)
				var errs bytes.Buffer
				cmd.Stderr = &errs
				err := cmd.Run()
				what := fmt.Sprintf("%s %d: %s\n%.2000s", kind.name, i, &errs, text)
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, what)
				require.Equal(t, exitUsage, exit.ExitCode(), what)
				require.NotContains(t, errs.String(), "goroutine ", what)
				require.NotContains(t, errs.String(), "\x1b", what)
				use, ok := exit.SysUsage().(*syscall.Rusage)
				require.True(t, ok)
				cpu := exit.UserTime() + exit.SystemTime()
				require.Less(t, cpu, most, what)
				require.Less(t, use.Maxrss, max(512<<10, ours()), "KiB: %s", what)
				slowest, largest = max(slowest, cpu), max(largest, use.Maxrss)
			}
			t.Logf("%d malformed (%d others were still good): at most %v of processor time, %d MiB", malformed, sound, slowest, largest>>10)
		})
	}
}
