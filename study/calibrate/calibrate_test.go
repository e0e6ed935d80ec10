package calibrate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/devices/virtual"
	"godwit/mem"
	"godwit/runtime"
	"godwit/study/calibrate"
	"godwit/study/machine"
)

// modelled are the options of a context over a machine.
func modelled(t require.TestingT, m *machine.Machine) runtime.Options {
	w, err := virtual.New(m, virtual.Options{Exact: m.Exact(), Stamps: true})
	require.NoError(t, err)
	return runtime.Options{Devices: w.Devices(), OwnDevices: true, Host: w.Host(), Executor: w, Staging: m.Staging()}
}

// calibrated measures a machine as if it were devices, and makes another of the readings, as a file keeps them.
func calibrated(t require.TestingT, text string) (was, is *machine.Machine, r *calibrate.Result) {
	was, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
	require.NoError(t, err)
	o := modelled(t, was)
	opt := calibrate.Options{Runtime: o, Name: "m", Once: true, Quick: true, Time: time.Minute}
	measured, err := calibrate.Measure(context.Background(), opt)
	require.NoError(t, err)
	kept, err := json.Marshal(measured)
	require.NoError(t, err)
	measured, err = calibrate.ParseReadings("m.json", kept)
	require.NoError(t, err)
	r, err = calibrate.Fit(context.Background(), measured, opt)
	require.NoError(t, err)
	require.Empty(t, r.Missing)
	is, err = machine.Parse("m.yaml", []byte(r.File), machine.Options{})
	require.NoError(t, err, r.File)
	return was, is, r
}

// same says that two machines have the same figures, of those that some shapes tell, and that shapes take as long, also
// those that no figure has seen: within 2 % or 10 ns, of figures that share shapes within 5 %; one shape in ten may be off by more.
func same(t require.TestingT, was, is *machine.Machine, r *calibrate.Result) {
	near := func(what string, want, got uint64) {
		require.InDelta(t, want, got, 10+0.02*float64(want), "%s\n%s", what, r.File)
	}
	about := func(what string, want, got uint64) {
		require.InDelta(t, want, got, 50+0.05*float64(want), "%s\n%s", what, r.File)
	}
	near("enqueue", was.Host.Enqueue, is.Host.Enqueue)
	near("poll", was.Host.Poll, is.Host.Poll)
	near("other", was.Host.Other, is.Host.Other)
	near("call", was.Host.Call, is.Host.Call)
	near("a copy on the host", was.Host.Bandwidth/2, is.Host.Copy)
	require.Len(t, is.Devices, len(was.Devices))
	for i := range was.Devices {
		a, b := &was.Devices[i], &is.Devices[i]
		near("launch", a.Launch, b.Launch)
		near("rows", a.Row, b.Row)
		about("setup of a copy inside", a.Copy, *b.Classes.Inside.Setup)
		about("setup of a fill", a.Launch, *b.Classes.Fill.Setup)
		about("bandwidth", a.Bandwidth, b.Bandwidth)
		x, y := &a.Classes, &b.Classes
		about("enqueue of a launch", x.Launch.Enqueue, y.Launch.Enqueue)
		about("enqueue of a fill", x.Fill.Enqueue, y.Fill.Enqueue)
		about("enqueue of a copy inside", x.Inside.Enqueue, y.Inside.Enqueue)
		about("enqueue of a hop", x.Peer.Enqueue, y.Peer.Enqueue)
		about("hold of a hop", x.Peer.Hold, y.Peer.Hold)
		require.Equal(t, cmp.Or(x.Peer.By, "library"), cmp.Or(y.Peer.By, "library"), r.File)
		require.Equal(t, a.Memory, b.Memory)
	}
	require.Len(t, is.Links, len(was.Links))
	for i := range was.Links {
		about("bandwidth "+was.Links[i].From+was.Links[i].To, was.Links[i].Bandwidth, is.Links[i].Bandwidth)
	}
	var off []string
	for _, x := range r.Shapes {
		if d := math.Abs(x.Modelled - x.Value); d > 10+0.02*x.Value {
			off = append(off, fmt.Sprintf("%s: %.0f ns, not %.0f", x.Name, x.Modelled, x.Value))
		}
	}
	require.LessOrEqual(t, 10*len(off), len(r.Shapes), "%s\n%s", strings.Join(off, "\n"), r.File)
}

