//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/shm"
	"godwit/mem"
	"godwit/runtime"
)

const size = 1 << 16

// rounds is how often the turn goes to the other process and back.
const rounds = 20

func TestMain(m *testing.M) {
	if os.Getenv("SHM_ROUNDS") == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is the other process: it adds one to what it is given, for some rounds, and dies when it has the turn for the last time.
func child() error {
	var rounds int
	if _, err := fmt.Sscan(os.Getenv("SHM_ROUNDS"), &rounds); err != nil {
		return err
	}
	conn, err := connOf(3)
	if err != nil {
		return err
	}
	r, err := shm.Open(conn, size)
	if err != nil {
		return err
	}
	p, err := newParty(r)
	if err != nil {
		return err
	}
	for i := range rounds {
		got, err := p.acquire()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(got, func(b byte) bool { return b != byte(2*i) }) {
			return fmt.Errorf("round %d: %d and %d", i, got[0], got[size-1])
		}
		if err := p.release(byte(2*i + 1)); err != nil {
			return err
		}
	}
	_, err = p.acquire()
	return err // and is gone
}

// party is a process's side, with a device that has memory of its own.
type party struct {
	c      *runtime.Context
	q, own *runtime.Queue
	b      *shm.Buffer
}

func newParty(r *shm.Region) (*party, error) {
	d, err := cpu.New(cpu.Options{Name: "cpu"})
	if err != nil {
		return nil, err
	}
	p := new(party)
	if p.c, err = runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true}); err != nil {
		return nil, err
	}
	for _, q := range []**runtime.Queue{&p.q, &p.own} {
		if *q, err = p.c.NewQueue(d, runtime.QueueOptions{}); err != nil {
			return nil, err
		}
	}
	p.b, err = r.Buffer(context.Background(), p.own, p.c, "shared")
	return p, err
}

// acquire takes the turn and copies the content, by way of the device.
func (p *party) acquire() ([]byte, error) {
	ctx := context.Background()
	e, err := p.b.EnqueueAcquire(ctx, p.own)
	if err != nil {
		return nil, err
	}
	got := make([]byte, size)
	read, err := p.q.EnqueueRead(ctx, p.b.Buffer, 0, got) // it waits for the acquire, as for any writer
	if err != nil {
		return nil, err
	}
	if err := e.Wait(ctx); err != nil {
		return nil, err
	}
	return got, read.Wait(ctx)
}

// release writes on the device and gives the turn.
func (p *party) release(value byte) error {
	ctx := context.Background()
	if _, err := p.q.EnqueueFill(ctx, p.b.Buffer, []byte{value}, 0, size); err != nil {
		return err
	}
	e, err := p.b.EnqueueRelease(ctx, p.own)
	if err != nil {
		return err
	}
	return e.Wait(ctx)
}

func (p *party) close(t *testing.T) {
	require.NoError(t, p.b.Release())
	require.NoError(t, p.c.Close(context.Background()))
}

func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), f.Close()
}

// pair are two connected sockets.
func pair(t *testing.T) (a, b *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	a, err = connOf(fds[0])
	require.NoError(t, err)
	b, err = connOf(fds[1])
	require.NoError(t, err)
	return a, b
}

// start runs the other process.
func start(t *testing.T, conn *net.UnixConn, rounds int) *exec.Cmd {
	f, err := conn.File()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint("SHM_ROUNDS=", rounds))
	cmd.ExtraFiles, cmd.Stderr = []*os.File{f}, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, f.Close())
	require.NoError(t, conn.Close())
	return cmd
}

// TestTwoProcessesTakeTurns, each on a device of its own, until one is gone: then the bytes that it was to give are lost, and nothing else.
func TestTwoProcessesTakeTurns(t *testing.T) {
	ours, theirs := pair(t)
	cmd := start(t, theirs, rounds)
	r, err := shm.Create(ours, size)
	require.NoError(t, err)
	require.EqualValues(t, size, r.Size())
	p, err := newParty(r)
	require.NoError(t, err)
	ctx := context.Background()
	_, err = p.b.EnqueueAcquire(ctx, p.own)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "it is ours")
	for i := range rounds {
		require.NoError(t, p.release(byte(2*i)))
		_, err = p.b.EnqueueRelease(ctx, p.own)
		require.ErrorIs(t, err, mem.ErrInvalidOperation)
		got, err := p.acquire()
		require.NoError(t, err)
		require.Equal(t, slices.Repeat([]byte{byte(2*i + 1)}, size), got)
	}
	require.NoError(t, p.release(2*rounds))
	_, err = p.acquire()
	require.ErrorIs(t, err, shm.ErrPeer)
	require.NoError(t, cmd.Wait())
	_, err = p.q.EnqueueRead(ctx, p.b.Buffer, 0, make([]byte, size))
	require.ErrorIs(t, err, shm.ErrPeer, "the bytes are poisoned")
	e, err := p.q.EnqueueFill(ctx, p.b.Buffer, []byte{9}, 0, size)
	require.NoError(t, err)
	require.NoError(t, e.Wait(ctx), "and can be written anew")
	require.NoError(t, p.c.Check())
	p.close(t)
	require.NoError(t, r.Close())
}

