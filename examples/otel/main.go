// Otel shows where a request's time went: its span has the commands that it enqueued as children, and each copy that the runtime made for one
// of these is a child of the command, with its reason.
//
//	go run ./examples/otel
//	go run ./examples/otel --log   the same as lines of log/slog
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/mem/trace"
	"godwit/runtime"
)

func main() {
	ctx := context.Background()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(printer{os.Stdout})) // a program's would have a batcher and OTLP's exporter
	tracer := provider.Tracer("godwit/examples/otel")
	var to trace.CommandSink = newSpans(tracer)
	if len(os.Args) > 1 && os.Args[1] == "--log" {
		to = trace.NewLog(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug})), trace.AllEnds)
	}
	if err := errors.Join(run(ctx, tracer, to), provider.Shutdown(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "otel:", err)
		os.Exit(1)
	}
}

// run answers one request: it fills a buffer on one device and copies it on another, whose memory holds one buffer beside it.
func run(ctx context.Context, tracer oteltrace.Tracer, to trace.CommandSink) (err error) {
	const size = 1 << 20
	sink := trace.NewAsync(to, 1<<12)
	defer sink.Close()
	var devs []devices.Device
	for _, name := range []string{"cpu0", "cpu1"} {
		d, err := cpu.New(cpu.Options{Name: name, Memory: 2 * size})
		if err != nil {
			return err
		}
		devs = append(devs, d)
	}
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, Trace: sink})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	var bufs [3]*runtime.Buffer
	for i := range bufs {
		if bufs[i], err = c.CreateNamedBuffer(fmt.Sprint("b", i), size, 0, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bufs[i].Release()) }()
	}
	request, span := tracer.Start(ctx, "request")
	defer span.End()
	for i, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{Profiling: true})
		if err != nil {
			return err
		}
		if i == 0 {
			_, err = q.EnqueueFill(request, bufs[0], []byte{7}, 0, size)
		} else if _, err = q.EnqueueCopy(request, bufs[0], bufs[1], 0, 0, size); err == nil {
			_, err = q.EnqueueCopy(request, bufs[1], bufs[2], 0, 0, size) // one has to leave
		}
		if err = errors.Join(err, q.Finish(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// printer is an exporter that prints spans as they end.
type printer struct{ to io.Writer }

// ExportSpans implements sdk.SpanExporter.
func (p printer) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	for _, s := range spans {
		if _, err := fmt.Fprintf(p.to, "%-10s %v", s.Name(), s.EndTime().Sub(s.StartTime()).Round(time.Microsecond)); err != nil {
			return err
		}
		for _, a := range s.Attributes() {
			if a.Key == "godwit.reason" {
				fmt.Fprintf(p.to, "  %s", a.Value.AsString())
			}
		}
		fmt.Fprintln(p.to)
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (printer) Shutdown(context.Context) error { return nil }
