package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is the command trace of an example.
func recorded(t *testing.T, args ...string) string {
	file := filepath.Join(t.TempDir(), "recorded.commands")
	_, _, err := godwit(t, append([]string{"run", "--record", file, "--summary"}, args...)...)
	require.NoError(t, err)
	return file
}

func TestReplayOfCommandsSaysWhatWouldMove(t *testing.T) {
	file := recorded(t, "--example", "matmul-tiles", "--set", "n=4", "--machine", "h200-pcie")
	text, _, err := godwit(t, "run", "--example", "matmul-tiles", "--set", "n=4", "--machine", "h200-pcie", "--json")
	require.NoError(t, err)
	var ran struct {
		Moved      uint64 `json:"bytes_moved"`
		Compulsory uint64 `json:"bytes_compulsory"`
		Capacity   uint64 `json:"bytes_capacity"`
		Bound      uint64 `json:"bytes_capacity_bound"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &ran))

	text, _, err = godwit(t, "replay", file, "--policy", "cost,belady,lru", "--memory", "recorded,50%,all", "--machine", "h200-pcie", "--json")
	require.NoError(t, err)
	var out replayOutput
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	require.Len(t, out.Commands, 9)
	first := out.Commands[0]
	require.Equal(t, ran.Moved, first.BytesMoved)
	require.Equal(t, ran.Compulsory, first.Compulsory)
	require.Equal(t, ran.Capacity, first.Summary.Capacity)
	require.Equal(t, ran.Bound, first.CapacityBound)
	require.NotZero(t, first.CapacityBound)
	for i, c := range out.Commands {
		require.True(t, c.Complete)
		require.NotZero(t, c.Makespan)
		require.Equal(t, []string{"cost", "belady", "lru"}[i%3], c.Policy)
		require.Equal(t, ran.Compulsory, c.Compulsory)
		require.GreaterOrEqual(t, c.Summary.Capacity, c.CapacityBound)
		switch i / 3 {
		case 1:
			require.Greater(t, c.Summary.Capacity, out.Commands[i-3].Summary.Capacity, "half of the memory")
		case 2:
			require.Zero(t, c.Summary.Capacity, "memory without limit")
			require.GreaterOrEqual(t, c.Each[0].Capacity, uint64(1<<30), "the machine's")
		}
	}
}

func TestARecordingMayBeStandardOutput(t *testing.T) {
	file := recorded(t, "--example", "overlap")
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	out, _, err := godwit(t, "run", "--example", "overlap", "--record", "-")
	require.NoError(t, err)
	require.Equal(t, string(want), out)
	require.NoFileExists(t, "-")
}

func TestReplayTellsTheKindsOfTracesApart(t *testing.T) {
	file, small := recorded(t, "--example", "overlap"), filepath.Join(t.TempDir(), "small.csv")
	require.NoError(t, os.WriteFile(small, []byte("id,lower,upper,size\n0,0,9,1024\n"), 0o600))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	twice, nothing := filepath.Join(t.TempDir(), "twice"), filepath.Join(t.TempDir(), "nothing")
	require.NoError(t, os.WriteFile(twice, append(slices.Clone(text), text...), 0o600))
	require.NoError(t, os.WriteFile(nothing, nil, 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{small, "--policy", "lru"}, "--policy: " + small + " is no command trace (--record of godwit exec and run), and nothing moves for others"},
		{[]string{twice}, "began before"},
		{[]string{nothing, "--memory", "1GiB"}, "--memory: " + nothing + " is no command trace"},
		{[]string{"--example", "resnet50", "--memory", "1GiB"}, "--memory: the examples are allocation traces"},
		{[]string{file, "--region", "1GiB"}, "--region: " + file + " is a command trace"},
		{[]string{file, "--example", "resnet50"}, "--example: " + file + " is a command trace"},
		{[]string{file, small}, small + ": an allocation trace, and " + file + " is a command trace"},
		{[]string{small, file}, "a command trace"},
		{[]string{file, "--policy", "mru"}, `--policy "mru": want one of belady, cost, lru, none`},
		{[]string{file, "--memory", "0%"}, `--memory "0%": want 1% to`},
		{[]string{file, "--memory", "much"}, `--memory "much": want a size`},
		{[]string{file, "--memory", ""}, `--memory "": want a size`},
		{[]string{file, "--policy", ""}, `--policy "": want one of`},
		{[]string{file, "--machine", "h200"}, "h200"},
	} {
		out, _, err := godwit(t, append([]string{"replay"}, c.args...)...)
		require.ErrorContains(t, err, c.want)
		require.Empty(t, out, "nothing is replayed")
		require.False(t, isFailed(err), "exit status 2")
	}
	cut := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(cut, text[:len(text)-3], 0o600))
	out, errOut, err := godwit(t, "replay", cut, "--policy", "lru", "--json")
	require.NoError(t, err)
	require.Contains(t, errOut, cut+": ends within a line")
	require.Contains(t, out, `"cut": true`)
	require.NotContains(t, errOut, "content size")
	out, errOut, err = godwit(t, "replay", recorded(t, "--example", "content-size"), "--policy", "lru", "--json")
	require.NoError(t, err)
	require.Contains(t, errOut, "commands a content size said how much was copied")
	require.Contains(t, out, `"counted": `)
	out, _, err = godwit(t, "replay", file, "--policy", "none", "--memory", "2%")
	require.ErrorContains(t, err, "1 replays could not go on")
	require.True(t, isFailed(err))
	require.Contains(t, out, "no room")
}
