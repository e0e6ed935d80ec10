package compare_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/cpu"
	"godwit/mem"
	"godwit/study/compare"
	"godwit/study/scenario"
)

const turns = `
params: {n: {type: integer, default: 3}, late: {type: integer, default: 0}, value: {type: integer, default: 1}}
devices: [{name: d, driver: cpu, count: 2, memory: 1 MiB}]
buffers: [{name: a, size: 1 KiB, fill: 1}, {name: b, size: 1 KiB, fill: 2}]
commands:
- {read: b, queue: "d{late}"}
- {repeat: n, as: i, do: [{fill: a, pattern: value, queue: "d{i % 2}"}, {read: a, queue: "d{1 - i % 2}"}]}
- {read: b, queue: d0}
`

func variant(t *testing.T, name string, set map[string]string) compare.Variant {
	t.Helper()
	s, err := scenario.Parse(t.Context(), name, []byte(turns), scenario.Options{Set: set})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{})
	require.NoError(t, err)
	return compare.Of(name, res)
}

func TestEqualRunsDoNotDiffer(t *testing.T) {
	c, err := compare.Runs(variant(t, "x", nil), variant(t, "y", nil))
	require.NoError(t, err)
	require.False(t, c.Differ())
	require.True(t, c.OK())
	require.Equal(t, []compare.Row{{Name: "d0 → d1", Bytes: []uint64{2048, 2048}}, {Name: "d1 → d0", Bytes: []uint64{1024, 1024}}, {Name: "host → d0", Bytes: []uint64{1024, 1024}}}, c.Links)
	require.Equal(t, []compare.Row{{Name: "read", Bytes: []uint64{4096, 4096}}}, c.Kinds)
	_, err = compare.Runs(variant(t, "x", nil))
	require.ErrorIs(t, err, mem.ErrInvalidValue)
}

// TestWhereRunsPart: the first other command, the first same one with other effects, and
// the end of the shorter run.
func TestWhereRunsPart(t *testing.T) {
	base := variant(t, "base", nil)
	for _, c := range []struct {
		name     string
		set      map[string]string
		commands []int
	}{
		{"another queue", map[string]string{"late": "1"}, []int{1, 1}},
		{"another text", map[string]string{"value": "2"}, []int{2, 2}},
		{"one round more", map[string]string{"n": "4"}, []int{8, 8}},
		{"one round", map[string]string{"n": "1"}, []int{4, 4}},
	} {
		got, err := compare.Runs(base, variant(t, c.name, c.set))
		require.NoError(t, err)
		require.True(t, got.Differ(), c.name)
		d := got.Differences[0]
		require.NotNil(t, d.Commands, c.name)
		require.Equal(t, c.commands, []int{d.Commands.First.Number, d.Commands.Other.Number}, c.name)
	}
	out, err := json.Marshal(base)
	require.NoError(t, err)
	require.Contains(t, string(out), `"bytes_moved":4096`)
}

// TestTheSameCommandsWithOtherEffects: short memory, two policies.
func TestTheSameCommandsWithOtherEffects(t *testing.T) {
	const text = `
devices: [{name: dev, driver: cpu, memory: 8 KiB}]
buffers: [{name: a, size: 4 KiB, fill: 1}, {name: b, size: 4 KiB, fill: 1, count: 2}]
commands:
- {read: a, queue: dev}
- {read: b0, queue: dev}
- {read: b1, queue: dev}
- {read: a, queue: dev}
`
	of := func(policy string) compare.Variant {
		s, err := scenario.Parse(t.Context(), "s", []byte(text), scenario.Options{Policy: policy})
		require.NoError(t, err)
		res, err := scenario.Run(t.Context(), s, scenario.RunOptions{})
		require.NoError(t, err)
		return compare.Of(policy, res)
	}
	c, err := compare.Runs(of("lru"), of("belady"))
	require.NoError(t, err)
	d := c.Differences[0]
	require.Nil(t, d.Commands)
	require.Equal(t, 3, d.Effects.First.Number)
	require.Equal(t, []string{"drop 4 KiB of a, from dev", "4 KiB of b1 at 0, host → dev, direct"}, d.Effects.First.Effects)
	require.Equal(t, []string{"drop 4 KiB of b0, from dev", "4 KiB of b1 at 0, host → dev, direct"}, d.Effects.Other.Effects)
}
