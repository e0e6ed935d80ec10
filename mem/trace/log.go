package trace

import (
	"context"
	"log/slog"
	"time"
)

// Log is a CommandSink that logs each command, copy and eviction: at debug level, refusals and failures as warnings. The commands' contexts are the
// handler's. It writes as it is called: put it behind an Async, unless its handler only keeps what it is given.
type Log struct {
	to   *slog.Logger // immutable
	ends Ends         // immutable
}

var _ CommandSink = (*Log)(nil)

// NewLog returns a sink that logs to l. With AllEnds it logs when commands and copies have ended, too.
func NewLog(l *slog.Logger, ends Ends) *Log { return &Log{l, ends} }

// Ends implements CommandSink.
func (l *Log) Ends() Ends { return l.ends }

// Buffer implements CommandSink.
func (l *Log) Buffer(r *BufferRecord) {
	what := "buffer created"
	if r.Released {
		what = "buffer released"
	}
	l.to.Debug(what, "buffer", uint64(r.Buffer), "name", r.Name, "bytes", r.Size)
}

// Command implements CommandSink.
func (l *Log) Command(r *CommandRecord) {
	ctx := r.Context
	if ctx == nil {
		ctx = context.Background()
	}
	for i := range r.Evictions {
		v := &r.Evictions[i]
		l.to.DebugContext(ctx, "eviction", "command", r.ID, "buffer", uint64(v.Buffer), "memory", uint64(v.Memory), "bytes", v.Range.Size(),
			"written_back", v.Fresh-v.Dropped, "policy", v.Policy, "why", v.Why)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		l.to.DebugContext(ctx, "copy", "command", r.ID, "step", i, "buffer", uint64(s.Buffer), "bytes", s.Range.Size(), "why", s.Why)
	}
	attrs := []any{"command", r.ID, "op", r.Op, "kernel", r.Kernel, "queue", r.Queue, "label", r.Label}
	switch {
	case r.Again:
		l.to.DebugContext(ctx, "command waits for room", append(attrs, "err", r.Err)...)
	case r.Err != nil:
		l.to.WarnContext(ctx, "command refused", append(attrs, "err", r.Err)...)
	default:
		l.to.DebugContext(ctx, "command", attrs...)
	}
}

// Completed implements CommandSink.
func (l *Log) Completed(r *CompletionRecord) {
	attrs := []any{"command", r.Command, "step", r.Step, "ended", time.Duration(r.Ended)}
	if r.Started > 0 {
		attrs = append(attrs, "took", time.Duration(r.Ended-r.Started))
	}
	if r.Err != nil {
		l.to.Warn("failed", append(attrs, "err", r.Err)...)
		return
	}
	l.to.Debug("ended", attrs...)
}
