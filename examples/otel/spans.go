package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"godwit/mem/trace"
)

// spans is a trace.CommandSink that makes a span of each command, a child of the span in the context that it was enqueued with, and one of
// each copy for it, with its reason. It is not safe for concurrent use: trace.Async calls it from one goroutine.
type spans struct {
	tracer oteltrace.Tracer
	epoch  time.Time // when the context was made: what records' times begin at
	names  map[uint64]string
	open   map[uint64]*command
}

// command is one that has not ended, or copies of it have not.
type command struct {
	ctx   context.Context // with its span
	span  oteltrace.Span
	steps map[int]trace.StepRecord // that have not ended, by CompletionRecord.Step
}

func newSpans(t oteltrace.Tracer) *spans {
	return &spans{tracer: t, epoch: time.Now(), names: make(map[uint64]string), open: make(map[uint64]*command)}
}

func (s *spans) at(ns int64) oteltrace.SpanEventOption {
	return oteltrace.WithTimestamp(s.epoch.Add(time.Duration(ns)))
}

// Ends implements trace.CommandSink: a span has an end.
func (s *spans) Ends() trace.Ends { return trace.AllEnds }

// Buffer implements trace.CommandSink.
func (s *spans) Buffer(r *trace.BufferRecord) {
	if s.names[uint64(r.Buffer)] = r.Name; r.Released {
		delete(s.names, uint64(r.Buffer))
	}
}

// Command implements trace.CommandSink.
func (s *spans) Command(r *trace.CommandRecord) {
	ctx, name := r.Context, r.Op
	if ctx == nil { // of a graph
		ctx = context.Background()
	}
	if r.Kernel != "" {
		name += " " + r.Kernel
	}
	ctx, span := s.tracer.Start(ctx, name, s.at(r.Enqueued), oteltrace.WithAttributes(
		attribute.String("godwit.queue", r.Queue), attribute.String("godwit.label", r.Label), attribute.Int("godwit.evictions", len(r.Evictions))))
	k := &command{ctx, span, make(map[int]trace.StepRecord)}
	back := -2
	for _, v := range r.Evictions {
		for _, b := range v.Backs {
			b.Why = "written back: " + b.Why
			k.steps[back] = b
			back--
		}
	}
	for i, step := range r.Steps {
		if !step.Point.IsZero() {
			k.steps[i] = step
		}
	}
	if s.open[r.ID] = k; r.Err != nil {
		s.end(r.ID, k, &trace.CompletionRecord{Err: r.Err, Ended: r.Done})
	}
}

// Completed implements trace.CommandSink.
func (s *spans) Completed(r *trace.CompletionRecord) {
	k := s.open[r.Command]
	if k == nil {
		return // its command was dropped
	}
	if r.Step == -1 {
		s.end(r.Command, k, r)
		return
	}
	step := k.steps[r.Step]
	begun := r.Started
	if begun == 0 { // the queue keeps no times
		begun = r.Ended
	}
	_, span := s.tracer.Start(k.ctx, "copy "+s.names[uint64(step.Buffer)], s.at(begun), oteltrace.WithAttributes(
		attribute.String("godwit.reason", step.Why), attribute.Int64("godwit.bytes", int64(r.Moved.Size())),
		attribute.Int("godwit.from", int(step.From)), attribute.Int("godwit.to", int(step.To))))
	finish(span, r.Err)
	span.End(s.at(r.Ended))
	delete(k.steps, r.Step)
	s.forget(r.Command, k)
}

// end ends a command's span; its write-backs may end later.
func (s *spans) end(id uint64, k *command, r *trace.CompletionRecord) {
	finish(k.span, r.Err)
	k.span.End(s.at(r.Ended))
	k.span = nil
	s.forget(id, k)
}

func (s *spans) forget(id uint64, k *command) {
	if k.span == nil && len(k.steps) == 0 {
		delete(s.open, id)
	}
}

func finish(span oteltrace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}
