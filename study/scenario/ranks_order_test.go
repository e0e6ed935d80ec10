package scenario

import (
	"strings"
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

// Bytes that a device of one host left in the host's memory, and one of another takes from there, are named; not what the
// program makes for each host, nor what goes from device to device or stays with a host.
func TestWhatGoesBetweenHostsByTheirMemoryIsNamed(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: given, size: 64, fill: 1}, {name: left, size: 64}, {name: own, size: 64}, {name: again, size: 64}, {name: sent, size: 64}]
commands:
- {read: given, queue: d0}
- {read: given, queue: d1}
- repeat: 2
  do: [{fill: left, pattern: 1, queue: d0}, {migrate: left, queue: d0, to: host}, {migrate: left, queue: d1}]
- {fill: own, pattern: 1, queue: d0}
- {migrate: own, queue: d0, to: host}
- {migrate: own, queue: d0}
- {fill: again, pattern: 1, queue: d0}
- {migrate: again, queue: d0, to: host}
- {fill: again, pattern: 1, queue: d1}
- {migrate: again, queue: d1, to: host}
- {migrate: again, queue: d1}
- {fill: sent, pattern: 1, queue: d0}
- {migrate: sent, queue: d1}
`, `
hosts: [{name: box, count: 2}]
devices: [{name: a, host: box0}, {name: b, host: box1}]
links: [{between: [box0, box1], bandwidth: 1 GB/s}, {between: [box0, a], bandwidth: 9 GB/s}, {between: [box1, b], bandwidth: 1 MB/s}]
`, Options{}, RunOptions{})
	require.Equal(t, []string{"left"}, res.Model.OneMemory)
	var out strings.Builder
	res.Print(&out, PrintOptions{Summary: true})
	require.Equal(t, 1, strings.Count(out.String(), "and one of another took from there went no way between both: left\n"))
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
