package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const summing = `
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: a, size: 4 KiB, fill: {float: 1}}, {name: b, size: 4 KiB}]
commands:
- {write: b, ramp: float, queue: d1, blocking: true}
- {launch: saxpy, queue: d0, global: 64, args: [b, a, {float: 0.5}, 1024]}
- {launch: scale, queue: d1, global: 64, args: [a, b, {float: 2}, 1024]}
- {read: b, queue: d1, blocking: true}
expect: [{copies: 1}]
`

// Commands that run several times go on with what the time before has left, each time is
// verified, and only those that count are told.
func TestRepeatedCommandsGoOnWithTheContent(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(summing), Options{Times: 5, Warm: 2})
	require.NoError(t, err)
	res, err := Run(t.Context(), s, RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	require.Empty(t, res.Expect, "expectations are of one time")
	require.Equal(t, uint64(5*4+2*4+3*4+2*4)<<10, res.BytesCompared, "each read and both buffers, five times without times and three with them")
	m := res.Makespans
	require.Len(t, m.Each, 3)
	require.Equal(t, "this computer", m.Clock)
	require.Positive(t, m.Least)
	require.True(t, m.Least <= m.Median && m.Median <= m.Most)
	tiles(t, res)
	var out strings.Builder
	res.Print(&out, PrintOptions{})
	require.Contains(t, out.String(), "the median of 3 times")
	require.Contains(t, out.String(), "after 2 that do not count")
	var csv strings.Builder
	require.NoError(t, res.WriteCSV(&csv))
	require.Equal(t, 1+4+2, strings.Count(csv.String(), "\n"), "the last time's commands and copies: %s", &csv)
}

// tiles wants the critical path of a measured run to leave out nothing.
func tiles(t *testing.T, res *Result) {
	t.Helper()
	m := res.Measured
	at := m.Began
	var sum uint64
	for _, p := range m.Path {
		require.Equal(t, at, p.From)
		require.Greater(t, p.To, p.From)
		at, sum = p.To, sum+p.To-p.From
	}
	require.Equal(t, m.Ended, at)
	require.Equal(t, m.Makespan, sum)
	require.Equal(t, sum, m.Reasons.Compute+m.Reasons.Copy+m.Reasons.Memory+m.Reasons.Host)
	require.Positive(t, m.Reasons.Compute+m.Reasons.Copy) // a kernel may have ended before the host goes on
	require.Positive(t, m.Reasons.Host)
}

func TestARunWithoutTimesOfItsOwnIsAsItWas(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(strings.Replace(summing, "copies: 1", "buffer: a, equals: reference", 1)), Options{})
	require.NoError(t, err)
	res, err := Run(t.Context(), s, RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK())
	require.Nil(t, res.Makespans)
	require.Nil(t, res.Measured)
	require.Positive(t, res.Took().Median)
}

// What is there once cannot be there several times.
func TestCommandsThatCannotRunTwiceAreRefused(t *testing.T) {
	_, err := Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu}]
buffers: [{name: a, size: 4 KiB}]
events: [go]
commands:
- {fill: a, pattern: 1, after: go}
- {set: go}
`), Options{Times: 2})
	require.ErrorContains(t, err, "a user event is set once")
}
