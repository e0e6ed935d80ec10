//go:build linux

// Shm has two processes add to the same numbers by turns, each on a device of its own: the first starts the second, and what goes between them
// are a socket and memory. Interrupt it, or kill either: the other says so.
//
//	go run ./examples/shm
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/shm"
	"godwit/runtime"
)

const (
	rounds  = 3
	numbers = 1 << 16
	child   = "GODWIT_EXAMPLE_SHM"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	run := parent
	if os.Getenv(child) != "" {
		run = second
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shm:", err)
		os.Exit(1)
	}
}

// parent starts the second process, and has the first turn.
func parent(ctx context.Context) (err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = append(os.Environ(), child+"=1"), []*os.File{theirs}, os.Stdout, os.Stderr
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	conn, err := socket(fds[0])
	if err != nil {
		return err
	}
	r, err := shm.Create(conn, 4*numbers)
	if err != nil {
		return err
	}
	return turns(ctx, r, "first", true)
}

func second(ctx context.Context) error {
	conn, err := socket(3)
	if err != nil {
		return err
	}
	r, err := shm.Open(conn, 4*numbers)
	if err != nil {
		return err
	}
	fmt.Println("shared:", r.Size(), "bytes")
	return turns(ctx, r, "second", false)
}

func socket(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("file %d is a %T, and must be a Unix socket", fd, c)
	}
	return conn, nil
}

// turns adds one to all numbers, by turns with the other process.
func turns(ctx context.Context, r *shm.Region, who string, first bool) (err error) {
	defer context.AfterFunc(ctx, func() { _ = r.Hang() })()
	defer func() { err = errors.Join(err, r.Close()) }()
	d, err := cpu.New(cpu.Options{Name: who})
	if err != nil {
		return err
	}
	c, err := runtime.NewContext(runtime.Options{Name: who, Devices: []devices.Device{d}, OwnDevices: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	if err != nil {
		return err
	}
	b, err := r.Buffer(ctx, q, c, "numbers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Release()) }()
	return play(ctx, q, b, who, first)
}

func play(ctx context.Context, q *runtime.Queue, b *shm.Buffer, who string, first bool) error {
	q = q.With(runtime.CommandOptions{NoEvent: true})
	var got [1]uint32
	for i := range rounds {
		if !first || i > 0 {
			taken, err := b.EnqueueAcquire(ctx, q)
			if err != nil {
				return err
			}
			if err := errors.Join(taken.Wait(ctx), taken.Release()); err != nil {
				return err
			}
		}
		if err := runtime.ReadSlice(ctx, q, b.Buffer, numbers-1, got[:]); err != nil {
			return err
		}
		fmt.Printf("%-6s has %d bytes of %d\n", who, b.Size(), got[0])
		got[0]++
		if _, err := q.EnqueueFill(ctx, b.Buffer, runtime.BytesOf(got[:]), 0, b.Size()); err != nil {
			return err
		}
		given, err := b.EnqueueRelease(ctx, q)
		if err != nil {
			return err
		}
		if err := errors.Join(given.Wait(ctx), given.Release()); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	last, err := b.EnqueueAcquire(ctx, q) // the second's last turn ends before its socket does
	if err != nil {
		return err
	}
	return errors.Join(last.Wait(ctx), last.Release())
}
