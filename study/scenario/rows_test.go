package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
)

// BenchmarkRowsByStamps is what simulating a copy of 1,024 rows inside a device costs beside a plain one of as many bytes.
func BenchmarkRowsByStamps(b *testing.B) {
	for name, how := range map[string]string{"plain": "size: 8 * 1024", "rows": "size: 8, rows: 1024, pitch: 64 KiB"} {
		s, err := Parse(b.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu}]
buffers: [{name: a, size: 64 MiB}, {name: b, size: 8 KiB}]
commands:
- {fill: a, pattern: 1}
- repeat: 100
  do: [{copy: a, to: b, `+how+`}]
`), Options{})
		require.NoError(b, err)
		m, err := machine.Parse("m.yaml", []byte(ownMachine), machine.Options{Devices: 1})
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				res, err := Run(b.Context(), s, RunOptions{Machine: m, Stamps: true})
				require.NoError(b, err)
				require.True(b, res.Verified)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(100*b.N), "us/copy")
		})
	}
}

// BenchmarkHaloByStamps has columns in tiles, so that launches find thousands of runs.
func BenchmarkHaloByStamps(b *testing.B) {
	s, err := Load(b.Context(), "../../docs/study/halo9.yaml", Options{})
	require.NoError(b, err)
	m, err := machine.Named("h200-nvlink", machine.Options{Devices: len(s.Devices)})
	require.NoError(b, err)
	for b.Loop() {
		res, err := Run(b.Context(), s, RunOptions{Machine: m, Stamps: true})
		require.NoError(b, err)
		require.True(b, res.Verified)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(len(s.Commands)*b.N), "us/command")
}
