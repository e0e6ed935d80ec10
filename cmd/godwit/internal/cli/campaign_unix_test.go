//go:build unix

package cli

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/study/campaign"
)

// pointScenario takes little: points of which many are to be made.
const pointScenario = `
params: {n: {type: integer, default: 1}}
devices: [{name: d, driver: cpu, memory: 64 KiB}]
buffers: [{name: a, size: 256, fill: 1}]
commands: [{fill: a, offset: 0, size: 4 + 4 * (n % 32), pattern: 1}]
`

// fleet is a campaign's processes, which are killed and started again.
type fleet struct {
	t     *testing.T
	dir   string
	args  [][]string // of each process
	procs []*exec.Cmd
}

func (f *fleet) start(i int) {
	cmd := exec.CommandContext(f.t.Context(), built(f.t), f.args[i]...)
	cmd.Dir = f.dir
	log, err := os.OpenFile(filepath.Join(f.dir, fmt.Sprintf("%d.log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(f.t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(f.t, cmd.Start())
	require.NoError(f.t, log.Close())
	f.procs[i] = cmd
}

// kill kills a process, and starts it again.
func (f *fleet) kill(i int) {
	require.NoError(f.t, f.procs[i].Process.Kill())
	_ = f.procs[i].Wait() // it was killed
	f.start(i)
}

// begun is a campaign with workers of one job each.
func begun(t *testing.T, dir string, workers int, args ...string) *fleet {
	f := &fleet{t: t, dir: dir, args: [][]string{args}, procs: make([]*exec.Cmd, workers+1)}
	f.start(0)
	var port []byte
	require.Eventually(t, func() bool {
		port, _ = os.ReadFile(filepath.Join(dir, "store", "port")) // not yet there
		return len(port) > 0
	}, time.Minute, 10*time.Millisecond)
	for i := range workers {
		f.args = append(f.args, []string{"campaign", "work", "nats://127.0.0.1:" + strings.TrimSpace(string(port)), "--jobs", "1", "--name", fmt.Sprint("w", i)})
		f.start(i + 1)
	}
	return f
}

// killed has as many processes killed while the journal grows to some size, and waits for the end.
func (f *fleet) killed(size int64, kills int) {
	journal := func() int64 {
		info, err := os.Stat(filepath.Join(f.dir, "store", "journal.rows"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	rng := rand.New(rand.NewPCG(37, 1))
	for k := range kills {
		require.Eventually(f.t, func() bool { return journal() > size*int64(k+1)/int64(kills+2) }, 5*time.Minute, time.Millisecond, "after %d kills", k)
		f.kill(rng.IntN(len(f.procs)) * min(1, rng.IntN(4))) // the coordinator every third time
	}
	for i, p := range f.procs {
		if err := p.Wait(); err != nil {
			log, _ := os.ReadFile(filepath.Join(f.dir, fmt.Sprintf("%d.log", i))) // for the message
			require.NoError(f.t, err, "%s", log)
		}
	}
}

// files are the files below dir, by name.
func files(t *testing.T, dir string) map[string]string {
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(text)
		return err
	}))
	return out
}

// TestSearchesThatAreKilledComeToTheSame: coordinator and workers of a search in rounds get SIGKILL at random, and findings and corpus are
// those of one process, each once. GODWIT_SOAK searches for ten minutes.
func TestSearchesThatAreKilledComeToTheSame(t *testing.T) {
	search := []string{"-s", "fit,bestfit", "--objective", "fragmentation", "--seeds", "4", "--rounds", "4", "--evals", "500", "--ops", "100"}
	workers, kills := 3, 6
	if os.Getenv("GODWIT_SOAK") != "" {
		search = []string{"-s", "fit,bestfit,goodfit", "--objective", "failure", "--seeds", "16", "--rounds", "12", "--evals", "8000"}
		workers, kills = 8, 40
	}
	dir := t.TempDir()
	one := exec.CommandContext(t.Context(), built(t), append([]string{"fuzz", "--out", "one"}, search...)...)
	one.Dir = dir
	said, err := one.CombinedOutput()
	require.NoError(t, err, "%s", said)
	want := files(t, filepath.Join(dir, "one"))
	require.Greater(t, len(want), 10)

	f := begun(t, dir, workers, append([]string{"campaign", "fuzz", "--store", "store", "--out", "many"}, search...)...)
	f.killed(int64(len(strings.Join(slices.Collect(maps.Values(want)), ""))), kills)
	require.Equal(t, want, files(t, filepath.Join(dir, "many")))
}

// TestACampaignThatIsKilledComesToTheSame: coordinator and workers get SIGKILL at random, and the results are the same
// bytes as one process's. GODWIT_SOAK has 100,000 points and 100 kills.
func TestACampaignThatIsKilledComesToTheSame(t *testing.T) {
	points, kills := 10_000, 20
	if os.Getenv("GODWIT_SOAK") != "" {
		points, kills = 100_000, 100
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(pointScenario), 0o600))
	set := []string{"s.yaml", "--set", fmt.Sprintf("n=1..%d", points), "--fast", "--out"}
	whole := exec.CommandContext(t.Context(), built(t), append(append([]string{"sweep"}, set...), "one.csv", "--out", "one.jsonl")...)
	whole.Dir = dir
	said, err := whole.CombinedOutput()
	require.NoError(t, err, "%s", said)
	info, err := os.Stat(filepath.Join(dir, "one.jsonl"))
	require.NoError(t, err)

	f := begun(t, dir, 8, append(append([]string{"campaign", "serve", "--store", "store"}, set...), "many.csv", "--out", "many.jsonl")...)
	f.killed(info.Size(), kills)
	for _, ext := range []string{".csv", ".jsonl"} {
		want, err := os.ReadFile(filepath.Join(dir, "one"+ext))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "many"+ext))
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s differs", ext)
	}
}

