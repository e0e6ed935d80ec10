package predict

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/cpu"
	"godwit/study/machine"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

const relay = `
kind: one small transfer
params: {rounds: {type: integer, default: 1}, bytes: {type: size, default: 4 KiB}}
devices: [{name: d, driver: cpu, count: 2}]
buffers: [{name: a, size: bytes}, {name: b, size: bytes}]
commands:
- repeat: rounds
  do:
  - {fill: a, pattern: 3, queue: d0}
  - {copy: a, to: b, queue: d1}
`

// A case has both times, each of a round; the modelled one is a round's exactly.
func TestACaseIsMeasuredAndModelled(t *testing.T) {
	of := &sweep.Config{File: "relay.yaml", Data: []byte(relay), Axes: []sweep.Axis{{Kind: sweep.Parameter, Name: "bytes", Values: []string{"8192"}}}}
	points, err := of.Points()
	require.NoError(t, err)
	on := func(_ context.Context, opt machine.Options) (*machine.Machine, error) {
		return machine.Named("h200x2-nvlink", opt)
	}
	c := Config{Machine: on, Warm: 1, Repeat: 3}
	whole, err := c.Run(t.Context(), of, points.At(0))
	require.NoError(t, err)
	require.Empty(t, whole.Failed)
	require.Equal(t, "one small transfer", whole.Kind)
	require.Equal(t, "bytes=8192", whole.Settings)
	require.Equal(t, uint64(8192), whole.Largest)
	require.Positive(t, whole.Measured)
	require.InDelta(t, float64(whole.Modelled)/float64(whole.Measured)-1, whole.Error, 1e-9)
	require.Less(t, whole.Bandwidth, whole.Modelled)
	require.NotNil(t, whole.MeasuredReasons)
	require.NotNil(t, whole.ModelledReasons)
	require.NotEmpty(t, whole.Why())

	c.Slope = Slope{"rounds", 2, 6}
	round, err := c.Run(t.Context(), of, points.At(0))
	require.NoError(t, err)
	of.Base.Set = map[string]string{"rounds": "6"}
	six := modelled(t, of, on)
	of.Base.Set = map[string]string{"rounds": "2"}
	require.Equal(t, (six-modelled(t, of, on))/4, round.Modelled)
}

// A plan depends on what links have carried before, so one time may differ from the next: as many are modelled as
// are measured, and both are medians.
func TestAsManyTimesAreModelledAsMeasured(t *testing.T) {
	of := &sweep.Config{File: "spread.yaml", Data: []byte(`
devices: [{name: d, driver: cpu, count: 3}]
buffers: [{name: a, size: 1 MiB, fill: 1}, {name: b, size: 1 MiB, count: 3}]
commands:
- {write: a, fill: 2, queue: d0}
- {repeat: 3, as: i, do: [{copy: a, to: "b{i}", queue: "d{i}"}]}
`)}
	triangle := func(_ context.Context, opt machine.Options) (*machine.Machine, error) {
		return machine.Parse("triangle.yaml", []byte(`
devices: [{name: g, count: 3, copy: 1 us}]
links: [{between: [host, g], bandwidth: 5 GB/s}, {between: [g, g], bandwidth: 6 GB/s}]
`), opt)
	}
	once := Config{Machine: triangle, Repeat: 1}
	first, err := once.Run(t.Context(), of, nil)
	require.NoError(t, err)
	twice := Config{Machine: triangle, Repeat: 2}
	both, err := twice.Run(t.Context(), of, nil)
	require.NoError(t, err)
	require.Equal(t, int64(387_479), first.Modelled)
	require.Equal(t, int64(387_479+563_242)/2, both.Modelled)
}

// modelled is the makespan on a machine, of the second time.
func modelled(t *testing.T, of *sweep.Config, on func(context.Context, machine.Options) (*machine.Machine, error)) int64 {
	t.Helper()
	opt := of.Base
	opt.Times, opt.Warm = 4, 1
	opt.Set["bytes"] = "8192"
	s, err := scenario.Parse(t.Context(), of.File, of.Data, opt)
	require.NoError(t, err)
	m, err := on(t.Context(), machine.Options{Devices: 2})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m})
	require.NoError(t, err)
	require.Equal(t, res.Makespans.Least, res.Makespans.Most, "in virtual time there is no spread")
	return int64(res.Makespans.Median)
}

func TestSummariesArePercentilesOfTheSizeOfErrors(t *testing.T) {
	var cases []Case
	for i := range 10 {
		k := Case{Kind: "even", Error: float64(i) / 10, BandwidthError: -0.5, Largest: uint64(i) * 100 << 10}
		if i%2 == 1 {
			k.Kind, k.Error = "odd", -k.Error
		}
		cases = append(cases, k)
	}
	cases = append(cases, Case{Kind: "odd", Failed: "no device"})
	all := Summarize(cases)
	require.Len(t, all, 4)
	require.InDelta(t, 0.81, all[0].P90, 1e-9)
	require.InDelta(t, 0.18, all[1].P90, 1e-9)
	all[0].P90, all[1].P90 = 0, 0
	require.Equal(t, Summary{Of: "all", Cases: 10, Median: 0.45, Worst: 0.9, Bandwidth: 0.5, Failed: 1}, all[0])
	require.Equal(t, Summary{Of: "buffers below 256 KiB", Cases: 3, Median: 0.1, Worst: 0.2, Bandwidth: 0.5, Failed: 1}, all[1])
	require.Equal(t, "even", all[2].Of)
	require.Equal(t, 0.5, all[3].Median)
	require.InDelta(t, -0.9, Worst(cases, 2)[0].Error, 0)
}

// Pairs differ in the variant alone, and by a tenth.
func TestPairsAreOfVariants(t *testing.T) {
	variant, bytes := &sweep.Axis{Name: "variant"}, &sweep.Axis{Name: "bytes"}
	of := func(v, b string, measured, modelled int64) Case {
		return Case{Scenario: "s", settings: []sweep.Setting{{Axis: bytes, Value: b}, {Axis: variant, Value: v}}, Measured: measured, Modelled: modelled}
	}
	require.Equal(t, Pairs{Differ: 2, Right: 1}, CountPairs([]Case{
		of("x", "1", 100, 10), of("y", "1", 120, 20), // right
		of("x", "2", 100, 20), of("y", "2", 80, 30), // wrong
		of("x", "3", 100, 20), of("y", "3", 105, 10), // too close to tell
	}))
}

func TestSlopes(t *testing.T) {
	s, err := ParseSlope("rounds=4,12")
	require.NoError(t, err)
	require.Equal(t, Slope{"rounds", 4, 12}, s)
	for _, bad := range []string{"", "rounds", "rounds=4", "rounds=12,4", "=4,12", "rounds=a,b"} {
		_, err := ParseSlope(bad)
		require.ErrorContains(t, err, "want NAME=FROM,TO", bad)
	}
}
