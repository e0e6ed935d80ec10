package scenario

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
)

// boxed is a machine of boxes of two devices that have peers in their box alone: others copy by rings through two hosts.
const boxed = `
host: {enqueue: 5 us, poll: 1 us, other: 300 ns, threads: {program: %d}}
groups:
- repeat: %d
  as: b
  hosts: [{name: "box{b}"}]
  devices: [{name: "g{b}_", count: 2, bandwidth: 100 GB/s, rate: 1 Top/s, launch: 2 us, copy: 1 us, copies: {in: 2, out: 2}}]
  links: [{between: ["box{b}", "g{b}_"], latency: 1 us, bandwidth: 20 GB/s}, {between: ["g{b}_", "g{b}_"], latency: 1 us, bandwidth: 50 GB/s}]
switches: [{name: lan, peers: false}]
links: [{between: ["box*", lan], latency: 5 us, bandwidth: 10 GB/s}]
`

func boxes(t *testing.T, threads, n int) *machine.Machine {
	m, err := machine.Parse("boxed.yaml", fmt.Appendf(nil, boxed, threads, n), machine.Options{})
	require.NoError(t, err)
	return m
}

// TestExamplesOnSeveralHosts: whoever enqueues what, content is what the file's order makes it, moved bytes are as few, the
// critical path tiles the time, and all of it is the same each time.
func TestExamplesOnSeveralHosts(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		for _, threads := range []int{1, 2} {
			var before []byte
			for procs := range 2 {
				s, err := Load(t.Context(), file, Options{})
				require.NoError(t, err)
				s.Unrecorded = true // a graph is replayed by one
				old := runtime.GOMAXPROCS(1 + procs)
				res, err := Run(t.Context(), s, RunOptions{Machine: boxes(t, threads, max(len(s.Devices), 2)), Profile: true})
				runtime.GOMAXPROCS(old)
				require.NoError(t, err, file)
				require.True(t, res.Verified, "%s: %v", file, res.Mismatches) // what is expected of ways may depend on who reads first
				at := uint64(0)
				for _, p := range res.Model.Path {
					require.Equal(t, at, p.From, file)
					at = p.To
				}
				require.Equal(t, res.Model.Makespan, at, file)
				text, err := json.Marshal(res)
				require.NoError(t, err)
				if procs > 0 {
					require.Equal(t, string(before), string(text), file)
				}
				before = text
			}
		}
	}
}

// TestEachHostHasAClock: what hosts enqueue they enqueue at once, unless one comes after what another enqueues.
func TestEachHostHasAClock(t *testing.T) {
	const text = "devices: [{name: d, driver: cpu, count: 8}]\nbuffers: [{name: a, size: 4 KiB, count: 8}]\nqueues: [%s]\ncommands:\n- {repeat: 20, do: [{repeat: 8, as: i, do: [{fill: \"a{%s}\", pattern: 1, queue: \"%s{i}\"}]}]}\n"
	took := func(m *machine.Machine, queues, buffer, queue string) uint64 {
		s, err := Parse(t.Context(), "s.yaml", fmt.Appendf(nil, text, queues, buffer, queue), Options{})
		require.NoError(t, err)
		res, err := Run(t.Context(), s, RunOptions{Machine: m})
		require.NoError(t, err)
		require.True(t, res.OK())
		return res.Model.Makespan
	}
	each := took(boxes(t, 1, 4), "", "i", "d")
	require.InDelta(t, 20*2*5_000, each, 60_000, "two devices a host")
	require.InDelta(t, 20*5_000, took(boxes(t, 2, 4), "", "i", "d"), 40_000, "a thread for each")
	require.GreaterOrEqual(t, took(boxes(t, 1, 4), "", "0", "d"), uint64(20*8*5_000), "one buffer: the file's order")
	named := ""
	for i := range 8 {
		named += fmt.Sprintf("{name: q%d, device: d%d, host: box3}, ", i, i)
	}
	require.GreaterOrEqual(t, took(boxes(t, 1, 4), named, "i", "q"), uint64(20*8*5_000), "one host enqueues all")
	s, err := Parse(t.Context(), "s.yaml", fmt.Appendf(nil, text, "{name: q, device: d0, host: box9}", "i", "d"), Options{})
	require.NoError(t, err)
	_, err = Run(t.Context(), s, RunOptions{Machine: boxes(t, 1, 4)})
	require.ErrorContains(t, err, `s.yaml:3: queue q: host "box9": machine boxed has none of this name`)
}