// TestACampaignAtAServerThatExists: with a token, a name, and an allocator of one's own, which a worker runs only where it allows it by name.
func TestACampaignAtAServerThatExists(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	server, err := (&campaign.Listen{Store: t.TempDir(), Host: "127.0.0.1", Token: "secret"}).Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	at := "nats://" + server.Addr().String()
	program, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "study", "alloc", "extern", "testdata", "first.py"))
	require.NoError(t, err)
	program = "exec:python3 " + program
	search := []string{"-s", program, "--objective", "failure", "--seeds", "2", "--rounds", "2", "--evals", "20", "--ops", "30"}
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), built(t), args...)
		cmd.Dir = dir
		return cmd
	}
	said, err := run(append([]string{"fuzz", "--out", "one"}, search...)...).CombinedOutput()
	require.NoError(t, err, "%s", said)

	there := []string{"--campaign", "mine", "--token-file", token}
	co := run(slices.Concat([]string{"campaign", "fuzz", "--store", "store", "--out", "many", "--nats", at}, there, search)...)
	require.NoError(t, co.Start())
	said, err = run(append([]string{"campaign", "work", at}, there...)...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "runs only where --allow names it")
	said, err = run("campaign", "status", at).CombinedOutput()
	require.Error(t, err, "it has no token: %s", said)
	said, err = run(slices.Concat([]string{"campaign", "work", at, "--allow", program}, there)...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoError(t, co.Wait())
	require.Equal(t, files(t, filepath.Join(dir, "one")), files(t, filepath.Join(dir, "many")))
}

// TestAFullDiskStopsNothingButProgress: the store is on a disk that has no room until somebody makes some.
func TestAFullDiskStopsNothingButProgress(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	require.NoError(t, os.Mkdir(store, 0o700))
	if said, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", store).CombinedOutput(); err != nil {
		t.Skipf("no file system of a size can be had here: %v: %s", err, said)
	}
	t.Cleanup(func() { require.NoError(t, exec.CommandContext(context.Background(), "umount", "-l", store).Run()) })
	filler := filepath.Join(store, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 7<<20), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(pointScenario), 0o600))
	f := begun(t, dir, 1, "campaign", "serve", "--store", "store", "s.yaml", "--set", "n=1..4000", "--fast", "--out", "many.csv")
	log := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "0.log"))
		require.NoError(t, err)
		return string(text)
	}
	require.Eventually(t, func() bool { return strings.Contains(log(), "trying again") }, 2*time.Minute, 10*time.Millisecond)
	require.NoError(t, os.Remove(filler))
	require.NoError(t, f.procs[0].Wait(), "%s", log())
	require.NoError(t, f.procs[1].Wait())
	text, err := os.ReadFile(filepath.Join(dir, "many.csv"))
	require.NoError(t, err)
	require.Equal(t, 4001, strings.Count(string(text), "\n"))
}

