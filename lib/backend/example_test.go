package backend_test

import (
	"context"
	"errors"
	"fmt"

	"godwit/lib/backend"
	"godwit/runtime"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A Manager opens each device once, when it is first asked for.
func ExampleManager() {
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	again, err := m.Default("CPU")
	check(err)
	fmt.Println(h.Backend(), h == again)
	fmt.Println(h.Reason())
	check(m.Close(context.Background()))
	check(m.Close(context.Background())) // once more does no harm
	// Output:
	// cpu true
	// cpu was asked for: kernels are Go functions on the host
}

// Everything is reachable from a Handle: here the library's kernels and a queue.
func ExampleHandle() {
	ctx := context.Background()
	m := backend.NewManager(backend.Options{})
	h, err := m.Default("cpu")
	check(err)
	fill, err := h.Kernel(ctx, "fill_i32")
	check(err)
	loan, err := h.Pool().Get(h.Queue(), 16, 0)
	check(err)
	e, err := h.Queue().EnqueueLaunch(ctx, runtime.Launch{Kernel: fill, Global: []uint64{4},
		Args: []runtime.Arg{runtime.Out(loan.Buffer()).Range(0, 16), runtime.Int32(7), runtime.Uint64(4)}})
	check(err)
	check(e.Release())
	got := make([]byte, 16)
	e, err = h.Queue().EnqueueRead(ctx, loan.Buffer(), 0, got)
	check(err)
	check(e.Wait(ctx))
	check(e.Release())
	fmt.Println(got)
	check(h.Pool().PutAfter(loan, h.Queue()))
	check(m.Close(ctx))
	// Output: [7 0 0 0 7 0 0 0 7 0 0 0 7 0 0 0]
}

// The device of a scope is a value in its context.
func ExampleWith() {
	m := backend.NewManager(backend.Options{})
	outer, err := backend.With(backend.WithManager(context.Background(), m), "cpu")
	check(err)
	inner, err := backend.With(outer, "tce")
	check(err)
	fmt.Println(backend.Active(inner).Name(), backend.Active(outer).Name())
	again := backend.WithHandle(inner, backend.Active(outer))
	fmt.Println(backend.Active(again).Name())
	check(m.Close(context.Background()))
	// Output:
	// tce cpu
	// cpu
}

// A manager asks its backends in order; a program may ask one by itself.
func ExampleBackend() {
	ctx := context.Background()
	fmt.Println(backend.CL().Name())
	for _, b := range []backend.Backend{backend.CPU(), backend.Simulated("tce")} {
		found, err := b.Candidates(ctx)
		check(err)
		d, err := b.Open(ctx, found[0])
		check(err)
		fmt.Println(b.Name(), b.OneStorage(), len(found), d.Close())
	}
	var f backend.Feature = backend.Integrated
	fmt.Println(f)
	// Output:
	// cl
	// cpu true 1 <nil>
	// tce false 1 <nil>
	// memory shared with the host
}

// Main is what a program's main calls. A program that wants to save its state when it is asked to end looks at
// why its context has ended.
func ExampleMain() {
	backend.Main(func(ctx context.Context) error {
		h, err := backend.Default(ctx, "cpu")
		if err != nil {
			return err
		}
		fmt.Println("working on", h.Name())
		<-ctx.Done()
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, backend.ErrInterrupted): // by its user, who waits: a second SIGINT ends it at once
			fmt.Println("saved")
		case errors.Is(cause, backend.ErrTerminated), errors.Is(cause, backend.ErrHangup):
			fmt.Println("gone within the grace")
		}
		return nil
	})
}
