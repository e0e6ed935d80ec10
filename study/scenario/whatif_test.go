package scenario_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
	"godwit/study/scenario"
)

// TestALinkTwiceAsFast: one copy over one link takes half the time of its bytes less, and nothing else changes; the critical path says
// what of it is the program's own, and a journey when it was and which way it took.
func TestALinkTwiceAsFast(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: a, size: 1000000, fill: 1}]
commands:
- {fill: a, pattern: 2, queue: d0}
- {migrate: a, queue: d1}
`), scenario.Options{})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(`
host: {bandwidth: 400 GB/s, enqueue: 1 us}
devices: [{name: g, count: 2, bandwidth: 1 TB/s}]
links:
- {between: [host, g], bandwidth: 10 GB/s}
- {between: [g, g], latency: 1 us, bandwidth: 1 GB/s}
`), machine.Options{})
	require.NoError(t, err)
	place, err := s.Place("a")
	require.NoError(t, err)
	opt := scenario.RunOptions{Machine: m}
	opt.Explain = append(opt.Explain, place)
	res, err := scenario.Run(t.Context(), s, opt)
	require.NoError(t, err)
	require.NoError(t, scenario.WhatIf(t.Context(), s, opt, res, 5))
	best := res.Model.Makespan
	for _, l := range res.Model.Links {
		if l.Twice > 0 {
			require.LessOrEqual(t, l.Twice, res.Model.Makespan)
			best = min(best, l.Twice)
		}
	}
	require.Equal(t, res.Model.Makespan-500_000, best, "the link between both")
	require.EqualValues(t, 1_001_000, res.Model.Reasons.Copy)
	require.Zero(t, res.Model.Reasons.Own, "the planner's, for a migration")
	last := res.Journeys[0].Events[1]
	require.Equal(t, "copy", last.What)
	require.EqualValues(t, 1_001_000, last.Ended-last.Started)
	require.NotEmpty(t, last.Path)
	var out strings.Builder
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "1.001ms")
}
