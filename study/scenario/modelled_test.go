package scenario_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/resource"
	"godwit/study/machine"
	"godwit/study/scenario"
)

// onMachine runs a scenario's text on a machine.
func onMachine(t *testing.T, text, machineText string, opt scenario.RunOptions) (*scenario.Result, error) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
	require.NoError(t, err)
	opt.Machine, err = machine.Parse("m.yaml", []byte(machineText), machine.Options{Devices: len(s.Devices)})
	require.NoError(t, err)
	return scenario.Run(t.Context(), s, opt)
}

const plainMachine = `
host: {enqueue: 1 us, poll: 2 us}
devices: [{name: g, count: any, copy: 3 us, launch: 5 us, bandwidth: 1 TB/s}]
links:
- {between: [host, g], latency: 4 us, bandwidth: 10 GB/s}
- {between: [g, g], latency: 1 us, bandwidth: 20 GB/s}
`

const handOver = `
devices: [{name: left, driver: cpu}, {name: right, driver: tce}]
buffers: [{name: a, size: 1 MB}]
commands:
- {fill: a, pattern: {uchar: 1}, queue: left}
- {fill: a, size: 1 KB, pattern: {uchar: 2}, queue: right}
- {read: a, queue: right}
`

// The times of a hand-over can be worked out on paper, and are those.
func TestAScenarioOnAMachineTakesWhatTheMachineSays(t *testing.T) {
	res, err := onMachine(t, handOver, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	require.True(t, res.Verified, "the bytes are real")
	m := res.Model
	require.NotNil(t, m)
	require.Equal(t, "machine m", res.Clock)
	require.Equal(t, "model", res.Devices[0].Driver)
	// The host enqueues; the first fill; what the second has not written is copied; the read; the wake-up.
	fill, copied, read := uint64(5000+1000), uint64(3000+999_000/20+1000), uint64(3000+100_000+4000)
	require.Equal(t, 1000+fill+copied+read+2000, m.Makespan)
	require.Equal(t, m.Makespan, m.Reasons.Compute+m.Reasons.Copy+m.Reasons.Memory+m.Reasons.Host)
	require.Equal(t, fill, m.Reasons.Compute)
	require.Equal(t, copied+read, m.Reasons.Copy)
	require.Equal(t, uint64(3000), m.Reasons.Host)

	var at uint64
	for i, p := range m.Path {
		require.Equal(t, at, p.From, "part %d", i)
		at = p.To
	}
	require.Equal(t, m.Makespan, at)
	require.Contains(t, m.Path[2].What, "left → right, for #3")
	require.Contains(t, m.Path[3].After, "copy")
	for _, l := range m.Links {
		if l.Name == "left → right" {
			require.Equal(t, res.BytesMoved, l.Bytes)
		}
		require.LessOrEqual(t, l.Full, l.Busy)
		require.LessOrEqual(t, l.Share, 1.0)
	}

	var out bytes.Buffer
	res.Print(&out, scenario.PrintOptions{Summary: true})
	require.Contains(t, out.String(), "modelled on m: "+time.Duration(m.Makespan).String()+"; of the critical path compute ")
	again, err := onMachine(t, handOver, plainMachine, scenario.RunOptions{Seed: 7})
	require.NoError(t, err)
	require.Equal(t, m.Makespan, again.Model.Makespan, "nothing happens at one instant here")
}

// A launch takes the time that the scenario gives it, whatever the machine says.
func TestTheTimeOfALaunchIsTheScenarios(t *testing.T) {
	text := `
devices: [{name: dev, driver: cpu}]
buffers: [{name: a, size: 4 KB}]
commands:
- {fill: a, pattern: {float: 1}, queue: dev}
- {launch: fill, args: [a, 2, 1000], global: 1000, time: 1.5 ms, queue: dev}
`
	res, err := onMachine(t, text, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.Equal(t, uint64(5000+4+1_500_000), res.Model.Reasons.Compute)
	_, err = scenario.Parse(t.Context(), "s.yaml", []byte(strings.ReplaceAll(text, "1.5 ms", "-1 ms")), scenario.Options{})
	require.ErrorContains(t, err, "s.yaml:6")
}

// Waits are kept for a timeline only, since there may be a million.
func TestATimelineOfAMachineHasToBeAskedFor(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "overlap.yaml"))
	require.NoError(t, err)
	res, err := onMachine(t, string(text), plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, res.WriteTimeline(&bytes.Buffer{}), "RunOptions.Timeline")
}

// Two runs print the same bytes.
func TestARunOnAMachineIsReproducible(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "overlap.yaml"))
	require.NoError(t, err)
	var printed []string
	for range 2 {
		res, err := onMachine(t, string(text), plainMachine, scenario.RunOptions{Profile: true, Timeline: true})
		require.NoError(t, err)
		var out bytes.Buffer
		res.Print(&out, scenario.PrintOptions{Width: 200})
		data, err := json.Marshal(res)
		require.NoError(t, err)
		require.NoError(t, res.WriteCSV(&out))
		require.NoError(t, res.WriteTimeline(&out))
		printed = append(printed, out.String()+string(data))
	}
	require.Equal(t, printed[0], printed[1])
	require.Contains(t, printed[0], "modelled on m:")
	require.Contains(t, printed[0], "times of machine m")
	require.Contains(t, printed[0], `"clock":"machine m"`)
	require.Contains(t, printed[0], `"name":"critical path on m"`)
	require.Contains(t, printed[0], `"otherData":{"clock":"machine m"}`)
}