// TestAJournalsDamageIsSaid: whatever is done to a store, what to do is said, and rows that are whole are not made again.
func TestAJournalsDamageIsSaid(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(pointScenario), 0o600))
	path := filepath.Join(dir, "store", "journal.rows")
	args := []string{"campaign", "serve", "--store", "store", "s.yaml", "--set", "n=1..300", "--fast", "--out", "many.csv"}
	var want string
	for _, damage := range []func(text []byte) []byte{
		nil,
		func(text []byte) []byte { return text[:len(text)/2] },
		func(text []byte) []byte { text[len(text)/3] ^= 1; return text },
	} {
		if damage != nil {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(text), 0o600))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "store", "streams")))
		}
		f := begun(t, dir, 1, args...)
		f.killed(1, 0)
		text, err := os.ReadFile(filepath.Join(dir, "many.csv"))
		require.NoError(t, err)
		if want == "" {
			want = string(text)
		}
		require.Equal(t, want, string(text))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[3] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	cmd := exec.CommandContext(t.Context(), built(t), args...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "its first line is damaged, or it is another file: move it away; godwit sweep --resume")
	moved := filepath.Join(dir, "moved.rows")
	require.NoError(t, os.Rename(path, moved))
	cmd = exec.CommandContext(t.Context(), built(t), "sweep", "s.yaml", "--set", "n=1..300", "--fast", "--out", "many.csv", "--resume", moved)
	cmd.Dir = dir
	said, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "300 of them known before")
}

// TestCampaignsSayWhatIsWrong: before anything listens.
func TestCampaignsSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, "want a scenario's file"},
		{[]string{"serve", "--example", "overlap", "--fast"}, "--store: where is the campaign to be kept?"},
		{[]string{"serve", "--example", "overlap", "--store", dir}, "want --fast, which keeps no times, or --machine"},
		{[]string{"serve", "--example", "overlap", "--store", dir, "--fast", "--listen", "0.0.0.0:0"}, "anybody might connect"},
		{[]string{"serve", "--example", "overlap", "--store", dir, "--fast", "--listen", "here"}, "--listen here"},
		{[]string{"serve", "--example", "overlap", "--store", dir, "--fast", "--token-file", empty}, "it is empty"},
		{[]string{"serve", "--example", "overlap", "--store", dir, "--fast", "--tls-cert", empty}, "want all three"},
		{[]string{"work"}, "accepts 1 arg"},
		{[]string{"work", "http://here"}, "http://here: want nats://HOST:PORT"},
		{[]string{"work", "nats://127.0.0.1:"}, "nats://127.0.0.1:: want nats://HOST:PORT"},
		{[]string{"work", "nats://127.0.0.1:1", "--campaign", "a.b"}, "want letters, digits, - and _"},
		{[]string{"fuzz"}, "--store: where is the campaign to be kept?"},
		{[]string{"fuzz", "--store", dir, "-s", "nofit"}, "nofit"},
		{[]string{"fuzz", "--store", dir, "--rounds", "0"}, "--rounds must be at least 1"},
		{[]string{"fuzz", "--store", dir, "--against", "fit"}, "want two strategies"},
	} {
		_, _, err := godwit(t, append([]string{"campaign"}, c.args...)...)
		require.ErrorContains(t, err, c.want)
		require.False(t, isFailed(err), "%v", c.args)
	}
}

func TestStatusSaysThatNobodyAnswers(t *testing.T) {
	_, _, err := godwit(t, "campaign", "status", "nats://127.0.0.1:1")
	require.ErrorContains(t, err, "campaign campaign: no coordinator answers")
	require.True(t, isFailed(err))
}
