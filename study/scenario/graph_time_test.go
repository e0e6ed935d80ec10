package scenario_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
	"godwit/study/scenario"
)

// timedRound is a program whose rounds are timed on three machines.
type timedRound struct {
	file string
	set  map[string]string
	// over is by machine how much of the least (its critical path, its busiest link) a steady round takes at most, and slower how much of what it
	// takes enqueued: where more than 1.1 or 1 it says why.
	over, slower map[string]float64
}

// timedRounds are ten programs, three of which are examples, in several sizes.
var timedRounds = []timedRound{
	{file: "graph-halo", set: map[string]string{"rounds": "12"}},
	{file: "graph-halo", set: map[string]string{"rounds": "12", "width": "2048"}},
	{file: "graph-halo", set: map[string]string{"rounds": "12", "width": "512", "height": "512"}},
	{file: "graph-training", set: map[string]string{"steps": "12"}},
	{file: "graph-training", set: map[string]string{"steps": "12", "layers": "2", "width": "256", "batch": "64"}},
	{file: "graph-training", set: map[string]string{"steps": "12", "layers": "12"}},
	{file: "graph-training", set: map[string]string{"steps": "12", "batch": "512"}},
	{file: "graph-decoder", set: map[string]string{"tokens": "16"}},
	{file: "graph-decoder", set: map[string]string{"tokens": "16", "cache": "2", "width": "512"}},
	{file: "graph-decoder", set: map[string]string{"tokens": "24", "cache": "8"}},
	{file: "pipeline", over: map[string]float64{"h200x4-pcie": 1.30}},                                                     // stages meet on the host's links
	{file: "all-to-all", over: map[string]float64{"gpux4-switch": 1.70, "h200x4-nvlink": 1.11, "h200x4-pcie": 1.20}},      // three copies into each device, and three out of it, meet on links
	{file: "tree", over: map[string]float64{"gpux4-switch": 1.50}},                                                        // weights go to three devices by one link at once
	{file: "kv-append", over: map[string]float64{"gpux4-switch": 1.20}, slower: map[string]float64{"gpux4-switch": 1.08}}, // likewise; enqueued, one of the three copies now and then comes from another
	{file: "stencil-1d"},
	{file: "ping-pong", slower: map[string]float64{"gpux4-switch": 1.005, "h200x4-pcie": 1.015}}, // both balls are at one link at the same time, which enqueueing keeps apart
	{file: "dag", slower: map[string]float64{"gpux4-switch": 1.01}},                              // copies ahead share links with those that somebody waits for
}

// steadyRound runs a program on a machine: replayed, or enqueued.
func steadyRound(t *testing.T, x *timedRound, name, graph string) *scenario.Result {
	t.Helper()
	file, example := filepath.Join("testdata", "rounds", x.file+".yaml"), strings.HasPrefix(x.file, "graph-")
	if example {
		file = filepath.Join("..", "..", "examples", x.file+".yaml")
	}
	s, err := scenario.Load(t.Context(), file, scenario.Options{Set: x.set, Graph: graph})
	require.NoError(t, err)
	m, err := machine.Named(name, machine.Options{Devices: len(s.Devices)})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m, Unverified: true, Stamps: !example})
	require.NoError(t, err)
	return res
}

// TestASteadyRoundTakesLittleMoreThanTheLeast, on three machines, no longer than its commands enqueued, and moves what its bound says.
func TestASteadyRoundTakesLittleMoreThanTheLeast(t *testing.T) {
	for _, x := range timedRounds {
		for _, name := range []string{"gpux4-switch", "h200x4-nvlink", "h200x4-pcie"} {
			on, off := steadyRound(t, &x, name, "on"), steadyRound(t, &x, name, "off")
			what := []any{"%s %v on %s", x.file, x.set, name}
			g, enqueued := &on.Graphs[0], &off.Graphs[0]
			require.Zero(t, g.Plain, what...)
			require.Equal(t, g.BytesBound, g.BytesSteady, what...)
			require.Positive(t, g.Steady, what...)
			require.GreaterOrEqual(t, enqueued.Steady+enqueued.Steady/1000, max(enqueued.CriticalPath, enqueued.Busiest), what...)
			share := float64(g.Steady) / float64(max(g.CriticalPath, g.Busiest))
			require.Greater(t, share, 0.999, what...)
			require.LessOrEqual(t, share, max(1.10, x.over[name]), what...)
			require.LessOrEqual(t, float64(g.Steady), max(1, x.slower[name])*float64(enqueued.Steady), what...)
		}
	}
}
