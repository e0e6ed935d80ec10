package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/compare"
)

// TestComparisons: what they show, and with which exit code they end.
func TestComparisons(t *testing.T) {
	for _, c := range []struct {
		args []string
		exit int
		want string // in what is printed, or in the error
	}{
		{[]string{example("pingpong"), example("overlap")}, 0, "pingpong and overlap first differ in their commands:"},
		{[]string{"--example", "overlap", example("overlap")}, 0, "the same commands, which needed the same"},
		{[]string{"--example", "overlap", example("overlap"), "--exit-code"}, 0, "the same commands"},
		{[]string{example("pingpong"), example("overlap"), "--exit-code"}, 1, "the runs differ"},
		{[]string{"--example", "matmul-tiles", "--policy", "cost,belady"}, 0, "first differ in what a command needed:"},
		{[]string{"--example", "matmul-tiles", "--policy", "none,belady"}, 1, "not all runs were as expected: policy=none"},
		{[]string{"--example", "overlap"}, 2, "1 run: want 2 to 8"},
		{[]string{"--example", "training-step", "--set", "steps=1..9"}, 2, "9 runs: want 2 to 8"},
		{[]string{"--example", "training-step", "--set", "stesp=1,2"}, 2, `did you mean "steps"?`},
		{nil, 2, "which?"},
		{[]string{"none.yaml", example("overlap")}, 2, "no such file"},
	} {
		out, _, err := godwit(t, append([]string{"compare"}, c.args...)...)
		require.Equal(t, c.exit, exitCode(new(interrupts), err), "%v: %v", c.args, err)
		if err != nil {
			out += err.Error()
		}
		require.Contains(t, out, c.want, "%v", c.args)
	}
}

func TestComparisonsAreJSONToo(t *testing.T) {
	out, _, err := godwit(t, "compare", "--example", "overlap", "--driver", "cpu,tce", "--json")
	require.NoError(t, err)
	var got compare.Comparison
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Variants, 2)
	require.Equal(t, "driver=cpu", got.Variants[0].Name)
	require.EqualValues(t, 9472, got.Variants[1].Digest.BytesMoved)
	require.Equal(t, []compare.Row{{Name: "right → left", Bytes: []uint64{6400, 6400}}, {Name: "left → right", Bytes: []uint64{3072, 3072}}}, got.Links)
	require.Len(t, got.Differences, 1)
	require.Nil(t, got.Differences[0].Commands)
}

// What takes no bytes can be set side by side and swept without them.
func TestStampsAreForComparisonsAndSweeps(t *testing.T) {
	args := []string{"../../../../docs/study/halo9.yaml", "--set", "n=64", "--set", "px=1,2", "--machine", "h200-nvlink"}
	for _, verb := range []string{"compare", "sweep"} {
		_, _, err := godwit(t, append([]string{verb}, args...)...)
		require.ErrorContains(t, err, "has no code", verb)
		out, _, err := godwit(t, append([]string{verb, "--stamps"}, args...)...)
		require.NoError(t, err, verb)
		require.Contains(t, out, "px", verb)
		_, _, err = godwit(t, verb, "--stamps", "--example", "halo")
		require.ErrorContains(t, err, "want --machine, too", verb)
	}
}
