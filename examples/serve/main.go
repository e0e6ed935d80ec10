// Serve answers requests to three models of 8 MiB over HTTP, on two devices that hold one model each. Which device
// a request goes to decides what has to be copied.
//
//	serve                             on 127.0.0.1:8080, until it is interrupted
//	serve --route least-loaded        to the device with the fewest requests
//	serve --load 20s                  asks itself, each answer compared, by each way to route
//	serve --load 10m --route preview  by one
//	serve --load 60s --isolate        the first model keeps a device: it asks alone, the others do, and then all
//	serve --driver opencl             on OpenCL's devices; else on simulated ones
//
// Ask it: POST /models/model0 with {"input": [64 numbers], "steps": 1}; GET /models; GET /metrics.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	_ "godwit/devices/cpu"
	_ "godwit/devices/opencl"
)

// options of the command line.
type options struct {
	driver, route, listen string
	models, words         int
	devCap                uint64
	load                  time.Duration
	clients, leave        int
	isolate               bool
	seed                  uint64
}

func main() {
	var o options
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.StringVar(&o.driver, "driver", "cpu", "of the two devices: cpu or opencl")
	f.StringVar(&o.route, "route", "", "preview (the default of a server), least-loaded, batched; with --load all of them")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address to serve at")
	f.IntVar(&o.models, "models", 3, "models of eight tables each")
	f.IntVar(&o.words, "words", 1<<18, "4-byte words of a table")
	f.Uint64Var(&o.devCap, "cap", 10<<20, "bytes of each device's memory")
	f.DurationVar(&o.load, "load", 0, "ask for so long, and print what it came to")
	f.IntVar(&o.clients, "clients", 16, "who ask at once, with --load")
	f.IntVar(&o.leave, "leave", 16, "one of so many requests is long, and its client leaves, with --load; 0 is none")
	f.BoolVar(&o.isolate, "isolate", false, "with --load: the first model has a device's memory as its floor")
	f.Uint64Var(&o.seed, "seed", 1, "of what they ask")
	if err := f.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := serve
	if o.load > 0 {
		run = try
	}
	if err := run(ctx, o, os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends; requests under way get their answers.
func serve(ctx context.Context, o options, out io.Writer) error {
	s, err := o.open(ctx, o.route)
	if err != nil {
		return err
	}
	handler, err := s.handler()
	if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	hs := &http.Server{Addr: o.listen, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	last := context.WithoutCancel(ctx)
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { ended <- hs.Shutdown(last) })
	defer stop()
	fmt.Fprintf(out, "http://%s/models\n", o.listen)
	if err := hs.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, s.close(last))
	}
	return errors.Join(<-ended, s.close(last))
}

// open makes a server with a way to route.
func (o *options) open(ctx context.Context, route string) (*server, error) {
	if route == "" {
		route = "preview"
	}
	by, ok := routers[route]
	if !ok {
		return nil, fmt.Errorf("route %q: want preview, least-loaded or batched", route)
	}
	floors := 0
	if o.isolate {
		floors = 1
	}
	return open(ctx, o.driver, o.models, o.words, floors, o.devCap, by())
}

// try measures one way to route, or each.
func try(ctx context.Context, o options, out io.Writer) error {
	if o.isolate {
		s, err := o.open(ctx, "preview")
		if err != nil {
			return err
		}
		return isolate(ctx, s, load{clients: o.clients, seed: o.seed, leave: o.leave}, o.load, out)
	}
	ways := []string{"least-loaded", "preview", "batched"}
	if o.route != "" {
		ways = []string{o.route}
	}
	for _, way := range ways {
		s, err := o.open(ctx, way)
		if err != nil {
			return err
		}
		timed, cancel := context.WithTimeout(ctx, o.load)
		r, err := measure(timed, s, load{clients: o.clients, seed: o.seed, leave: o.leave, warm: min(time.Minute, o.load/2)})
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		fmt.Fprintf(out, "%-12s  %v\n", way, &r)
	}
	return nil
}