// TestWhatConflictsKeepsItsOrder: of any two commands of which one writes bytes of the other, the later waits for the
// earlier, or for one that does.
func TestWhatConflictsKeepsItsOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		text := "devices: [{name: d, driver: cpu, count: 4}]\nbuffers: [{name: a, size: 64}, {name: b, size: 64, fill: 1}]\ncommands:\n"
		n := 3 + rng.IntN(30)
		for i := range n {
			at := rng.IntN(8) * 8
			size := 8 * (1 + rng.IntN(8-at/8))
			queue := rng.IntN(4)
			switch rng.IntN(8) {
			case 0, 1, 2:
				text += fmt.Sprintf("- {fill: %c, pattern: 1, offset: %d, size: %d, queue: d%d, id: c%d}\n", 'a'+rune(rng.IntN(2)), at, size, queue, i)
			case 3, 4:
				text += fmt.Sprintf("- {read: b, offset: %d, size: %d, queue: d%d, id: c%d}\n", at, size, queue, i)
			case 5:
				text += fmt.Sprintf("- {copy: b, to: a, offset: %d, to-offset: %d, size: %d, queue: d%d, id: c%d}\n", at, at, size, queue, i)
			case 6:
				text += fmt.Sprintf("- {barrier: , queue: d%d, id: c%d}\n", queue, i)
			default:
				text += fmt.Sprintf("- {migrate: b, queue: d%d, id: c%d}\n", queue, i)
			}
		}
		s, err := Parse(t.Context(), "s.yaml", []byte(text), Options{})
		require.NoError(t, err, text)
		r := &runner{s: s, model: &modelled{machine: boxes(t, 1, 2)}}
		require.NoError(t, r.rank())
		k := r.ranks
		after := make([][]bool, n) // by command: what it comes after
		for i := range n {
			after[i] = make([]bool, n)
			before := slices.Clone(k.needs[i])
			for j := range i {
				if k.of[j] == k.of[i] {
					before = append(before, int32(j))
				}
			}
			for _, j := range before {
				after[i][j] = true
				for o, is := range after[j] {
					after[i][o] = after[i][o] || is
				}
			}
			for j := range i {
				for _, u := range s.uses(&s.Commands[i]) {
					for _, o := range s.uses(&s.Commands[j]) {
						require.True(t, u.meets(o).Empty() || after[i][j], "seed %d: #%d after #%d of\n%s", seed, i+1, j+1, text)
					}
				}
			}
		}
	}
}

// TestTheStudyOfBoxes is docs/study-boxes.md in small: more hosts that enqueue are faster, and nothing moves that need not.
func TestTheStudyOfBoxes(t *testing.T) {
	makespan := func(hosts, threads string) uint64 {
		m, err := machine.Load(t.Context(), "../../docs/study/boxes.yaml", machine.Options{Set: map[string]string{"boxes": "4", "hosts": hosts, "threads": threads}})
		require.NoError(t, err)
		s, err := Load(t.Context(), "../../docs/study/boxes-halo.yaml", Options{Set: map[string]string{"gpus": "32", "px": "8", "n": "2048"}})
		require.NoError(t, err)
		res, err := Run(t.Context(), s, RunOptions{Machine: m, Stamps: true})
		require.NoError(t, err)
		require.True(t, res.OK(), "%v", res.Mismatches)
		return res.Model.Makespan
	}
	one, boxes, each := makespan("1", "1"), makespan("4", "1"), makespan("4", "8")
	require.Greater(t, one, 3*boxes)
	require.Greater(t, boxes, 2*each)
}
