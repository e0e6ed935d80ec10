package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/outfile"
	"godwit/internal/process"
	"godwit/study/scenario"
)

// patient is the environment variable that has a stuckVerb go on for as long as there is
// but one signal.
const patient = "GODWIT_TEST_PATIENT"

// stuckVerb is what the test binary does as a child of itself: a verb that does
// not stop, in the middle of all that has to be undone.
func stuckVerb(file string) {
	patience := grace
	if os.Getenv(patient) != "" {
		patience = time.Hour
	}
	ctx, _ := watchSignals(patience)
	dir, _, err := process.TempDir(ctx, "", "godwit-stuck")
	if err == nil {
		_, err = outfile.Create(ctx, file)
	}
	go func() { _ = process.Run(ctx, exec.CommandContext(context.WithoutCancel(ctx), "sleep", "1000")) }()
	for err == nil { // until the child runs
		if left, _ := filepath.Glob("/proc/self/task/*/children"); len(left) > 0 {
			text, _ := os.ReadFile(left[0])
			for _, l := range left[1:] {
				more, _ := os.ReadFile(l)
				text = append(text, more...)
			}
			if len(bytes.TrimSpace(text)) > 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready", dir, err)
	select {}
}

// signalled is a verb that was sent signals, and what is left of it.
type signalled struct {
	code     int // as shells say it
	out, err string
	took     time.Duration // from the last signal to the end
}

// send starts cmd and sends the signals, each after its delay; the first delay
// counts from the first line where ready is set.
func send(t *testing.T, cmd *exec.Cmd, ready bool, signals ...delayed) signalled {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	watchdog := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	defer watchdog.Stop()
	stdout := bufio.NewReader(pipe)
	if ready {
		line, err := stdout.ReadString('\n')
		require.NoError(t, err, "%s", &errs)
		require.Contains(t, line, "ready")
		out.WriteString(line)
	}
	read := make(chan error, 1)
	go func() {
		_, err := out.ReadFrom(stdout)
		read <- err
	}()
	for _, s := range signals {
		time.Sleep(s.after)
		_ = cmd.Process.Signal(s.signal) // it may have ended
	}
	last := time.Now()
	require.NoError(t, <-read)
	err = cmd.Wait()
	took := time.Since(last)
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v", err)
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return signalled{code, out.String(), errs.String(), took}
}

type delayed struct {
	signal syscall.Signal
	after  time.Duration
}

// nothingLeft requires that no process has mark in its environment, and that the
// folders hold these files only.
func nothingLeft(t *testing.T, what, mark, tmp string, rest ...string) {
	t.Helper()
	require.Eventually(t, func() bool { // a killed child needs a moment to be gone
		envs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, e := range envs {
			if text, err := os.ReadFile(e); err == nil && bytes.Contains(text, []byte(mark)) {
				return false
			}
		}
		return true
	}, 20*time.Second, 5*time.Millisecond, "a child is left: %s", what)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	for _, l := range left {
		require.Contains(t, rest, l.Name(), "a file is left: %s", what)
	}
}

func TestTheSecondSignalUndoesWhatIsHalfMade(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, signals := range [][]delayed{
		{{syscall.SIGINT, 0}, {syscall.SIGINT, 10 * time.Millisecond}},
		{{syscall.SIGTERM, 0}, {syscall.SIGINT, 10 * time.Millisecond}},
		{{syscall.SIGHUP, 0}}, // and then nothing: the grace ends it
		{{syscall.SIGQUIT, 0}},
		{{syscall.SIGABRT, 0}},
	} {
		tmp := t.TempDir()
		file := filepath.Join(tmp, "out")
		require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
		mark := "GODWIT_TEST_MARK=" + tmp
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), "GODWIT_TEST_STUCK="+file, "TMPDIR="+tmp, mark)
		if len(signals) > 1 {
			cmd.Env = append(cmd.Env, patient+"=yes")
		}
		got := send(t, cmd, true, signals...)
		require.Contains(t, got.out, "<nil>")
		if slices.Contains(crashes, signals[0].signal) { // as Go does where nobody takes them
			require.Equal(t, 2, got.code, "%s", got.err)
			require.Contains(t, got.err, "goroutine ")
		} else {
			require.Equal(t, 128+int(signals[0].signal), got.code, "%s", got.err)
			require.Contains(t, got.err, interruption{signals[0].signal}.Error()+": ended at once")
		}
		nothingLeft(t, "", mark, tmp, "out")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "old", string(text))
		t.Logf("%v: ended %v after the last", signals, got.took)
	}
}

