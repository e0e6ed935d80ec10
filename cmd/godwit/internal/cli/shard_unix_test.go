//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"godwit/internal/journal"
)

// recipes are the code blocks of a section of docs/scale.md.
func recipe(t *testing.T, section string) string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/scale.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "\n## "+section+"\n")
	require.True(t, ok, section)
	block := regexp.MustCompile("(?s)```(?:sh|yaml)\n(.*?)```").FindStringSubmatch(text)
	require.NotNil(t, block, section)
	return strings.ReplaceAll(block[1], "n=1..100000", "n=1..40")
}

// asScheduled runs a script n times, some at once, in an environment that says which.
func asScheduled(t *testing.T, dir string, n int, script func(k int) string, env func(k int) []string) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(4)
	for k := range n {
		g.Go(func() error {
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", script(k))
			cmd.Dir, cmd.Env = dir, append(os.Environ(), append(env(k), "PATH="+filepath.Dir(built(t))+":"+os.Getenv("PATH"))...)
			if said, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%d: %w: %s", k, err, said)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// TestRecipesOfSchedulers runs docs/scale.md's as their schedulers would: the text as it stands, their
// variables, several processes. The results are what one process writes.
func TestRecipesOfSchedulers(t *testing.T) {
	built(t)
	whole := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(whole, "study.yaml"), []byte(sweptScenario), 0o600))
	none := func(int) []string { return nil }
	same := func(script string) func(int) string { return func(int) string { return script } }
	asScheduled(t, whole, 1, same("godwit sweep study.yaml --set n=1..40 --fast --out study.csv"), none)
	want, err := os.ReadFile(filepath.Join(whole, "study.csv"))
	require.NoError(t, err)
	var job struct {
		Spec struct {
			Completions int
			Template    struct {
				Spec struct {
					Containers []struct{ Command, Args []string }
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(recipe(t, "Kubernetes")), &job))
	container := job.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"sh", "-c"}, container.Command)
	var actions struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(recipe(t, "A matrix of CI")), &actions))
	_, parallel, ok := strings.Cut(recipe(t, "GNU parallel"), "parallel --jobs 1 ")
	require.True(t, ok)
	for name, run := range map[string]struct {
		n      int
		script func(k int) string
		env    func(k int) []string
		merge  string
	}{
		"slurm": {64, same(recipe(t, "Slurm")), func(k int) []string {
			return []string{fmt.Sprint("SLURM_ARRAY_TASK_ID=", k+1), "SLURM_ARRAY_TASK_COUNT=64", "SLURM_CPUS_PER_TASK=1"}
		}, "godwit sweep merge --out study.csv study.*-of-64.rows"},
		"kubernetes": {job.Spec.Completions, same(container.Args[0]), func(k int) []string { return []string{fmt.Sprint("JOB_COMPLETION_INDEX=", k)} },
			"godwit sweep merge --out study.csv study.*-of-64.rows"},
		"parallel": {8, func(k int) string { return strings.ReplaceAll(parallel, "{}", fmt.Sprint(k+1)) }, none,
			"godwit sweep merge --out study.csv study.*-of-8.rows"},
		"matrix": {8, func(k int) string {
			return strings.ReplaceAll(actions.Jobs["shard"].Steps[1].Run, "${{ matrix.shard }}", fmt.Sprint(k+1))
		}, none, actions.Jobs["merge"].Steps[1].Run},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "study.yaml"), []byte(sweptScenario), 0o600))
		asScheduled(t, dir, run.n, run.script, run.env)
		asScheduled(t, dir, 1, same(run.merge), none)
		got, err := os.ReadFile(filepath.Join(dir, "study.csv"))
		require.NoError(t, err, name)
		require.Equal(t, string(want), string(got), name)
	}
}

// TestMergeSaysWhatIsWrong, and what is missing is made by a sweep that resumes from all.
func TestMergeSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("s.yaml"), []byte(sweptScenario), 0o600))
	sweepIt := func(args ...string) (string, error) {
		out, _, err := godwit(t, append([]string{"sweep", at("s.yaml"), "--set", "n=1..9", "--fast", "--out", at("s.csv")}, args...)...)
		return out, err
	}
	for _, k := range []string{"1/4", "2/4", "4/4"} {
		_, err := sweepIt("--shard", k)
		require.NoError(t, err)
	}
	_, err := sweepIt("--shard", "1/4")
	require.ErrorContains(t, err, "is of a sweep that did not end")
	out, err := sweepIt("--shard", "1/4", "--resume")
	require.NoError(t, err)
	require.Contains(t, out, "3 points of 9, 3 of them known before")
	parts := []string{at("s.1-of-4.rows"), at("s.2-of-4.rows"), at("s.4-of-4.rows")}
	merge := func(files ...string) error {
		_, _, err := godwit(t, append([]string{"sweep", "merge", "--out", at("merged.csv"), "--out", at("merged.jsonl")}, files...)...)
		return err
	}
	err = merge(parts...)
	require.ErrorContains(t, err, "2 of 9 points have no row, the first is point 2, n=3")
	require.True(t, isFailed(err))
	require.ErrorIs(t, merge(at("nothing.rows")), os.ErrNotExist)
	require.ErrorContains(t, merge(at("s.yaml")), "it is no journal of this kind")
	require.ErrorContains(t, merge(), "want the journals of shards")

	out, err = sweepIt(append([]string{"--out", at("s.jsonl"), "--resume"}, parts...)...)
	require.NoError(t, err)
	require.Contains(t, out, "9 points, 7 of them known before")
	_, err = sweepIt("--shard", "3/4")
	require.NoError(t, err)
	var all []byte
	for _, file := range append(parts, at("s.3-of-4.rows")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, text...)
	}
	require.NoError(t, os.WriteFile(at("all.rows"), append(all, all...), 0o600))
	require.NoError(t, merge(at("all.rows")), "concatenated, and twice")
	for _, ext := range []string{".csv", ".jsonl"} {
		want, err := os.ReadFile(at("s" + ext))
		require.NoError(t, err)
		got, err := os.ReadFile(at("merged" + ext))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	_, _, err = godwit(t, "sweep", at("s.yaml"), "--set", "n=1..8", "--fast", "--out", at("other.csv"), "--shard", "1/1")
	require.NoError(t, err)
	require.ErrorContains(t, merge(at("all.rows"), at("other.1-of-1.rows")), "it is of another sweep than")

	head, _, _ := strings.Cut(string(all), "\n")
	row := func(point string, moved int) string {
		row := fmt.Sprintf(`{"point":%q,"parameters":{"n":1},"times":"","commands":1,"bytes_moved":%d,"ok":true}`, point, moved)
		return strings.TrimSpace(string(journal.Encode(0, []byte(row))))
	}
	require.NoError(t, os.WriteFile(at("a.rows"), []byte(head+"\n"+row("x", 1)+"\n"), 0o600))
	require.NoError(t, os.WriteFile(at("b.rows"), []byte(head+"\n"+row("x", 2)+"\n"), 0o600))
	err = merge(at("a.rows"), at("b.rows"))
	require.ErrorContains(t, err, "b.rows: point 0, n=1: two rows of one point differ")
	require.True(t, isFailed(err))
}
