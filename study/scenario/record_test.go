package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/mem/trace"
)

// TestWhatWasEvictedBeforeAWaitCounts: an enqueue that evicts and then waits for the room is told
// of twice, first as refused. Its evictions are the command's.
func TestWhatWasEvictedBeforeAWaitCounts(t *testing.T) {
	r := newRecorder(true)
	r.Command(&trace.CommandRecord{ID: 1, Err: mem.ErrNoMemory, Evictions: []trace.EvictionRecord{{Buffer: 1}}, Regrows: []trace.StepRecord{{Buffer: 4}}})
	r.Command(&trace.CommandRecord{ID: 2, Err: mem.ErrNoMemory, Evictions: []trace.EvictionRecord{{Buffer: 2}}})
	r.Command(&trace.CommandRecord{ID: 3, Evictions: []trace.EvictionRecord{{Buffer: 3}}})
	r.Command(&trace.CommandRecord{ID: 4})
	require.Equal(t, []trace.EvictionRecord{{Buffer: 1}, {Buffer: 2}, {Buffer: 3}}, r.command(3).Evictions)
	require.Equal(t, []trace.StepRecord{{Buffer: 4}}, r.command(3).Regrows)
	require.Empty(t, r.command(4).Evictions)
}
