package scenario_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "godwit/devices/null"
	"godwit/mem"
	"godwit/study/scenario"
)

// mixed are two devices with memories of their own, and one that shares the
// host's.
const mixed = `
devices:
- {name: left, driver: cpu, memory: 1 MiB}
- {name: right, driver: tce, memory: 1 MiB}
- {name: near, driver: cpu, params: {shares-host: true}}
`

// wants runs a scenario that must be as expected, with the fewest bytes moved.
func wants(t *testing.T, text string) *scenario.Result {
	t.Helper()
	res, err := runText(t, text)
	require.NoError(t, err)
	require.True(t, res.OK(), "%v %v", res.Mismatches, res.Expect)
	require.Equal(t, res.BytesLowerBound, res.BytesMoved)
	return res
}

// TestExamplesOnEachDriver: on null devices nothing can be compared, everything
// else holds.
func TestExamplesOnEachDriver(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	for _, file := range append(files, "testdata/objects.yaml") {
		for _, driver := range []string{"null", "cpu", "tce"} {
			opt := little(file)
			opt.Driver = driver
			res := run(t, file, opt)
			require.True(t, res.OK(), "%s on %s: %v %v", file, driver, res.Mismatches, res.Expect)
			if len(res.Evictions) == 0 {
				require.Equal(t, res.BytesLowerBound, res.BytesMoved)
			}
			require.Equal(t, driver != "null", res.Verified)
			if driver == "null" {
				require.Contains(t, res.NotCompared, "driver null")
				require.Zero(t, res.BytesCompared)
				var out strings.Builder
				res.Print(&out, scenario.PrintOptions{})
				require.Contains(t, out.String(), "content not compared: device ")
			}
		}
	}
}

func TestRectanglesWithSlicesAndPitches(t *testing.T) {
	res := wants(t, mixed+`
buffers: [{name: a, size: 8 KiB, random: 1}, {name: b, size: 8 KiB}]
sub-buffers: [{name: part, of: a, offset: 4 KiB}]
commands:
- {write: a, size: 16, rows: 4, slices: 3, pitch: 64, slice-pitch: 512, origin: [8, 2, 1], ramp: ushort, host-pitch: 20, host-slice-pitch: 100, host-offset: 6, queue: left}
- {read: a, size: 24, rows: 4, slices: 3, pitch: 64, slice-pitch: 512, origin: [4, 2, 1], queue: right}
- {read: a, size: 24, rows: 4, slices: 3, pitch: 64, slice-pitch: 512, origin: [4, 2, 1], host-pitch: 32, host-slice-pitch: 256, host-origin: [1, 1, 1], queue: left}
- {copy: a, to: b, size: 16, rows: 4, slices: 3, pitch: 64, slice-pitch: 512, origin: [8, 2, 1], to-pitch: 16, to-origin: [0, 0, 2], queue: near}
- {copy: part, to: part, size: 8, rows: 2, pitch: 64, to-pitch: 64, to-offset: 8, queue: right}
- {read: b, queue: right}
`)
	require.Equal(t, "read 3 x 4 rows of 24 B, a[644,1884)", res.Commands[2].Text)
	// What lies between the rows of the host's memory is checked, and not counted.
	require.EqualValues(t, 2*24*4*3+8<<10, res.BytesRead)
	require.EqualValues(t, 2*24*4*3+8<<10+2*16*4*3, res.BytesCompared)
	require.EqualValues(t, 16<<10-2*16*4*3, res.BytesUndefined)
}

func TestBufferFlagsAndHostPointers(t *testing.T) {
	wants(t, mixed+`
buffers:
- {name: used, size: 4 KiB, random: 1, flags: [use-host-ptr, host-read-only]}
- {name: copied, size: 4 KiB, random: 2, flags: [copy-host-ptr, alloc-host-ptr, read-only]}
- {name: hidden, size: 4 KiB, flags: [write-only, host-no-access]}
- {name: fed, size: 4 KiB, flags: [host-write-only, alloc-host-ptr]}
sub-buffers: [{name: half, of: used, part: 2/2, flags: host-no-access}]
commands:
- {launch: copy, queue: right, global: 64, args: [used, hidden, 4096]}
- {launch: copy, queue: near, global: 64, args: [copied, {buffer: half, access: write, offset: 0, size: 1 KiB}, 1024]}
- {write: fed, random: 3, queue: left}
- {copy: fed, to: hidden, size: 100, to-offset: 33, queue: left}
- {map: used, offset: 1 KiB, size: 2 KiB, as: m, flags: read, queue: right}
- {host-read: m}
- {unmap: m}
expect: [{buffer: hidden, equals: reference}, {buffer: fed, random: 3}, {buffer: half, equals: reference}]
`)
}

