package scenario

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"godwit/study/machine"
)

// modelledRun runs a scenario on a machine, both given as text.
func modelledRun(t *testing.T, scenario, on string, opt Options, run RunOptions) *Result {
	t.Helper()
	s, err := Parse(t.Context(), "s.yaml", []byte(scenario), opt)
	if err != nil {
		t.Fatal(err)
	}
	if run.Machine, err = machine.Parse("m.yaml", []byte(on), machine.Options{Devices: len(s.Devices)}); err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), s, run)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

const pairMachine = `
host: {enqueue: 1 us, call: 3 us}
devices:
- {name: g, count: 2, bandwidth: 1 TB/s, launch: 2 us, classes: {launch: {by: dispatcher}}, handover: {library-dispatcher: {delay: 40 us}}}
links: [{between: [host, g], latency: 1 us, bandwidth: 10 GB/s}]
`

func TestMarkersAndHostCallsHoldNoEngine(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 64}]
commands:
- {map: a, as: m, flags: write-invalidate, queue: right}
- {host-write: m, fill: 1}
- {unmap: m}
- {marker: right}
- {read: a, queue: right}
`, pairMachine, Options{}, RunOptions{})
	for _, e := range res.Model.Engines {
		if !strings.HasPrefix(e.Name, "right") && e.Spans > 0 {
			t.Errorf("%s has carried out %d commands, and was busy for %d ns: all are right's, or the host's", e.Name, e.Spans, e.Busy)
		}
	}
}

func TestPathOfALaterTimeBeginsWithIt(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: left, driver: cpu}]
buffers: [{name: a, size: 64, fill: 0}]
commands:
- {launch: fill_i32, global: 1, args: [a, {int: 5}, 16], queue: left} # handed over from the read of the time before
- {read: a, queue: left}
`, pairMachine, Options{Times: 4, Warm: 1}, RunOptions{})
	m, sum := res.Model, uint64(0)
	for i, p := range m.Path {
		sum += p.To - p.From
		if i > 0 && p.From != m.Path[i-1].To {
			t.Errorf("part %d begins at %d ns, the one before it ends at %d", i, p.From, m.Path[i-1].To)
		}
	}
	if sum != m.Makespan || sum != res.Took().Each[2] {
		t.Errorf("the critical path has %d ns, the last time took %d, and the makespan is %d", sum, res.Took().Each[2], m.Makespan)
	}
}

func TestLentMemoryByStampsIsEachBuffersOwn(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: left, driver: cpu}]
buffers:
- {name: a, size: 1 KiB, fill: 1, flags: use-host-ptr}
- {name: b, size: 4 KiB, fill: 2, flags: use-host-ptr}
- {name: c, size: 1 KiB, fill: 3, flags: use-host-ptr}
commands:
- {read: b, queue: left}
- {read: a, queue: left}
- {fill: b, pattern: 4, queue: host}
- {read: c, queue: left}
`, pairMachine, Options{}, RunOptions{Stamps: true})
	if !res.Verified {
		t.Errorf("not verified: %v", res.Mismatches)
	}
}

func TestStepsOfEvictionsAndOfWhatIsNoCommandOfAQueue(t *testing.T) {
	res := modelledRun(t, `
devices: [{name: left, driver: cpu, memory: 4 KiB}]
buffers: [{name: a, size: 3 KiB, fill: 1}, {name: b, size: 3 KiB}]
events: [go]
commands:
- {read: a, queue: left}
- {fill: a, pattern: 3, queue: left}
- {fill: b, pattern: 2, queue: left, after: go}
- {set: go}
`, pairMachine, Options{}, RunOptions{})
	steps := res.Steps()
	for i, s := range steps {
		timeless := strings.HasPrefix(s.What, "#4") || s.Copy && !strings.HasPrefix(s.What, "3 KiB of a at 0, host")
		if (s.Ended == 0) != timeless {
			t.Errorf("step %d, %s, has ended after %d ns", i, s.What, s.Ended)
		}
	}
	if len(steps) < 6 {
		t.Errorf("%d steps: want four commands, a copy and an eviction: %v", len(steps), steps)
	}
}

func TestSpansOfAMeasuredRunAreThoseOfAModelledOne(t *testing.T) {
	const text = `
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 1 KiB, fill: 1}, {name: b, size: 4 KiB}, {name: c, size: 64}]
commands:
- {write: b, offset: 512, size: 1 KiB, fill: 1, queue: left}
- {fill: a, pattern: 2, queue: left}
- {copy: a, to: b, queue: right}
- {copy: a, to: b, size: 4, rows: 3, pitch: 8, queue: right}
- {write: c, size: 4, rows: 3, pitch: 8, queue: left, fill: 9}
- {launch: scale, global: 4, args: [a, b, {float: 2}, 256], queue: right}
- {migrate: b, queue: left}
- {map: b, as: m, flags: [read, write], queue: left, size: 512}
- {host-write: m, fill: 4}
- {unmap: m}
- {read: b, offset: 128, size: 256, queue: right}
- {read: b, size: 4, rows: 3, pitch: 8, queue: left}
- {marker: left}
`
	lines := func(r *Result) (out []string) {
		var b strings.Builder
		if err := r.WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row[1] == "launch" {
				row[6] = "" // modelled, these are all that its buffers have
			}
			out = append(out, strings.Join(row[:7], "; "))
		}
		slices.Sort(out)
		return out
	}
	s, err := Parse(t.Context(), "s.yaml", []byte(text), Options{Times: 1})
	if err != nil {
		t.Fatal(err)
	}
	measured, err := Run(t.Context(), s, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, want := lines(measured), lines(modelledRun(t, text, pairMachine, Options{}, RunOptions{}))
	if !slices.Equal(got, want) {
		t.Errorf("measured\n%s\nmodelled\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestALaunchThatTakesNoTimeIsRefused(t *testing.T) {
	for _, time := range []string{"0 us", "1 us - 1 us", "z", "0.4 ns"} {
		_, err := Parse(t.Context(), "s.yaml", []byte(`
let: {z: 0 s}
devices: [{name: left, driver: cpu}]
buffers: [{name: a, size: 64}]
commands: [{launch: fill_i32, global: 1, args: [a, {int: 5}, 16], queue: left, time: `+time+`}]
`), Options{})
		if err == nil || err.Error() != "s.yaml:5: launch fill_i32: time is 0: want more; without it the machine says how long" {
			t.Errorf("time: %s: %v", time, err)
		}
	}
}

func TestAKernelWithoutCodeHasNoMoreBytesThanANetworkTakes(t *testing.T) {
	text := func(bytes string) string {
		return `
devices: [{name: left, driver: cpu}]
buffers: [{name: a, size: 64, fill: 1}]
kernels: [{name: k, args: [read], bytes: ` + bytes + `}]
commands: [{launch: k, global: 1, args: [a], queue: left}]
`
	}
	_, err := Parse(t.Context(), "s.yaml", []byte(text("4611686018427387905")), Options{})
	if err == nil || !strings.Contains(err.Error(), "want at most 4611686018427387904") {
		t.Error(err)
	}
	if res := modelledRun(t, text("4611686018427387904"), pairMachine, Options{}, RunOptions{Stamps: true}); !res.Verified {
		t.Error(res.Mismatches)
	}
}
