package scenario_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
	"godwit/study/scenario"
)

// TestASteadyRoundTakesNoLongerThanItsCommandsEnqueued, on three machines, and moves what its bound says.
func TestASteadyRoundTakesNoLongerThanItsCommandsEnqueued(t *testing.T) {
	for _, x := range []struct {
		file string
		set  map[string]string
	}{
		{"graph-halo", map[string]string{"rounds": "12"}},
		{"graph-halo", map[string]string{"rounds": "12", "width": "2048"}},
		{"graph-halo", map[string]string{"rounds": "12", "width": "512", "height": "512"}},
		{"graph-training", map[string]string{"steps": "12"}},
		{"graph-training", map[string]string{"steps": "12", "layers": "2", "width": "256", "batch": "64"}},
		{"graph-training", map[string]string{"steps": "12", "layers": "12"}},
		{"graph-training", map[string]string{"steps": "12", "batch": "512"}},
		{"graph-decoder", map[string]string{"tokens": "16"}},
		{"graph-decoder", map[string]string{"tokens": "16", "cache": "2", "width": "512"}},
		{"graph-decoder", map[string]string{"tokens": "24", "cache": "8"}},
	} {
		for _, name := range []string{"gpux4-switch", "h200x4-nvlink", "h200x4-pcie"} {
			steady := func(graph string) (scenario.Digest, bool) {
				s, err := scenario.Load(t.Context(), "../../examples/"+x.file+".yaml", scenario.Options{Set: x.set, Graph: graph})
				require.NoError(t, err)
				m, err := machine.Named(name, machine.Options{Devices: len(s.Devices)})
				require.NoError(t, err)
				res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m, Unverified: true})
				require.NoError(t, err)
				return *res.Digest(), res.Graphs[0].Plain == 0
			}
			on, prepared := steady("on")
			off, _ := steady("off")
			what := []any{"%s %v on %s", x.file, x.set, name}
			require.True(t, prepared, what...)
			require.Equal(t, on.BytesSteadyBound, on.BytesSteady, what...)
			require.Positive(t, on.Steady, what...)
			require.LessOrEqual(t, on.Steady, off.Steady, what...)
		}
	}
}
