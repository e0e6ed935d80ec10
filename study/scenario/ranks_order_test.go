package scenario

import "testing"

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