// verbRuns are runs of every verb that take long enough to be interrupted. out is
// a file that some of them write.
func verbRuns(t *testing.T, dir, out string) map[string][]string {
	long := filepath.Join(dir, "long.yaml")
	require.NoError(t, os.WriteFile(long, []byte(`
devices: [{name: d, driver: cpu, count: 2, memory: 64 MiB}]
buffers: [{name: a, size: 1 MiB, ramp: uint}, {name: b, size: 1 MiB}]
commands:
- {repeat: 2000, as: i, do: [{fill: a, offset: i * 4, size: 4, pattern: {uint: i}, queue: "d{i % 2}"}, {copy: a, to: b, queue: "d{(i + 1) % 2}"}]}
`), 0o600))
	swept := filepath.Join(dir, "swept.yaml")
	require.NoError(t, os.WriteFile(swept, []byte(`
params: {n: {type: integer, default: 64}}
devices: [{name: d, driver: cpu, count: 2, memory: 64 MiB}]
buffers: [{name: a, size: 256 KiB, ramp: float}, {name: b, size: 256 KiB, ramp: float}, {name: c, size: 256 KiB}]
commands:
- {repeat: n, as: i, do: [{launch: matmul, queue: "d{i % 2}", global: [64, 64], args: [a, b, c, 64, 64, 64]}]}
`), 0o600))
	trace := filepath.Join(dir, "t.csv")
	var b strings.Builder
	b.WriteString("op,id,bytes,time_us\n")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		fmt.Fprintf(&b, "a,%d,%d,0\n", i, 1+r.IntN(1<<20))
		if i >= 1000 {
			fmt.Fprintf(&b, "f,%d,,0\n", i-1000)
		}
	}
	require.NoError(t, os.WriteFile(trace, []byte(b.String()), 0o600))
	runs := map[string][]string{
		"run":            {"run", long, "--timeline", out},
		"run --json":     {"run", long, "--json"},
		"run --machine":  {"run", long, "--machine", "h200x2-pcie", "--timeline", out},
		"run kernels":    {"run", swept, "--set", "n=5000", "--json"},
		"sweep":          {"sweep", swept, "--set", "n=1..60", "--fast", "--resume", "--out", filepath.Join(dir, "swept.csv"), "--plot", out},
		"sweep machines": {"sweep", swept, "--set", "n=1..60", "--machine", "h200x2-pcie,h200x2-nvlink", "--json"},
		"compare":        {"compare", long, "--policy", "lru,cost", "--json"},
		"predict":        {"predict", long, "--machine", "h200x2-pcie", "--json"},
		"machines":       {"machines", "--json"},
		"calibrate":      {"calibrate", "--driver", "cpu", "--count", "2", "--json"},
		"schema":         {"schema", "scenario"},
		"devices":        {"devices", "--json"},
		"replay":         {"replay", trace, "--repeats", "1", "--report", out, "--json"},
		"fuzz":           {"fuzz", "--evals", "1000000", "--json", "--out", filepath.Join(dir, "found")},
		"fuzz exec":      {"fuzz", "--evals", "1000000", "--json", "--out", filepath.Join(dir, "found2"), "--strategy", "exec:python3 ../../../../study/alloc/extern/testdata/first.py"},
		"bench alloc":    {"bench", "alloc", "--live", "1000", "--pairs", "20000", "--json"},
		"bench pool":     {"bench", "pool", "--json"},
		"bench migrate":  {"bench", "migrate", "--sizes", "1MiB,16MiB", "--json"},
		"bench transfer": {"bench", "transfer", "--sizes", "1MiB,16MiB", "--json"},
		"replay lib":     {"replay", trace, "--repeats", "1", "--json", "--strategy", "lib:" + cLibrary(t)},
		"replay exec":    {"replay", trace, "--repeats", "0", "--json", "--strategy", "exec:python3 ../../../../study/alloc/extern/testdata/first.py"},
		"replay hangs":   {"replay", trace, "--repeats", "0", "--json", "--strategy", "lib:" + cLibrary(t, "-DHANG"), "--faults", filepath.Join(dir, "faults")},
		"trace perturb":  {"trace", "perturb", trace, "--to", "pytorch", "--out", out},
		"trace shrink":   {"trace", "shrink", trace, "--keep", "fit > 1.0001", "--to", "pytorch", "--out", out},
		"exec":           {"exec", "--lib", stubLibrary(t), "--json", "--", "sleep", "3"},
	}
	return runs
}

