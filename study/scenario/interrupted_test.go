package scenario_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
	"godwit/study/scenario"
)

// What was enqueued and had not run when the context ended counts as nothing.
func TestAnInterruptedRunCountsWhatWasDone(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: left, driver: cpu}, {name: right, driver: cpu}]
buffers: [{name: a, size: 1 MB}, {name: b, size: 1 MB}]
commands:
- {repeat: 100, do: [{fill: a, pattern: 3, queue: left}, {copy: a, to: b, queue: right}]}
`), scenario.Options{})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(plainMachine), machine.Options{Devices: 2})
	require.NoError(t, err)
	signal := errors.New("a signal came")
	ctx, stop := context.WithCancelCause(t.Context())
	res, err := scenario.Run(ctx, s, scenario.RunOptions{Machine: m, Progress: func(stage string, done, _ int) {
		if stage == "finished" && done == 40 {
			stop(signal)
		}
	}})
	require.ErrorIs(t, err, signal)
	require.Equal(t, "a signal came", res.Error)
	require.False(t, res.OK())
	in := res.Interrupted
	require.NotNil(t, in)
	require.Equal(t, 200, in.Commands)
	require.Equal(t, 200, in.Enqueued)
	require.GreaterOrEqual(t, in.Ended, 40)
	require.Less(t, in.Ended, 60, "the others are queued")
	require.InDelta(t, in.Ended/2, in.Copies, 1)
	require.Equal(t, uint64(in.Copies)*1_000_000, res.BytesMoved)
	require.Greater(t, in.Time, uint64(in.Copies*50_000), "nanoseconds")
	require.Equal(t, in, res.Digest().Interrupted)
	var out bytes.Buffer
	res.Print(&out, scenario.PrintOptions{NoReason: true})
	require.Contains(t, out.String(), "interrupted at 1.208ms: 41 of 200 commands had ended, which moved 20,000,000 B in 20 copies\n✗ not finished\n")
}

func TestARunThatIsInterruptedBeforeItBeginsSaysSo(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(handOver), scenario.Options{})
	require.NoError(t, err)
	signal := errors.New("a signal came")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(signal)
	res, err := scenario.Run(ctx, s, scenario.RunOptions{})
	require.ErrorIs(t, err, signal)
	require.Zero(t, res.BytesMoved)
}

// A signal that comes when all commands have ended, while what they left is being compared, says so.
func TestARunThatIsInterruptedLateSaysWhatHadEnded(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(handOver), scenario.Options{})
	require.NoError(t, err)
	whole, err := scenario.Run(t.Context(), s, scenario.RunOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, whole.Copies)
	signal := errors.New("a signal came")
	ctx, stop := context.WithCancelCause(t.Context())
	res, err := scenario.Run(ctx, s, scenario.RunOptions{Progress: func(stage string, _, _ int) {
		if stage == "reference" {
			stop(signal)
		}
	}})
	require.ErrorIs(t, err, signal)
	require.Equal(t, "a signal came", res.Error)
	require.False(t, res.OK())
	in := res.Interrupted
	require.NotNil(t, in)
	n := len(whole.Commands)
	require.Equal(t, [4]int{n, n, n, len(whole.Copies)}, [4]int{in.Commands, in.Enqueued, in.Ended, in.Copies})
	require.Equal(t, whole.BytesMoved, res.BytesMoved)
	var out bytes.Buffer
	res.Print(&out, scenario.PrintOptions{NoReason: true})
	require.Contains(t, out.String(), fmt.Sprintf("interrupted: %d of %d commands had ended, which moved ", n, n))
}

// A command that failed, as its scenario says, has not ended well, however late the signal comes.
func TestAnInterruptedRunCountsNoCommandThatFailed(t *testing.T) {
	signal := errors.New("a signal came")
	ctx, stop := context.WithCancelCause(t.Context())
	s, err := scenario.Parse(ctx, "s.yaml", []byte(failing+"failures: [{command: copied}]\nexpect: [{fails: [copied, read]}]\n"), scenario.Options{})
	require.NoError(t, err)
	m, err := machine.Parse("m.yaml", []byte(plainMachine), machine.Options{Devices: 2})
	require.NoError(t, err)
	res, err := scenario.Run(ctx, s, scenario.RunOptions{Machine: m, Progress: func(stage string, _, _ int) {
		if stage == "reference" {
			stop(signal)
		}
	}})
	require.ErrorIs(t, err, signal)
	require.NotNil(t, res.Interrupted)
	require.Equal(t, 4, res.Interrupted.Enqueued)
	require.Equal(t, 2, res.Interrupted.Ended)
}