func TestContentThatIsGivenUpIsUndefined(t *testing.T) {
	res := wants(t, mixed+`
buffers: [{name: a, size: 4 KiB, random: 1}, {name: b, size: 4 KiB, random: 1}]
sub-buffers: [{name: half, of: a, part: 1/2}]
commands:
- {read: a, queue: left}
- {migrate: half, queue: right, content: undefined}
- {fill: half, size: 1 KiB, pattern: 1, queue: right}
- {map: b, size: 1 KiB, as: m, flags: write-invalidate, queue: left}
- {host-write: m, size: 512, fill: 3}
- {unmap: m}
- {read: a, queue: left}
- {read: b, queue: right}
`)
	require.EqualValues(t, 2*(1<<10+512), res.BytesUndefined)
	require.EqualValues(t, 4<<10+2<<10+4<<10, res.BytesMoved, "all of a to left, its half again, all of b to right")
}

func TestSharedVirtualMemoryNeedsADeviceForIt(t *testing.T) {
	_, err := runText(t, two+`
svm: [{name: f, size: 64, flags: fine-grain}]
commands: []
`)
	require.ErrorContains(t, err, "s.yaml:5: svm f: svm block of 64 bytes")
	require.ErrorContains(t, err, "no fine-grained shared virtual memory")
}

func TestWhatIsFreedMayStillBeSeenThroughABufferOverIt(t *testing.T) {
	wants(t, mixed+`
svm: [{name: v, size: 8 KiB}]
buffers: [{name: w, over: v, offset: 1 KiB, size: 4 KiB, flags: host-no-access}]
sub-buffers: [{name: s, of: w, offset: 1 KiB, size: 1 KiB}]
commands:
- {fill: v, pattern: 1, queue: left}
- {free: v, queue: left}
- {fill: s, pattern: 2, queue: right}
- {alloc: v}
- {fill: v, pattern: 3, queue: left}
- {launch: copy, queue: right, global: 16, args: [s, {svm: v, at: 64, offset: 0, size: 1 KiB}, 1024]}
- {copy: v, to: v, size: 16, to-offset: 32, queue: left}
- {free: v, now: true}
- {alloc: v}
- {write: v, pointers: [v, null, {svm: v, at: 9}], queue: right}
- {read: v, size: 24, queue: left}
expect: [{buffer: w, offset: 1 KiB, size: 1 KiB, fill: 2}, {buffer: v, size: 24, pointers: [v, null, {svm: v, at: 9}]}]
`)
}

func TestCallbacksComeInOrder(t *testing.T) {
	res := wants(t, mixed+`
buffers: [{name: a, size: 4 KiB}]
events: [go]
commands:
- {fill: a, pattern: 1, queue: left, after: go, callbacks: [complete, submitted, running], id: f}
- {read: a, queue: right, callbacks: complete, profile: true}
- {barrier: right, after: f, callbacks: submitted}
- {set: go}
`)
	require.Equal(t, []string{"submitted", "running", "complete"}, res.Commands[0].Callbacks)
	require.Equal(t, []string{"complete"}, res.Commands[1].Callbacks)
	require.Equal(t, []string{"submitted"}, res.Commands[2].Callbacks)
	require.Nil(t, res.Commands[0].Times)
	require.NotNil(t, res.Commands[1].Times)
	require.Positive(t, res.Commands[1].Times.Ended)
	var out strings.Builder
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "submitted")
}