// TestSignalsAtRandomMomentsInEveryVerb: the exit code is that of the signal, or of
// the verb where that was faster; nothing is left; a file is as it was, or complete.
// 500 runs where GODWIT_SOAK is set.
func TestSignalsAtRandomMomentsInEveryVerb(t *testing.T) {
	bin, dir := built(t), t.TempDir()
	out := filepath.Join(t.TempDir(), "out")
	verbs := verbRuns(t, dir, out)
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range verbs {
			if !yield(n) {
				return
			}
		}
	})
	cache := t.TempDir() // of PoCL's: a user's own is shared with whoever runs
	runs, seed, latest := len(names), uint64(1), 300_000
	if os.Getenv("GODWIT_SOAK") != "" {
		runs, seed, latest = 500, rand.Uint64(), 900_000
	}
	t.Logf("seed %d, %d runs", seed, runs)
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}
	var worst, worst2 time.Duration
	slowest := ""
	codes := make(map[int]int)
	for i := range runs {
		name := names[i%len(names)]
		require.NoError(t, os.WriteFile(out, []byte("old"), 0o600))
		tmp := t.TempDir()
		mark := "GODWIT_TEST_MARK=" + tmp
		cmd := exec.CommandContext(t.Context(), bin, verbs[name]...)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "POCL_CACHE_DIR="+cache, mark)
		signals := []delayed{{kinds[r.IntN(len(kinds))], time.Duration(r.IntN(latest)) * time.Microsecond}}
		if r.IntN(3) == 0 {
			signals = append(signals, delayed{kinds[r.IntN(len(kinds))], time.Duration(r.IntN(50_000)) * time.Microsecond})
		}
		got := send(t, cmd, false, signals...)
		what := fmt.Sprintf("run %d: %s %v: exit %d\n%s\n%s", i, name, signals, got.code, got.out, got.err)
		// Two that come before the process looks come in the order of their numbers.
		crashed := slices.ContainsFunc(signals, func(d delayed) bool { return slices.Contains(crashes, d.signal) })
		require.True(t, crashed && got.code == 2 || got.code == 0 || slices.ContainsFunc(signals, func(d delayed) bool { return got.code == 128+int(d.signal) }) ||
			strings.HasPrefix(name, "bench ") && got.code == exitFailed && (strings.Contains(got.err, "no OpenCL") || strings.Contains(got.err, "device not found")) ||
			// While PoCL compiles, LLVM has handlers of its own: it removes its files and swallows the signal.
			crashed && got.code == exitFailed && strings.Contains(got.err, "unable to rename temporary"), what)
		require.NotContains(t, got.err, "panic:", what)
		require.True(t, crashed && got.code == 2 || !strings.Contains(got.err, "goroutine "), what)
		nothingLeft(t, what, mark, tmp)
		beside, err := os.ReadDir(filepath.Dir(out))
		require.NoError(t, err)
		require.Len(t, beside, 1, what)
		text, err := os.ReadFile(out)
		require.NoError(t, err)
		require.True(t, string(text) == "old" || json.Valid(text) || bytes.HasSuffix(bytes.TrimSpace(text), []byte("</html>")), what)
		if strings.Contains(strings.Join(verbs[name], " "), "--json") && len(signals) == 1 {
			for line := range strings.Lines(got.out) {
				if name == "sweep machines" && !crashed { // rows
					require.True(t, json.Valid([]byte(line)), what)
				}
			}
			require.True(t, got.out == "" || crashed && got.code == 2 || name == "sweep machines" || json.Valid([]byte(got.out)), what)
		}
		codes[got.code]++
		if len(signals) == 1 {
			if got.took > worst {
				worst, slowest = got.took, name
			}
		} else {
			worst2 = max(worst2, got.took)
		}
	}
	t.Logf("exit codes %v; the longest from one signal to the end %v (%s), from the second %v", codes, worst, slowest, worst2)
}

// A signal is what the JSON object of an interrupted run says, and not that a context ended.
func TestAnInterruptedRunNamesTheSignal(t *testing.T) {
	for args, kind := range map[string]any{"--summary": &scenario.Digest{}, "--stats": &scenario.Result{}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interruption{syscall.SIGTERM})
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs([]string{"run", example("halo"), "--json", args})
		err := root.ExecuteContext(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, json.Unmarshal(out.Bytes(), kind), "%s", &out)
		require.Contains(t, out.String(), `"error": "interrupted by SIGTERM"`)
	}
}
