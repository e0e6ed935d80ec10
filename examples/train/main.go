// Train trains a two-layer perceptron to tell the inside of a ring from its outside,
// on one device or on several at once.
//
//	train                         on the best device there is
//	train --device tce -n 3       on three simulated ones
//	train --device gpu -n 0       on all GPUs
//	train --device gpu --memory 100000   with no more memory than that
//
// Interrupt it: the step under way ends, and the loss so far is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	_ "godwit/devices/tce"
	"godwit/lib/backend"
)

// options of the command line.
type options struct {
	device  string
	n       int // devices
	epochs  int
	samples int
	batch   int // samples of one step, on all devices together
	hidden  int // units
	rate    float64
	seed    uint64
	memory  uint64 // bytes of each device
	record  bool   // the step is recorded once, and replayed
}

func main() {
	var o options
	f := pflag.NewFlagSet("train", pflag.ContinueOnError)
	f.StringVar(&o.device, "device", "auto", "auto, gpu, accel, cpu, a driver, or a part of an OpenCL device's name")
	f.IntVarP(&o.n, "devices", "n", 1, "how many of them; 0 is all")
	f.IntVar(&o.epochs, "epochs", 20, "passes over the data")
	f.IntVar(&o.samples, "samples", 16384, "points to learn from")
	f.IntVar(&o.batch, "batch", 2048, "points of one step, over all devices")
	f.IntVar(&o.hidden, "hidden", 32, "hidden units")
	f.Float64Var(&o.rate, "rate", 2, "learning rate")
	f.Uint64Var(&o.memory, "memory", 0, "bytes of each device's memory to use at most, where it has one of its own; 0 is all")
	f.BoolVar(&o.record, "record", true, "record the step once and replay it; else each is enqueued anew")
	f.Uint64Var(&o.seed, "seed", 1, "of data and first weights")
	if err := f.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(2)
	}
	manager := backend.MainOptions{Manager: backend.Options{Memory: o.memory}}
	backend.MainWith(manager, func(ctx context.Context) error { return run(ctx, o, os.Stdout, os.Stderr) })
}

// run trains, with losses on out and a bar on progress.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	hs, err := backend.ManagerOf(ctx).Group(o.device, o.n)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d x %s\n%s\n", len(hs), hs[0], hs[0].Reason())
	net, err := newNetwork(ctx, hs, o)
	if err != nil {
		return err
	}
	defer net.release()
	if f, ok := progress.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		progress = io.Discard // a bar is for the eye
	}
	bar := progressbar.NewOptions(o.epochs*len(net.batches), progressbar.OptionSetWriter(progress),
		progressbar.OptionSetDescription("training"), progressbar.OptionClearOnFinish())
	for epoch := range o.epochs {
		for i := range net.batches {
			if ctx.Err() != nil {
				fmt.Fprintf(out, "stopped in epoch %d: %v\n", epoch+1, context.Cause(ctx))
				return nil
			}
			if err := net.step(ctx, net.batches[i]); err != nil {
				return err
			}
			_ = bar.Add(1) // only for the eye
		}
		loss, err := net.loss(ctx) // the epoch's one synchronization
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "epoch %2d  loss %.4f\n", epoch+1, loss)
	}
	for i, h := range hs {
		s := h.Pool().Stats()
		fmt.Fprintf(out, "device %d: %d buffers, %d bytes, hit rate %.4f\n", i, s.Buffers, s.Held, s.HitRate())
	}
	if net.recorded != nil {
		g := net.recorded.Figures()
		fmt.Fprintf(out, "recorded: %d commands and %d copies of %d bytes; %d bytes of results in between, %d of them at once; %d steps, %d enqueued one by one\n",
			g.Commands, g.Copies, g.Bytes, g.Transients, g.Live, g.Replays, g.Plain)
	}
	s := hs[0].Context().Stats()
	fmt.Fprintf(out, "bytes moved between memories: %d\n", s.BytesMoved)
	if s.Evictions > 0 {
		fmt.Fprintf(out, "evicted: %d blocks of %d bytes, %d bytes dropped, %d written back\n", s.Evictions, s.BytesEvicted, s.BytesDropped, s.BytesWrittenBack)
	}
	return nil
}