// TestARefusedCommandEndsARunThatIsHeldBack: what waits for a user event that
// nobody sets any more must not be waited for.
func TestARefusedCommandEndsARunThatIsHeldBack(t *testing.T) {
	_, err := runText(t, `
devices: [{name: d, driver: tce, memory: 64 KiB}]
buffers: [{name: a, size: 40 KiB}, {name: b, size: 40 KiB}]
events: [go]
commands:
- {fill: a, pattern: 1, after: go}
- {fill: b, pattern: 1}
- {set: go}
`)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.ErrorContains(t, err, "s.yaml:7: #2 fill b with 1")
}

func TestStatisticsOfTheScenariosStacks(t *testing.T) {
	const text = `
devices:
- {name: pooled, driver: cpu, memory: 1 MiB, resources: [statistics, retry, {limit: 300 KiB}, {bins: [256, 1 KiB]}, {pool: 64 KiB}]}
- {name: plain, driver: tce, memory: 1 MiB}
buffers: [{name: a, size: 1000}, {name: b, size: 40 KiB}, {name: c, size: 512 KiB}]
commands:
- {fill: a, pattern: 1, queue: pooled}
- {fill: b, pattern: 1, queue: pooled}
- {read: b, queue: plain}
`
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Stats: true})
	require.NoError(t, err)
	require.True(t, res.OK())
	require.Len(t, res.Memories, 3)
	pooled, plain := res.Memories[1], res.Memories[2]
	require.Equal(t, "statistics > retry > limit 300 KiB > bins 256 B,1 KiB > pool 64 KiB slabs > device", pooled.Resources)
	require.Equal(t, "statistics > device", plain.Resources)
	require.EqualValues(t, 1000+40<<10, pooled.Allocated.Current)
	require.Equal(t, scenario.Figure{Current: 2, Peak: 2, Accumulated: 2}, pooled.Allocations)
	require.EqualValues(t, 64<<10, pooled.Reserved.Current, "a slab for both")
	require.EqualValues(t, 40<<10, plain.Allocated.Peak)
	var out strings.Builder
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "inactive split")
	require.Contains(t, out.String(), "resources of pooled: statistics > retry")

	// Where nobody asks, only the scenario's own layers count.
	res, err = runText(t, text)
	require.NoError(t, err)
	require.Len(t, res.Memories, 1)

	// A refused request is counted, and the error says which limit it was.
	res, err = runText(t, text+"- {fill: c, pattern: 1, queue: pooled}\n")
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.EqualValues(t, 1, res.Memories[0].OutOfMemory)
	require.EqualValues(t, 1000+40<<10, res.Memories[0].Allocated.Current)
}

// TestManyMapsAtOnce runs each map with another beside it, in rounds.
func TestManyMapsAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString(mixed + "buffers: [{name: a, size: 64 KiB, random: 7}]\ncommands:\n")
	for i := range 16 {
		fmt.Fprintf(&b, "- {map: a, offset: %d, size: 4096, as: m%d, flags: [read, write], queue: %s}\n", i*4096, i, []string{"left", "right", "near"}[i%3])
	}
	for i := range 16 {
		fmt.Fprintf(&b, "- {host-write: m%d, offset: 64, size: 100, random: %d}\n- {host-read: m%d}\n", i, i, i)
	}
	for i := range 16 {
		fmt.Fprintf(&b, "- {unmap: m%d, queue: %s}\n- {read: a, offset: %d, size: 4096, queue: right}\n", i, []string{"right", "near", "left"}[i%3], i*4096)
	}
	res := wants(t, b.String())
	require.EqualValues(t, 64<<10, res.BytesMoved, "to right; the host has it all from the start")
}

