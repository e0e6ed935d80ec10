package trace_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/mem/trace"
)

// slow is a sink that takes a record when it is let.
type slow struct {
	trace.Recorder
	let chan struct{}
}

func (s *slow) Command(r *trace.CommandRecord) {
	<-s.let
	s.Recorder.Command(r)
}

func TestAnAsyncSinkKeepsTheOrderAndCountsWhatItDrops(t *testing.T) {
	to := &slow{let: make(chan struct{})}
	a := trace.NewAsync(to, 4)
	require.Equal(t, trace.AllEnds, a.Ends())
	r := trace.CommandRecord{Accesses: []mem.Access{{Buffer: 1}}}
	for i := range uint64(50) {
		r.ID, r.Accesses[0].Buffer = i, mem.BufferID(i) // the caller uses it again
		a.Command(&r)
	}
	require.GreaterOrEqual(t, a.Dropped(), uint64(45))
	close(to.let)
	a.Close()
	a.Close()
	kept := to.Commands()
	require.EqualValues(t, 50, uint64(len(kept))+a.Dropped())
	for i, c := range kept {
		require.EqualValues(t, i, c.ID)
		require.EqualValues(t, i, c.Accesses[0].Buffer)
	}
	a.Buffer(&trace.BufferRecord{})
	require.EqualValues(t, 51, uint64(len(kept))+a.Dropped(), "it is closed")
}

func TestAnAsyncSinkOfManyGoroutinesLosesNothing(t *testing.T) {
	to := new(trace.Recorder)
	a := trace.NewAsync(to, 1<<12)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				a.Command(&trace.CommandRecord{})
				a.Completed(&trace.CompletionRecord{})
				a.Buffer(&trace.BufferRecord{})
			}
		})
	}
	all.Wait()
	a.Close()
	require.Zero(t, a.Dropped())
	require.Len(t, to.Commands(), 800)
	require.Len(t, to.Completions(), 800)
	require.Len(t, to.Buffers(), 800)
}

func TestALogHasCommandsCopiesAndFailures(t *testing.T) {
	var out bytes.Buffer
	l := trace.NewLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), trace.AllEnds)
	l.Buffer(&trace.BufferRecord{Buffer: 3, Name: "x", Size: 64})
	l.Buffer(&trace.BufferRecord{Buffer: 3, Name: "x", Size: 64, Released: true})
	step := trace.StepRecord{Buffer: 3, Range: mem.Range{End: 64}, Why: "because"}
	l.Command(&trace.CommandRecord{ID: 1, Op: "launch", Kernel: "k", Queue: "q", Context: context.Background(), Steps: []trace.StepRecord{step},
		Evictions: []trace.EvictionRecord{{Buffer: 2, Memory: 1, Range: mem.Range{End: 32}, Fresh: 32, Dropped: 8, Policy: "lru", Why: "unused"}}})
	l.Command(&trace.CommandRecord{ID: 2, Op: "read", Queue: "q", Err: errors.New("no"), Again: true})
	l.Command(&trace.CommandRecord{ID: 2, Op: "read", Queue: "q", Err: errors.New("no")})
	l.Completed(&trace.CompletionRecord{Command: 1, Step: -1, Started: 1000, Ended: 3000})
	l.Completed(&trace.CompletionRecord{Command: 1, Step: 0, Ended: 3000, Err: errors.New("lost")})
	require.Equal(t, `level=DEBUG msg="buffer created" buffer=3 name=x bytes=64
level=DEBUG msg="buffer released" buffer=3 name=x bytes=64
level=DEBUG msg=eviction command=1 buffer=2 memory=1 bytes=32 written_back=24 policy=lru why=unused
level=DEBUG msg=copy command=1 step=0 buffer=3 bytes=64 why=because
level=DEBUG msg=command command=1 op=launch kernel=k queue=q label=""
level=DEBUG msg="command waits for room" command=2 op=read kernel="" queue=q label="" err=no
level=WARN msg="command refused" command=2 op=read kernel="" queue=q label="" err=no
level=DEBUG msg=ended command=1 step=-1 ended=3µs took=2µs
level=WARN msg=failed command=1 step=0 ended=3µs err=lost
`, out.String())
}