// TestAnAcquireEndsWhenItsProcessHangsUp, and a buffer may be released while the other has the turn.
func TestAnAcquireEndsWhenItsProcessHangsUp(t *testing.T) {
	ours, theirs := pair(t)
	r, err := shm.Create(ours, size)
	require.NoError(t, err)
	other, err := shm.Open(theirs, size)
	require.NoError(t, err)
	p, err := newParty(r)
	require.NoError(t, err)
	require.NoError(t, p.release(1))
	e, err := p.b.EnqueueAcquire(context.Background(), p.own)
	require.NoError(t, err)
	require.NoError(t, r.Hang())
	require.ErrorIs(t, e.Wait(context.Background()), shm.ErrPeer)
	p.close(t)

	q, err := newParty(other)
	require.NoError(t, err)
	q.close(t)
	require.NoError(t, r.Close())
	require.NoError(t, other.Close())
}

// TestAFileThatMayShrinkIsRefused, and so is whatever else a process may send.
func TestAFileThatMayShrinkIsRefused(t *testing.T) {
	memory := func(seals, size int) int {
		fd, err := unix.MemfdCreate("t", unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(fd, int64(size)))
		if seals != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			require.NoError(t, err)
		}
		return fd
	}
	const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	disk, err := unix.Open("shm_test.go", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		fds  []int
		want error
	}{
		"no seals":  {[]int{memory(0, size)}, shm.ErrSeals},
		"one seal":  {[]int{memory(unix.F_SEAL_GROW, size)}, shm.ErrSeals},
		"a file":    {[]int{disk}, shm.ErrSeals},
		"too large": {[]int{memory(sealed, size+1)}, mem.ErrInvalidSize},
		"empty":     {[]int{memory(sealed, 0)}, mem.ErrInvalidSize},
		"read only": {[]int{memory(sealed|unix.F_SEAL_WRITE, size)}, unix.EPERM},
		"two":       {[]int{memory(sealed, size), memory(sealed, size)}, shm.ErrPeer},
		"nothing":   {nil, shm.ErrPeer},
	} {
		ours, theirs := pair(t)
		_, _, err := ours.WriteMsgUnix([]byte{1}, unix.UnixRights(c.fds...), nil)
		require.NoError(t, err)
		_, err = shm.Open(theirs, size)
		require.ErrorIs(t, err, c.want, name)
		require.NoError(t, ours.Close())
		require.NoError(t, theirs.Close())
		for _, fd := range c.fds {
			require.NoError(t, unix.Close(fd))
		}
	}
	ours, theirs := pair(t)
	_, err = shm.Create(ours, 0)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	_, err = shm.Create(ours, 1<<62)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	_, err = shm.Create(nil, size)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = shm.Open(nil, size)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.NoError(t, ours.Close())
	_, err = shm.Open(theirs, size)
	require.ErrorIs(t, err, shm.ErrPeer)
	require.NoError(t, theirs.Close())
}

// TestARegionHasOneBufferAtATime, none once it is closed, and is not closed under one; the turn stays whose it is from one buffer to the next.
func TestARegionHasOneBufferAtATime(t *testing.T) {
	ours, theirs := pair(t)
	r, err := shm.Create(ours, size)
	require.NoError(t, err)
	other, err := shm.Open(theirs, size)
	require.NoError(t, err)
	p, err := newParty(r)
	require.NoError(t, err)
	_, err = r.Buffer(t.Context(), p.own, p.c, "another")
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorIs(t, r.Close(), mem.ErrInvalidOperation)
	require.NoError(t, p.release(1))
	require.NoError(t, p.b.Release())
	require.Error(t, p.b.Release())
	p.b, err = r.Buffer(t.Context(), p.own, p.c, "another")
	require.NoError(t, err)
	_, err = p.b.EnqueueRelease(t.Context(), p.own)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "the turn is the other's")
	require.NoError(t, p.b.Release())
	require.NoError(t, p.c.Close(t.Context()))
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Close(), mem.ErrInvalidOperation)
	_, err = r.Buffer(t.Context(), p.own, p.c, "a third")
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.NoError(t, other.Close())
}