const alone = `
host: {bandwidth: 60 GB/s, enqueue: 2 us, poll: 1 us, other: 1 us, call: 3 us, wake: 5 us}
devices: [{name: gpu, memory: 64 GiB, bandwidth: 256 GB/s, launch: 8 us, copy: 5 us, classes: {launch: {enqueue: 1 us}, fill: {enqueue: 1 us}}}]
links: [{between: [host, gpu], latency: 5 us, bandwidth: 12.8 GB/s, both: 22 GB/s}]
`

const pcie = `
host: {bandwidth: 100 GB/s, enqueue: 3 us, poll: 0.7 us, other: 0.4 us, call: 5 us}
devices: [{name: gpu, count: 2, memory: 64 GiB, bandwidth: 1 TB/s, launch: 5 us, copy: 4.7 us}]
links:
- {between: [host, gpu], latency: 6.5 us, bandwidth: 50 GB/s, both: 70 GB/s}
`

func TestFindsAMachinesOwnFigures(t *testing.T) {
	for name, text := range map[string]string{
		"one alone": alone,
		"with a pilot": `
host:
  {bandwidth: 169 GB/s, enqueue: 1.5 us, poll: 300 ns, other: 1.4 us, call: 700 ns, wake: 4 us, pageable: 8 GB/s, first: {each: 20 us, bandwidth: 9 GB/s}}
devices:
- name: gpu
  count: 2
  memory: 64 GiB
  bandwidth: 3000 GB/s
  launch: 4 us
  copy: 2.7 us
  rows: 0.1 us
  classes:
    launch: {enqueue: 3 us, submit: 2 us}
    fill: {enqueue: 3 us, submit: 2 us}
    inside: {enqueue: 2 us}
    up: {enqueue: 5 us}
    down: {enqueue: 6 us}
    peer: {by: pilot, enqueue: 5 us, hold: 3.5 us}
  handover: {library-library: {delay: 5 us}, library-pilot: {delay: 9 us}, pilot-library: {hold: 6 us, delay: 12 us}, dispatcher-library: {hold: 6 us}}
links:
- {between: [host, gpu], latency: 6 us, bandwidth: 50 GB/s, both: 70 GB/s}
- {between: [gpu, gpu], latency: 3 us, bandwidth: 380 GB/s, both: 700 GB/s}
`,
	} {
		t.Run(name, func(t *testing.T) {
			if raceEnabled && name != "one alone" {
				t.Skip("some hundred thousand commands")
			}
			was, is, r := calibrated(t, text)
			same(t, was, is, r)
		})
	}
}

// Each slope is off by 5 % (one in twenty by half as much again): figures that no other tells in part are found within 10 %, and
// each says how far it may be off.
func TestFindsFiguresUnderNoise(t *testing.T) {
	if raceEnabled {
		t.Skip("some ten thousand commands")
	}
	was, err := machine.Parse("m.yaml", []byte(alone), machine.Options{})
	require.NoError(t, err)
	o := modelled(t, was)
	opt := calibrate.Options{Runtime: o, Name: "m", Once: true, Quick: true, Time: time.Minute}
	measured, err := calibrate.Measure(t.Context(), opt)
	require.NoError(t, err)
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range measured.Shapes {
		exact := measured.Shapes[i].Slopes[0]
		measured.Shapes[i].Slopes = nil
		for n := range 20 {
			off := 1 + 0.05*draw.NormFloat64()
			if n == 0 {
				off = 1.5
			}
			measured.Shapes[i].Slopes = append(measured.Shapes[i].Slopes, exact*off)
		}
	}
	r, err := calibrate.Fit(t.Context(), measured, opt)
	require.NoError(t, err)
	is, err := machine.Parse("m.yaml", []byte(r.File), machine.Options{})
	require.NoError(t, err, r.File)
	near := func(what string, want, got uint64) {
		require.InEpsilon(t, want, got, 0.1, "%s\n%s", what, r.File)
	}
	near("enqueue", was.Host.Enqueue, is.Host.Enqueue)
	near("other", was.Host.Other, is.Host.Other)
	near("launch", was.Devices[0].Launch, is.Devices[0].Launch)
	near("setup of a fill", was.Devices[0].Launch, *is.Devices[0].Classes.Fill.Setup)
	near("setup of a copy inside", was.Devices[0].Copy, *is.Devices[0].Classes.Inside.Setup)
	near("bandwidth", was.Devices[0].Bandwidth, is.Devices[0].Bandwidth)
	near("bandwidth of the link", was.Links[0].Bandwidth, is.Links[0].Bandwidth)
	near("both ways", was.Links[0].Both, is.Links[0].Both)
	for _, v := range r.Values {
		if v.How == "fitted" {
			require.Positive(t, v.Spread, v.Name)
		}
	}
	for _, x := range r.Shapes {
		require.InEpsilon(t, x.Value, x.Modelled, 0.1, x.Name)
	}
}

