package machine

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMachineIsWhatItsExportedFieldsSay: from these alone, as JSON, the same machine is
// made again; so whoever hashes them leaves nothing out. The file has every key.
func TestAMachineIsWhatItsExportedFieldsSay(t *testing.T) {
	m, err := Parse("m.yaml", []byte(`
name: whole
about: all keys
host: {memory: 1 GiB, bandwidth: 1 GB/s, enqueue: 1 us, poll: 2 us, other: 3 us, call: 4 us, threads: {dispatcher: 2, pilot: 3}, wake: 5 us, first: {each: 1 us, bandwidth: 1 GB/s}, pageable: 2 GB/s, copy: 1 GB/s}
devices:
- {name: a, type: gpu, memory: 1 GiB, local: 1 KiB, compute_units: 2, bandwidth: 2 GB/s, rate: 1 Gop/s, launch: 1 us, copy: 2 us, rows: 3 ns, row_bytes: 32 B, pageable_up: {1 KiB: 1 us}, pageable_down: {1 KiB: 2 us}, copies_wait_for_kernels: [up, peer], cores: 4, kernels_at_once: 2, copies: {in: 2, out: 1}, windows: {from: 1 MiB, latency: 1 us, bandwidth: 1 GB/s}, kernels: [{name: k, time: 1 us}, {name: l, operations: 2, power: 1.5}, {name: m, table: {1 KiB: 1 us}}, {name: n, tables: {4: {1 KiB: 1 us}}}]}
- {name: b, count: 2, copies: 1, classes: {launch: {enqueue: 1 us, submit: 2 us, setup: 3 us}, peer: {by: pilot, hold: 3 us}}, handover: {queue: {delay: 1 us}, library-pilot: {hold: 1 us, delay: 2 us}}}
switches: [{name: s, bandwidth: 3 GB/s, peers: false}]
links:
- {between: [host, s], latency: 1 us, bandwidth: 1 GB/s, both: 1500 MB/s}
- {between: [s, a], latency: 1 us, bandwidth: 1 GB/s}
- {between: [s, b], latency: 1 us, bandwidth: 1 GB/s}
- {from: a, to: b, latency: 2 us, bandwidth: 1 GB/s}
chunk: 64 KiB
staging: 8 MiB
exact: true
seed: 3
`), Options{})
	require.NoError(t, err)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	again := &Machine{}
	require.NoError(t, json.Unmarshal(text, again))
	again.build()
	require.Equal(t, m, again)
}

// TestSoIsOneOfSeveralHosts, with what groups and a topology make.
func TestSoIsOneOfSeveralHosts(t *testing.T) {
	m, err := Parse("m.yaml", []byte(`
params: {n: {type: integer, default: 2}}
host: {bandwidth: 1 GB/s, threads: {dispatcher: 1, program: 2}}
groups:
- {repeat: n, as: b, hosts: [{name: "h{b}"}], devices: [{name: "g{b}_", count: n, cores: 4}], links: [{between: ["h{b}", "g{b}_"], bandwidth: 1 GB/s}]}
topology: {kind: fat-tree, radix: 4, levels: 2, name: t, of: ["g*", "h*"], bandwidth: 1 GB/s, switch: {bandwidth: 5 GB/s}}
`), Options{})
	require.NoError(t, err)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	again := &Machine{}
	require.NoError(t, json.Unmarshal(text, again))
	again.build()
	require.Equal(t, m, again)
}