// Each command and copy has its line, and the columns of the critical path add up to it.
func TestWhatRanAsCSV(t *testing.T) {
	res, err := onMachine(t, handOver, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, res.WriteCSV(&out))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	column := func(name string) int {
		for i, c := range rows[0] {
			if c == name {
				return i
			}
		}
		t.Fatal(name)
		return 0
	}
	var critical uint64
	what := ""
	for _, row := range rows[1:] {
		n, err := strconv.ParseUint(row[column("critical_ns")], 10, 64)
		require.NoError(t, err)
		critical += n
		what += row[column("what")] + "\n"
	}
	require.Equal(t, res.Model.Makespan-res.Model.Reasons.Host, critical)
	for _, want := range []string{"#1 fill a", "#2 fill a", "#3 read a", "left → right, for #3"} {
		require.Contains(t, what, want)
	}
}

// Where times are this computer's, the output says so.
func TestTimesSayWhoseTheyAre(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(handOver), scenario.Options{})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Profile: true})
	require.NoError(t, err)
	require.Equal(t, "this computer", res.Clock)
	require.Nil(t, res.Model)
	var out bytes.Buffer
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "times of this computer")
	require.ErrorContains(t, res.WriteCSV(&out), "this computer's")
}

// A device has as many bytes as the machine says or the scenario, whichever is less,
// whatever this computer keeps them in. So has the host.
func TestAMachinesMemoryIsCountedInBytes(t *testing.T) {
	text := func(memory, b int) string {
		return fmt.Sprintf(`
devices: [{name: g, driver: cpu, memory: %d}]
buffers: [{name: a, size: 64 KiB}, {name: b, size: %d}]
commands:
- {fill: a, pattern: {uchar: 1}, queue: g}
- {fill: b, pattern: {uchar: 2}, queue: g}
- {migrate: [a], queue: host}
`, memory, b)
	}
	of := func(device, host string) string {
		return "devices: [{name: g, memory: " + device + "}]\nhost: {memory: " + host + "}\nlinks: [{between: [host, g], bandwidth: 1 GB/s}]\n"
	}
	const mib, all = 1 << 20, 1<<20 - 64<<10
	for _, memory := range []int{mib, 2 * mib} {
		res, err := onMachine(t, text(memory, all), of("1 MiB", "64 KiB"), scenario.RunOptions{})
		require.NoError(t, err)
		require.True(t, res.OK(), "%v", res.Mismatches)
		require.Empty(t, res.Evictions, "all of it fits")
		require.EqualValues(t, mib, res.Devices[0].Bytes)
		res, err = onMachine(t, text(memory, all+1), of("1 MiB", "64 KiB"), scenario.RunOptions{})
		require.NoError(t, err)
		require.Len(t, res.Evictions, 1, "a byte less than it takes")
	}
	res, err := onMachine(t, text(mib, all), of("2 MiB", "64 KiB"), scenario.RunOptions{})
	require.NoError(t, err)
	require.EqualValues(t, mib, res.Devices[0].Bytes, "what the scenario caps is what there is")
	_, err = onMachine(t, text(mib, all), of("2 MiB", "60 KiB"), scenario.RunOptions{})
	require.ErrorContains(t, err, "host: out of memory: 64 KiB asked for")
}

// What runs out of memory is named as the scenario does, not as the machine.
func TestACertificateNamesTheScenariosDevice(t *testing.T) {
	_, err := onMachine(t, `
policy: none
devices: [{name: mine, driver: cpu, memory: 64 KiB}]
buffers: [{name: a, size: 64 KiB}, {name: b, size: 64 KiB}]
commands:
- {fill: a, pattern: {uchar: 1}, queue: mine}
- {fill: b, pattern: {uchar: 2}, queue: mine}
`, "devices: [{name: gpu}]\nlinks: [{between: [host, gpu], bandwidth: 1 GB/s}]\n", scenario.RunOptions{})
	require.ErrorContains(t, err, "mine: out of memory: 64 KiB asked for")
}

// Copies to the host take as long as copies from it, so a policy that weighs times is as
// good as it is for devices of this computer.
func TestEvictionIsAsGoodAsBesideRealDevices(t *testing.T) {
	for _, name := range []string{"h200-pcie", "gpux4-switch"} {
		for _, policy := range []string{"cost", "belady"} {
			s, err := scenario.Load(t.Context(), "../../examples/matmul-tiles.yaml", scenario.Options{})
			require.NoError(t, err)
			s.Policy = policy
			m, err := machine.Named(name, machine.Options{Devices: 1})
			require.NoError(t, err)
			res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m})
			require.NoError(t, err)
			require.True(t, res.OK(), "%s on %s: %d of at least %d bytes since memory was short", policy, name, res.BytesCapacity, res.BytesCapacityBound)
		}
	}
}

func TestAMachineWithTooFewDevices(t *testing.T) {
	_, err := onMachine(t, handOver, `
devices: [{name: g}]
links: [{between: [host, g], bandwidth: 1 GB/s}]
`, scenario.RunOptions{})
	require.ErrorContains(t, err, "s.yaml:2: device right: machine m has 1 devices, the scenario wants 2")
}

// A device has one name in a run: the scenario's, also where the runtime speaks of it.
func TestOutOfMemoryOnAMachineNamesTheScenariosDevice(t *testing.T) {
	for _, stamps := range []bool{false, true} {
		_, err := onMachine(t, `
devices: [{name: left, driver: cpu, memory: 1 MiB}]
buffers: [{name: a, size: 2 MiB, fill: 1}]
commands: [{fill: a, pattern: 3}]
`, plainMachine, scenario.RunOptions{Stamps: stamps})
		var why *resource.OutOfMemory
		require.ErrorAs(t, err, &why)
		require.Equal(t, "left", why.Device)
	}
}
