package trace_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/mem/trace"
)

func TestARecorderKeepsCopiesOfWhatItIsTold(t *testing.T) {
	var r trace.Recorder
	line := mem.NewTimeline("q", true, nil)
	step := trace.StepRecord{Buffer: 1, Range: mem.Range{End: 64}, From: 1, To: 2, RideAlong: 4, Waits: []mem.Wait{{Point: line.Next()}}, Point: line.Next()}
	c := trace.CommandRecord{ID: 1, Version: 7, Accesses: []mem.Access{{Buffer: 1}}, Blocks: []trace.BlockRecord{{Bytes: 64}}, Steps: []trace.StepRecord{step}, Waits: []mem.Wait{{}}}
	r.Buffer(&trace.BufferRecord{Buffer: 1})
	r.Command(&c)
	c.Accesses[0].Buffer, c.Blocks[0].Bytes, c.Steps[0].Buffer, c.Steps[0].Waits[0].Kind, c.Waits[0].Kind = 9, 9, 9, mem.Data, mem.Data // the caller's again
	r.Completed(&trace.CompletionRecord{Command: 1, Step: -1})

	require.Equal(t, []trace.BufferRecord{{Buffer: 1}}, r.Buffers())
	require.Equal(t, []trace.CompletionRecord{{Command: 1, Step: -1}}, r.Completions())
	got := r.Commands()
	require.Len(t, got, 1)
	require.Equal(t, mem.BufferID(1), got[0].Accesses[0].Buffer)
	require.Equal(t, uint64(64), got[0].Blocks[0].Bytes)
	require.Equal(t, mem.BufferID(1), got[0].Steps[0].Buffer)
	require.Equal(t, mem.Order, got[0].Steps[0].Waits[0].Kind)
	require.Equal(t, mem.Order, got[0].Waits[0].Kind)
	require.Empty(t, r.CommandsFrom(1))
	require.Empty(t, r.CommandsFrom(5))
	require.Equal(t, uint64(60), r.BytesMoved(), "what rides along is not counted")
}

func TestStepsThatWereNeverSubmittedMoveNothing(t *testing.T) {
	var r trace.Recorder
	r.Command(&trace.CommandRecord{ID: 1, Steps: []trace.StepRecord{{Range: mem.Range{End: 64}}}})
	require.Zero(t, r.BytesMoved())
}

func TestARecorderIsSafeForManyGoroutines(t *testing.T) {
	var r trace.Recorder
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				r.Command(&trace.CommandRecord{ID: uint64(i)})
				r.Completed(&trace.CompletionRecord{})
				_ = r.Commands()
			}
		})
	}
	wg.Wait()
	require.Len(t, r.Commands(), 400)
	require.Len(t, r.Completions(), 400)
}