func TestCancelWhileHeldBack(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(mixed+`
buffers: [{name: a, size: 4 KiB}]
events: [go]
commands:
- {fill: a, pattern: 1, queue: left, after: go}
- {marker: left}
- {set: go}
`), scenario.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = scenario.Run(ctx, s, scenario.RunOptions{Progress: func(_ string, done, _ int) {
		if done == 2 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheTimelineShowsWhatIsMapped(t *testing.T) {
	res := wants(t, mixed+`
buffers: [{name: a, size: 4 KiB, fill: 1}]
commands:
- {map: a, as: m, flags: [read, write], queue: left}
- {map: a, offset: 64, size: 64, as: n, flags: read, queue: right}
- {host-write: m, size: 64, fill: 2}
- {unmap: n}
- {unmap: m}
`)
	var out strings.Builder
	require.NoError(t, res.WriteTimeline(&out))
	var got struct {
		Events []struct {
			Name, Cat string
			PID       int
			Dur       float64
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	names := map[string]string{}
	for _, e := range got.Events {
		if e.Cat == "mapped" || e.Cat == "command" {
			names[e.Name] = e.Cat
			require.Positive(t, e.Dur)
		}
	}
	require.Equal(t, map[string]string{
		"#1 map a for read, write as m": "command", "#2 map a[64,128) for read as n": "command", "#3 host writes m[0,64): a fill of 2": "command",
		"#4 unmap n": "command", "#5 unmap m": "command", "m of a": "mapped", "n of a[64,128)": "mapped",
	}, names)
}

// TestAFailingEventReachesAllDependants: by wait lists, and by content, but not by
// order alone.
func TestAFailingEventReachesAllDependants(t *testing.T) {
	const text = mixed + `
buffers: [{name: a, size: 4 KiB, fill: 1}, {name: b, size: 4 KiB}, {name: c, size: 4 KiB, fill: 2}]
events: [stop]
commands:
- {fill: a, pattern: 3, offset: 1 KiB, size: 2 KiB, queue: left, after: stop, id: made, callbacks: [submitted, complete]}
- {copy: a, to: b, queue: right, id: used}
- {marker: left, after: used, id: told}
- {fill: c, pattern: 4, queue: left}
- {copy: c, to: a, size: 512, queue: left}
- {write: a, offset: 1 KiB, size: 512, fill: 7, queue: right}
- {read: a, size: 1 KiB, queue: near}
- {read: a, offset: 1 KiB, size: 513, queue: near, id: lost}
- {copy: a, to: c, size: 64, rows: 4, pitch: 1 KiB, offset: 100, to-pitch: 128, queue: near, id: rows}
- {set: stop, status: -5}
`
	res := wants(t, text+"expect: [{fails: [made, used, told, lost, rows]}]\n")
	require.Contains(t, res.Commands[1].Failed, "user event set to -5")
	require.Equal(t, []string{"submitted", "failed with status -14"}, res.Commands[0].Callbacks)
	// Lost: of a 1.5 KiB, all of b, four rows of c.
	require.EqualValues(t, 1536+4096+4*64, res.BytesUndefined)
	var out strings.Builder
	res.Print(&out, scenario.PrintOptions{})
	require.Contains(t, out.String(), "copy a → b (failed)")
	require.Contains(t, out.String(), "✓ expected: failure of made, used, told, lost, rows")

	_, err := runText(t, text)
	require.ErrorContains(t, err, "s.yaml:10: #1 fill")
	_, err = runText(t, text+"expect: [{fails: [made, used, told]}]\n")
	require.ErrorContains(t, err, "s.yaml:17: #8 read a")
	res, err = runText(t, strings.Replace(text, ", status: -5", "", 1)+"expect: [{fails: told}]\n")
	require.NoError(t, err)
	require.False(t, res.OK())
	require.Equal(t, "#3 marker ended well", res.Expect[0].Got)
}

// TestAFreeWaitsForTheHost: in another queue than the host's uses, and at once.
func TestAFreeWaitsForTheHost(t *testing.T) {
	wants(t, mixed+`
svm: [{name: c, size: 64 KiB}, {name: f, size: 64 KiB, flags: fine-grain}]
queues: [{name: q, device: near, order: out}, {name: r, device: near, order: out}]
commands:
- repeat: 20
  do:
  - {map: c, as: m, flags: [read, write], queue: q}
  - {host-write: m, fill: 1}
  - {host-read: m}
  - {unmap: m}
  - {host-write: f, fill: 1, queue: q}
  - {free: [c, f], queue: r}
  - {alloc: c}
  - {alloc: f}
  - {host-write: f, fill: 2, queue: r}
  - {map: c, as: n, flags: write-invalidate, queue: r}
  - {host-write: n, fill: 3}
  - {unmap: n, queue: q}
  - {free: [c, f], now: true}
  - {alloc: c}
  - {alloc: f}
`)
}
