package scenario_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/scenario"
)

const failing = `
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 1 MB, fill: 1}, {name: b, size: 1 MB, fill: 2}]
commands:
- {fill: a, pattern: 3, queue: left, id: filled}
- {copy: a, to: b, queue: right, id: copied}
- {read: b, queue: left, id: read}
- {read: a, size: 1 KB, queue: host, id: other}
`

func TestCommandsFailOnMachinesAsTheScenarioSays(t *testing.T) {
	res, err := onMachine(t, failing+`
failures: [{command: copied}]
expect: [{fails: [copied, read]}, {buffer: a, fill: 3}]
`, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v %v", res.Mismatches, res.Expect)
	require.Contains(t, res.Commands[1].Failed, "command 2: failure asked for")
	require.Equal(t, uint64(1_000_000), res.BytesUndefined, "b is lost")

	res, err = onMachine(t, failing+"failures: [{command: other}]\nexpect: [{fails: [copied]}]\n", plainMachine, scenario.RunOptions{})
	require.ErrorContains(t, err, "s.yaml:8: #4 read a[0,1000)")
	require.ErrorContains(t, err, "failure asked for")
	require.False(t, res.OK())
}

// A device fails in the middle of a copy to it, and goes on afterwards.
func TestDevicesFailAtATimeAsTheScenarioSays(t *testing.T) {
	res, err := onMachine(t, failing+`
failures: [{device: right, at: 50us}]
expect: [{fails: [copied, read]}]
`, plainMachine, scenario.RunOptions{Stamps: true})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v %v", res.Mismatches, res.Expect)
	require.Contains(t, res.Commands[1].Failed, "at 50000 ns: failure asked for")
	require.Equal(t, []scenario.FailureResult{{Line: 10, Device: "right", At: 50_000, Came: true, Struck: 1}}, res.Failures)
}

// A failure that strikes nothing is no fault, since when a run ends depends on the machine;
// but the report names it.
func TestFailuresThatStrikeNothingAreNamed(t *testing.T) {
	res, err := onMachine(t, failing+"failures: [{device: host, at: 1s}, {device: left, at: 1ns}, {command: read}]\nexpect: [{fails: [read]}]\n", plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK())
	require.Equal(t, []scenario.FailureResult{{Line: 9, Device: "host", At: 1_000_000_000}, {Line: 9, Device: "left", At: 1, Came: true}}, res.Failures)
	var out bytes.Buffer
	res.Print(&out, scenario.PrintOptions{Summary: true})
	require.Contains(t, out.String(), "no effect: the failure of host at 1s: the run had ended by then (s.yaml:9)")
	require.Contains(t, out.String(), "no effect: the failure of left at 1ns: nothing was under way there (s.yaml:9)")
}

// What is read to verify is no part of the run, and no failure strikes it.
func TestNoFailureStrikesTheVerification(t *testing.T) {
	res, err := onMachine(t, failing, plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	end := res.Model.Makespan
	for _, after := range []uint64{1, 10_000, 30_000, 100_000, 200_000} {
		res, err = onMachine(t, fmt.Sprintf("%sfailures: [{device: left, at: %d ns}]\n", failing, end+after), plainMachine, scenario.RunOptions{})
		require.NoError(t, err)
		require.True(t, res.OK(), "%d ns after the end", after)
		require.False(t, res.Failures[0].Came)
	}
}

// What is enqueued once it is known that what it reads is lost is refused.
func TestCommandsThatAreRefusedForLostContentFail(t *testing.T) {
	const text = `
devices: [{name: d, driver: cpu}]
buffers: [{name: a, size: 1 KB}, {name: b, size: 1 KB, fill: 1}]
commands:
- {fill: a, pattern: 3, queue: d, id: filled}
- {map: b, as: m, flags: read, queue: d, blocking: true}
- {read: a, queue: d, id: refused}
- {unmap: m}
failures: [{command: filled}]
`
	res, err := onMachine(t, text+"expect: [{fails: [filled, refused]}]\n", plainMachine, scenario.RunOptions{})
	require.NoError(t, err)
	require.True(t, res.OK(), "%v %v", res.Mismatches, res.Expect)
	_, err = onMachine(t, text+"expect: [{fails: [filled]}]\n", plainMachine, scenario.RunOptions{})
	require.ErrorContains(t, err, "s.yaml:7: #3 read a")
}

func TestFailuresThatCannotBeAreErrors(t *testing.T) {
	for more, want := range map[string]string{
		"failures: [{command: nobody}]":         `failure: command "nobody": no command has this id`,
		"failures: [{device: middle, at: 1us}]": `failure: device: no device is named "middle"`,
		"failures: [{device: left}]":            "failure: at is missing",
		"failures: [{device: left, at: -1us}]":  "want a time such as 5us",
		"failures: [{command: read, at: 1us}]":  `unknown key "at"`,
	} {
		_, err := scenario.Parse(t.Context(), "s.yaml", []byte(failing+more), scenario.Options{})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "s.yaml:9: ")
	}
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(failing+"failures: [{command: read}]"), scenario.Options{})
	require.NoError(t, err)
	_, err = scenario.Run(t.Context(), s, scenario.RunOptions{})
	require.EqualError(t, err, "s.yaml:9: failures: they happen in virtual time: want --machine")
}
