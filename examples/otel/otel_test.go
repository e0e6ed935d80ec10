package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"godwit/mem/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestACopyIsASpanWithItsReasonUnderItsCommand(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	tracer := sdk.NewTracerProvider(sdk.WithSyncer(kept)).Tracer("t")
	require.NoError(t, run(context.Background(), tracer, newSpans(tracer)))
	byID, names := make(map[string]tracetest.SpanStub), make(map[string][]string)
	for _, s := range kept.GetSpans() {
		byID[s.SpanContext.SpanID().String()] = s
	}
	for _, s := range byID {
		parent := byID[s.Parent.SpanID().String()]
		names[parent.Name] = append(names[parent.Name], s.Name)
		require.False(t, s.EndTime.Before(s.StartTime))
		if strings.HasPrefix(s.Name, "copy b") {
			require.Equal(t, "copy", parent.Name)
			require.Contains(t, s.Attributes, attribute.Int64("godwit.bytes", 1<<20))
			require.Equal(t, "cpu1 lacks version 1 of [0,1048576), fresh on cpu0; from cpu0 directly: the only copy", reason(s))
		}
	}
	require.ElementsMatch(t, []string{"fill", "copy", "copy"}, names["request"], "their parent is the span of the context")
	require.Equal(t, []string{"copy b0"}, names["copy"], "what the second copy evicts is elsewhere, too")
	require.Equal(t, []string{"request"}, names[""])
}

func reason(s tracetest.SpanStub) string {
	for _, a := range s.Attributes {
		if a.Key == "godwit.reason" {
			return a.Value.AsString()
		}
	}
	return ""
}

func TestARefusalIsAnErrorAndNothingStaysOpen(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	s := newSpans(sdk.NewTracerProvider(sdk.WithSyncer(kept)).Tracer("t"))
	s.Command(&trace.CommandRecord{ID: 1, Op: "launch", Kernel: "k", Err: errors.New("no room")})
	s.Completed(&trace.CompletionRecord{Command: 9, Step: -1}) // never heard of
	require.Empty(t, s.open)
	spans := kept.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, "launch k", spans[0].Name)
	require.Equal(t, sdk.Status{Code: codes.Error, Description: "no room"}, spans[0].Status)
	s.Buffer(&trace.BufferRecord{Buffer: 1, Name: "x"})
	s.Buffer(&trace.BufferRecord{Buffer: 1, Name: "x", Released: true})
	require.Empty(t, s.names)
}
