// Command path has a launch need 1 MiB that another device wrote, and writes down which code ran
// meanwhile. tools/path builds it for coverage, runs it and counts.
//
// usage: path cpu|opencl|bus DIR
//
// DIR gets the folders first, the first use of the buffer on the second device, and again, the
// next that has to copy.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"godwit/devices"
	_ "godwit/devices/cpu"
	_ "godwit/devices/opencl"
	"godwit/lib/kernels"
	"godwit/runtime"
)

const size = 1 << 20

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: path cpu|opencl|bus DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

// open opens two devices of a kind.
func open(ctx context.Context, kind string) (devs []devices.Device, err error) {
	if kind != "cpu" {
		bus := map[string]string{"opencl": "off", "bus": "on"}[kind]
		return devices.Open(ctx, "opencl", devices.Config{Params: map[string]string{"count": "2", "bus": bus}})
	}
	for range 2 {
		d, err := devices.Open(ctx, "cpu", devices.Config{})
		if err != nil {
			return devs, err
		}
		devs = append(devs, d...)
	}
	return devs, nil
}

func run(ctx context.Context, kind, dir string) (err error) {
	devs, err := open(ctx, kind)
	if err != nil {
		return err
	}
	if len(devs) != 2 {
		return fmt.Errorf("%s: %d devices, two are wanted", kind, len(devs))
	}
	c, err := runtime.OpenContext(ctx, runtime.Options{Devices: devs, OwnDevices: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	p, err := c.Build(ctx, kernels.Program())
	if err != nil {
		return err
	}
	k, err := p.Kernel("scale")
	if err != nil {
		return err
	}
	b, err := c.CreateBuffer(size, 0, make([]byte, size))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Release()) }()
	step := func(q *runtime.Queue) error {
		e, err := q.EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{size / 4}, Args: []runtime.Arg{
			runtime.Buf(b), runtime.Buf(b), runtime.Float32(2), runtime.Uint64(size / 4),
		}})
		if err != nil {
			return err
		}
		return errors.Join(e.Wait(ctx), e.Release())
	}
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		if err != nil {
			return err
		}
		queues = append(queues, q)
	}
	for _, window := range []string{"first", "again"} {
		if err := step(queues[0]); err != nil {
			return err
		}
		if err := counted(filepath.Join(dir, window), func() error { return step(queues[1]) }); err != nil {
			return err
		}
	}
	return nil
}

// counted writes down what runs in f.
func counted(dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // what earlier commands leave to be done has been
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return errors.Join(coverage.WriteCountersDir(dir), coverage.WriteMetaDir(dir))
}
