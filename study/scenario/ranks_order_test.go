package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
)

// What a blocking command needed came before what others needed while it was waited for.
func TestRanksAreExplainedInTheOrderOfTheirPlans(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: a, size: 64, fill: 1}]
commands:
- {read: a, queue: d0, blocking: true}
- {read: a, queue: d1}
`, `
hosts: [{name: box, count: 2}]
devices: [{name: a, host: box0}, {name: b, host: box1}]
switches: [{name: s}]
links:
- {between: [box0, s], bandwidth: 1 MB/s}
- {between: [box1, s], bandwidth: 1 MB/s, latency: 90 us}
- {between: [a, s], bandwidth: 9 GB/s}
- {between: [b, s], bandwidth: 9 GB/s}
`, Options{}, RunOptions{})
	if !res.Verified {
		t.Error(res.Mismatches)
	}
}

// What failed first is told, not what waits in vain since then: here the room for b, not what waits for go.
func TestOfSeveralRanksTheFirstFailureIsTold(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: x, size: 64}, {name: a, size: 1 MiB}, {name: b, size: 1 MiB}]
events: [go]
commands:
- {fill: x, pattern: 1, queue: d0, after: go}
- {fill: a, pattern: 1, queue: d1, after: go}
- {fill: b, pattern: 1, queue: d1}
- {set: go}
`), Options{})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(`
hosts: [{name: box, count: 2}]
devices: [{name: a, host: box0}, {name: b, host: box1, memory: 1 MiB}]
links: [{between: [box0, box1], bandwidth: 1 GB/s}, {between: [box0, a], bandwidth: 9 GB/s}, {between: [box1, b], bandwidth: 9 GB/s}]
`), machine.Options{})
	require.NoError(t, err)
	_, err = Run(t.Context(), s, RunOptions{Machine: m})
	require.ErrorContains(t, err, "s.yaml:8: #3 fill b")
	require.ErrorContains(t, err, "waits for a user event")
}
