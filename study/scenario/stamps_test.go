package scenario_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/study/machine"
	"godwit/study/scenario"
)

const noBytes = "bytes: false\n" + plainMachine

func TestDevicesMayKeepNoBytes(t *testing.T) {
	kept, err := onMachine(t, handOver, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	for machineText, opt := range map[string]scenario.RunOptions{noBytes: {}, plainMachine: {Stamps: true}} {
		res, err := onMachine(t, handOver, machineText, opt)
		require.NoError(t, err)
		require.True(t, res.OK(), "%v", res.Mismatches)
		require.True(t, res.Verified && res.Stamps)
		require.Equal(t, kept.Model.Makespan, res.Model.Makespan)
		require.Equal(t, kept.BytesMoved, res.BytesMoved)
		require.Equal(t, kept.BytesCompared, res.BytesCompared)
		require.Zero(t, res.BytesUndefined)
	}
}

// A terabyte goes from device to device on any computer.
func TestWhatKeepsNoBytesTakesNoMemory(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 1 TB}, {name: b, size: 2 TB, fill: 3}]
commands:
- {write: b, size: 1 TB, fill: 4, queue: right}
- {read: b, queue: left}
- {fill: a, pattern: {uchar: 1}, queue: left}
- {fill: a, size: 1 KB, pattern: {uchar: 2}, queue: right}
- {launch: copy, args: [{buffer: a, offset: 0, size: 1 MB, access: read}, {buffer: a, offset: 1 GB, size: 1 MB, access: write}, 250000], global: 250000, queue: left}
`), scenario.Options{Memory: 12e12})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(noBytes), machine.Options{Devices: 2})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	require.Greater(t, res.BytesCompared, uint64(1e12))
}

func TestContentThatThisComputerCannotHoldIsAnError(t *testing.T) {
	for name, command := range map[string]string{
		"buffer \"b\"": "{migrate: b, queue: left}",
		"write":        "{write: a, fill: 4, queue: left}",
		"read":         "{read: a, queue: left}",
	} {
		buffers := "{name: a, size: 1 PiB}"
		if strings.HasPrefix(name, "buffer") {
			buffers = "{name: b, size: 1 PiB, fill: 3}"
		}
		s, err := scenario.Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: left, driver: cpu}]
buffers: [`+buffers+`]
commands: [`+command+`]
`), scenario.Options{Memory: 1 << 52})
		require.NoError(t, err)
		_, err = scenario.Run(t.Context(), s, scenario.RunOptions{})
		require.ErrorIs(t, err, mem.ErrNoHostMemory, name)
		require.ErrorContains(t, err, "1 PiB of content")
		require.ErrorContains(t, err, "--stamps")
	}
}

// TestExamplesByStamps runs the examples with bytes and without: the same times, and every
// command finds what it should.
func TestExamplesByStamps(t *testing.T) {
	ran := 0
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	for _, name := range append(files, "testdata/objects.yaml") {
		s, err := scenario.Load(t.Context(), name, scenario.Options{})
		require.NoError(t, err)
		s.Expect = slices.DeleteFunc(s.Expect, func(e scenario.Expectation) bool { return e.Place != nil })
		if strings.Contains(name, "matmul") || slices.ContainsFunc(s.Buffers, func(b scenario.BufferDecl) bool { return b.SVM != nil }) {
			continue // the products take their time with bytes
		}
		opt := scenario.RunOptions{}
		opt.Machine, err = machine.Named("h200-nvlink", machine.Options{Devices: len(s.Devices)})
		require.NoError(t, err)
		kept, err := scenario.Run(t.Context(), s, opt)
		require.NoError(t, err, name)
		opt.Stamps = true
		res, err := scenario.Run(t.Context(), s, opt)
		if err != nil && strings.Contains(err.Error(), "it writes a count") {
			continue
		}
		require.NoError(t, err, name)
		require.True(t, res.Verified, "%s: %v", name, res.Mismatches)
		require.Equal(t, kept.Expect, res.Expect)
		require.Equal(t, kept.Model.Makespan, res.Model.Makespan, name)
		require.Equal(t, kept.BytesMoved, res.BytesMoved, name)
		ran++
	}
	require.Greater(t, ran, 5)
}

// What the commands are said to be is changed while they run, so that they find what
// they should not.
func TestStampsThatAreNotThoseOfTheCommandsAreMismatches(t *testing.T) {
	for what, change := range map[string]func(*scenario.Scenario){
		"#3 read":             func(s *scenario.Scenario) { s.Commands[1].Place.Range.End += 100 },
		"buffer a at the end": func(s *scenario.Scenario) { s.Commands[2].Kind = scenario.OpFill },
	} {
		s, err := scenario.Parse(t.Context(), "s.yaml", []byte(handOver), scenario.Options{})
		require.NoError(t, err)
		opt := scenario.RunOptions{Stamps: true, Progress: func(stage string, done, total int) {
			if stage == "finished" && done == total {
				change(s)
			}
		}}
		opt.Machine, err = machine.Parse("m.yaml", []byte(plainMachine), machine.Options{Devices: 2})
		require.NoError(t, err)
		res, err := scenario.Run(t.Context(), s, opt)
		require.NoError(t, err)
		require.False(t, res.OK())
		require.False(t, res.Verified)
		require.Contains(t, strings.Join(res.Mismatches, "\n"), what)
		require.Contains(t, res.Mismatches[0], "one flat memory has byte")
	}
}

func TestWhatTakesBytesIsRefusedWhereNoneAreKept(t *testing.T) {
	for text, want := range map[string]string{
		handOver + "expect: [{buffer: a, equals: reference}]":                                                                                                                           "s.yaml:8: expect: content of a: the devices of machine m keep no bytes",
		"devices: [{name: d, driver: cpu}]\nsvm: [{name: p, size: 1 KB}]\ncommands: [{marker: true, queue: d}]\n":                                                                       "s.yaml:2: svm p: the devices of machine m keep no bytes, and a pointer is bytes",
		"devices: [{name: d, driver: cpu}]\nbuffers: [{name: n, size: 8, fill: {ulong: 3}}, {name: a, size: 1 KB, content_size: n}]\ncommands: [{copy: a, to: n, size: 8, queue: d}]\n": "s.yaml:3: #1 copy a[0,8) → n: it writes a count, and the devices of machine m keep no bytes",
	} {
		_, err := onMachine(t, text, noBytes, scenario.RunOptions{})
		require.ErrorContains(t, err, want)
	}
}

// Counts are numbers of the scenario's.
func TestCountsMoveAsMuchWithoutBytes(t *testing.T) {
	const text = `
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers:
- {name: n, size: 8}
- {name: a, size: 64 KiB, fill: {uchar: 1}, content_size: n}
- {name: b, size: 4 KiB}
commands:
- {write: n, fill: {ulong: 1000}, queue: left}
- {launch: copy, args: [a, {buffer: b, offset: 0, size: 4 KiB, access: write}, 4096], global: 1024, queue: right}
- {fill: n, pattern: {ulong: 9000}, queue: right}
- {read: a, queue: right}
`
	kept, err := onMachine(t, text, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, kept.OK(), "%v", kept.Mismatches)
	res, err := onMachine(t, text, noBytes, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	require.Equal(t, kept.BytesMoved, res.BytesMoved)
	require.Equal(t, kept.Model.Makespan, res.Model.Makespan)
}
