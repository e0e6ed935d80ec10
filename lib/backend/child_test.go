package backend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"godwit/lib/backend"
	"godwit/runtime"
)

// child is what the test binary does as a child of itself: GODWIT_TEST_CHILD is
// "what device". It prints "ready" once its device works.
func child() {
	what, device, _ := strings.Cut(os.Getenv("GODWIT_TEST_CHILD"), " ")
	o := backend.MainOptions{Grace: 20 * time.Second} // enough for a busy machine
	switch {
	case what == "stuck-long":
		o.Grace = time.Hour
	case strings.HasPrefix(what, "stuck"):
		o.Grace = 400 * time.Millisecond
	}
	switch what {
	case "left-out":
		o.NoSignals = true
	case "terminate":
		o.Terminate = func() { fmt.Println("installed before"); os.Exit(7) }
	case "own-handler":
		own := make(chan os.Signal, 4)
		signal.Notify(own, syscall.SIGTERM)
		go func() {
			<-own // with Main
			<-own // when the queues have finished
			fmt.Println("own handler")
			os.Exit(8)
		}()
	}
	f := func(ctx context.Context) error { return childMain(ctx, what, device) }
	if what == "return" {
		backend.Main(f)
	}
	backend.MainWith(o, f)
}

func childMain(ctx context.Context, what, device string) error {
	h, err := backend.Default(ctx, device)
	if err != nil {
		return err
	}
	w, err := newWork(ctx, h)
	if err != nil {
		return err
	}
	defer func() { _ = w.buf.Release() }()
	if err := w.step(); err != nil {
		return err
	}
	switch what {
	case "return":
		return nil
	case "fail":
		return errors.New("it failed")
	case "panic":
		panic("on purpose")
	case "stuck", "stuck-long", "stuck-return":
		if err := w.stick(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	switch what {
	case "stuck-return":
		return nil // closing finds the device busy
	case "stuck", "stuck-long":
		select {} // neither the device nor f reacts
	case "save":
		for ctx.Err() == nil {
			if err := w.step(); err != nil {
				return err
			}
		}
		fmt.Println("saved:", context.Cause(ctx))
		return nil
	}
	for ctx.Err() == nil { // keeps the device busy
		if err := w.step(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// busywork keeps a device busy.
type busywork struct {
	h     *backend.Handle
	buf   *runtime.Buffer
	scale *runtime.Kernel
	n     int
}

func newWork(ctx context.Context, h *backend.Handle) (*busywork, error) {
	scale, err := h.Kernel(ctx, "scale")
	if err != nil {
		return nil, err
	}
	buf, err := h.Context().CreateBuffer(4096, 0, make([]byte, 4096))
	return &busywork{h: h, buf: buf, scale: scale}, err
}

// step enqueues a launch; every eighth step waits for all.
func (w *busywork) step() error {
	ctx := context.Background()
	e, err := w.h.Queue().EnqueueLaunch(ctx, runtime.Launch{Kernel: w.scale, Global: []uint64{64}, Args: []runtime.Arg{
		runtime.Buf(w.buf), runtime.Buf(w.buf), runtime.Float32(2), runtime.Uint64(1024)}})
	if err != nil {
		return err
	}
	if err := e.Release(); err != nil {
		return err
	}
	if w.n++; w.n%8 == 0 {
		return w.h.Queue().Finish(ctx)
	}
	return nil
}

// stick launches a kernel that never ends and waits until it is under way.
func (w *busywork) stick() error {
	k, err := w.h.KernelOf(context.Background(), stuckProgram(func() { select {} }), "stuck")
	if err != nil {
		return err
	}
	if err := w.h.Queue().Finish(context.Background()); err != nil {
		return err
	}
	e, err := w.h.Queue().EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(w.buf)}})
	if err != nil {
		return err
	}
	return errors.Join(e.Release(), w.h.Queue().Flush())
}