// What devices' file says can be loaded, whatever it says: times are not compared.
func TestDevicesOfOpenCL(t *testing.T) {
	params := map[string]string{"platform": "0"}
	if raceEnabled {
		params["count"] = "1"
	}
	devs, err := devices.Open(t.Context(), "opencl", devices.Config{Params: params})
	if errors.Is(err, mem.ErrDeviceNotFound) || errors.Is(err, opencl.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	opt := calibrate.Options{Runtime: runtime.Options{Devices: devs, OwnDevices: true}, Name: "here", Quick: true, Time: time.Second}
	measured, err := calibrate.Measure(t.Context(), opt)
	require.NoError(t, err)
	r, err := calibrate.Fit(t.Context(), measured, opt)
	require.NoError(t, err)
	m, err := machine.Parse("here.yaml", []byte(r.File), machine.Options{})
	require.NoError(t, err, r.File)
	require.Len(t, m.Devices, len(devs))
	for _, s := range r.Shapes {
		require.Positive(t, s.Modelled, s.Name)
		require.InDelta(t, s.Off, 100*(s.Modelled/s.Value-1), 1e-6, s.Name)
	}
}

// What was measured of hops into one of two devices that are not alike counts for the other, too.
func TestDevicesThatAreNotAlike(t *testing.T) {
	readings, err := calibrate.ParseReadings("r.json", []byte(`{
		"groups": [{"name": "cpu", "info": {"type": "cpu"}, "devices": [0]}, {"name": "gpu", "info": {"type": "gpu"}, "devices": [1]}],
		"pairs": [{"a": 0, "b": 1, "from": 0, "to": 1, "direct": true}], "told": {"steps": [1, 1], "enqueue_ns": 1000},
		"shapes": [{"shape": "hops cpu-gpu until enqueued", "slopes_ns": [7000, 7000, 7100]}, {"shape": "markers until enqueued", "slopes_ns": [1000]}]}`))
	require.NoError(t, err)
	r, err := calibrate.Fit(t.Context(), readings, calibrate.Options{Name: "m", Once: true, Time: time.Minute})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(r.File), machine.Options{})
	require.NoError(t, err, r.File)
	require.InEpsilon(t, 6000, m.Devices[1].Classes.Peer.Enqueue, 0.1, r.File)
	require.Equal(t, m.Devices[1].Classes.Peer, m.Devices[0].Classes.Peer, r.File)
}

// Readings that nobody can have measured are refused.
func TestReadingsThatCannotBe(t *testing.T) {
	group := `"groups": [{"name": "gpu", "devices": [0, 1]}], "told": {"steps": [1, 1]}`
	for text, why := range map[string]string{
		`[]`: "want readings of godwit calibrate",
		`{}`: "0 devices",
		`{"groups": [{"name": "gpu", "devices": [0, 2]}]}`:                       "device 2 of gpu: want 1",
		`{"groups": [{"name": "gpu"}]}`:                                          "has 0 devices",
		`{` + group + `, "pairs": [{"a": 0, "b": 1, "from": 0, "to": 1}]}`:       "a pair of groups 0 and 1",
		`{` + group + `, "tables": {"gpu": [{"Kernel": "fill", "Sizes": [1]}]}}`: "1 sizes and 0 times",
		`{"groups": [{"name": "gpu", "devices": [0]}], "told": {"steps": []}}`:   "1 devices, and 0",
		`{` + group + `, "pairs": [{"a": 0, "b": 0, "from": 0, "to": 2}]}`:       "devices 0 and 2",
	} {
		_, err := calibrate.ParseReadings("r.json", []byte(text))
		require.ErrorContains(t, err, why, text)
	}
}

// A run that is interrupted has no result.
func TestInterrupted(t *testing.T) {
	m, err := machine.Parse("m.yaml", []byte(pcie), machine.Options{})
	require.NoError(t, err)
	o := modelled(t, m)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	r, err := calibrate.Measure(ctx, calibrate.Options{Runtime: o, Name: "m", Once: true, Quick: true, Time: time.Minute, Progress: func(_ string, done, _ int) {
		if done == 10 {
			cancel(why)
		}
	}})
	require.Nil(t, r)
	require.ErrorIs(t, err, why)
}
