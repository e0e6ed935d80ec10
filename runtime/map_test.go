package runtime_test

import (
	"bytes"
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/runtime"
)

func TestMapsThatOpenCLRefuses(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, make([]byte, 64))
	made := func(f runtime.Flags) *runtime.Buffer {
		b := h.create(64, f, nil)
		t.Cleanup(func() { _ = b.Release() })
		return b
	}
	for _, tc := range []struct {
		name      string
		b         *runtime.Buffer
		off, size uint64
		flags     runtime.MapFlags
		want      error
	}{
		{"no flags", b, 0, 64, 0, mem.ErrInvalidValue},
		{"an unknown flag", b, 0, 64, 8, mem.ErrInvalidValue},
		{"invalidate and read", b, 0, 64, runtime.MapInvalidate | runtime.MapRead, mem.ErrInvalidValue},
		{"invalidate and write", b, 0, 64, runtime.MapInvalidate | runtime.MapWrite, mem.ErrInvalidValue},
		{"no bytes", b, 0, 0, runtime.MapRead, mem.ErrInvalidValue},
		{"past the end", b, 60, 5, runtime.MapRead, mem.ErrInvalidValue},
		{"nil buffer", nil, 0, 1, runtime.MapRead, mem.ErrInvalidBuffer},
		{"read of what the host only writes", made(runtime.HostWriteOnly), 0, 8, runtime.MapRead, mem.ErrInvalidOperation},
		{"write of what the host only reads", made(runtime.HostReadOnly), 0, 8, runtime.MapWrite, mem.ErrInvalidOperation},
		{"invalidate what the host only reads", made(runtime.HostReadOnly), 0, 8, runtime.MapInvalidate, mem.ErrInvalidOperation},
		{"read where the host has no access", made(runtime.HostNoAccess), 0, 8, runtime.MapRead, mem.ErrInvalidOperation},
		{"write where the host has no access", made(runtime.HostNoAccess), 0, 8, runtime.MapWrite, mem.ErrInvalidOperation},
	} {
		_, _, err := q.EnqueueMap(ctx, tc.b, tc.off, tc.size, tc.flags)
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	_, err := q.EnqueueUnmap(ctx, runtime.Mapping{})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.Zero(t, b.Maps())
	require.NoError(t, h.c.Check())
}

func TestSeveralMapsAtOnceButNotTwoForWritingTheSameBytes(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx, q := soon(t), h.q[0]
	b := h.buffer(64, make([]byte, 64))
	sub := must(b.Sub(0, 32, 0))
	var maps []runtime.Mapping
	for _, tc := range []struct {
		b         *runtime.Buffer
		off, size uint64
		flags     runtime.MapFlags
		want      error
	}{
		{b, 0, 16, runtime.MapWrite, nil},
		{b, 16, 16, runtime.MapInvalidate, nil}, // beside it
		{b, 8, 16, runtime.MapWrite, mem.ErrInvalidOperation},
		{sub, 31, 1, runtime.MapWrite, mem.ErrInvalidOperation}, // through a view
		{b, 15, 1, runtime.MapRead | runtime.MapWrite, mem.ErrInvalidOperation},
		{b, 0, 64, runtime.MapRead, nil},
		{sub, 0, 32, runtime.MapRead, nil},
		{b, 32, 32, runtime.MapWrite, nil},
	} {
		m, e, err := q.EnqueueMap(ctx, tc.b, tc.off, tc.size, tc.flags)
		require.ErrorIs(t, err, tc.want)
		require.Equal(t, tc.want != nil, m.IsZero())
		if tc.want == nil {
			h.done(e)
			maps = append(maps, m)
		}
		require.NoError(t, h.c.Check())
		require.Equal(t, len(maps), b.Maps())
	}
	require.Equal(t, unsafe.SliceData(maps[0].Bytes()), unsafe.SliceData(maps[2].Bytes()), "two maps of a byte are the same byte")
	for _, m := range maps {
		h.ok(q.EnqueueUnmap(ctx, m))
		_, err := q.EnqueueUnmap(ctx, m)
		require.ErrorIs(t, err, mem.ErrInvalidValue, "unmapped twice")
		require.NoError(t, h.c.Check())
	}
	m, err := q.Map(ctx, b, 0, 64, runtime.MapWrite)
	require.NoError(t, err, "nothing is mapped any more")
	_, err = q.EnqueueUnmap(ctx, maps[0])
	require.ErrorIs(t, err, mem.ErrInvalidValue, "its record serves another mapping")
	h.ok(q.EnqueueUnmap(ctx, m))
	require.NoError(t, q.Finish(ctx))
	require.NoError(t, sub.Release())
}

// Nobody was given the mapping, so that the content is what it was.
func TestABlockingMapGivesUpWithItsContext(t *testing.T) {
	for _, flags := range []runtime.MapFlags{runtime.MapRead, runtime.MapWrite, runtime.MapInvalidate} {
		h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
		b := h.buffer(64, make([]byte, 64))
		h.fill(0, b, 7)
		gate := h.gate()
		short, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		_, err := h.q[0].Map(short, b, 0, 32, flags, gate)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, runtime.ErrMap)
		require.Zero(t, b.Maps())
		brings := h.ok(h.q[0].EnqueueMigrate(soon(t), []*runtime.Buffer{b}, runtime.MigrateToHost))
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.NoError(t, h.q[0].Finish(soon(t)))
		h.done(brings)
		require.Equal(t, uint64(64), h.c.Stats().BytesMoved, "each byte once: the host may be copied to again")
		m := must(h.q[0].Map(soon(t), b, 0, 64, runtime.MapRead))
		require.Equal(t, bytes.Repeat([]byte{7}, 64), m.Bytes())
		h.done(h.ok(h.q[0].EnqueueUnmap(soon(t), m)))
		require.Equal(t, bytes.Repeat([]byte{7}, 64), h.seen(0, b))
		require.Equal(t, uint64(64), h.c.Stats().BytesMoved, "the device's copy is good")
		require.NoError(t, h.c.Check())
	}
}

func TestAMappedBufferOutlivesItsRelease(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	b := h.buffer(64, bytes.Repeat([]byte{3}, 64))
	m := must(h.q[0].Map(ctx, b, 0, 64, runtime.MapRead|runtime.MapWrite))
	require.NoError(t, b.Release())
	require.Equal(t, byte(3), m.Bytes()[63])
	require.NoError(t, h.c.Check())
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
	require.Zero(t, h.c.Resource(mem.Host).Stats().Blocks, "its storage went with the last mapping")
}

func TestMappingUserMemoryGivesItsOwnBytes(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	ctx := soon(t)
	user := make([]byte, 64)
	b := h.create(64, runtime.UseHostPtr, user)
	h.ok(h.q[0].EnqueueFill(ctx, b, []byte{6}, 0, 64))
	m := must(h.q[0].Map(ctx, b, 8, 8, runtime.MapRead))
	require.Equal(t, unsafe.Pointer(&user[8]), unsafe.Pointer(unsafe.SliceData(m.Bytes())))
	require.Equal(t, bytes.Repeat([]byte{6}, 8), user[8:16])
	require.Zero(t, user[0], "only the mapped range came")
	h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
	require.NoError(t, b.Release())
}

// here is a device that does nothing, and says that its blocks are bytes of this process.
type here struct{ *null.Device }

func (here) Pin(mem.Block, uint64, uint64) (uint64, error) { return 0, nil }
func (here) Unpin(mem.Block)                               {}

// sharing is a context over a device that shares the host's memory and does
// nothing.
func sharing(t testing.TB) (*runtime.Context, *runtime.Queue, *runtime.Buffer) {
	t.Helper()
	d := here{null.New(devices.Config{})}
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true,
		Shared: [][2]mem.MemoryID{{mem.Host, 1}}})
	require.NoError(t, err)
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	b := must(c.CreateBuffer(1<<20, runtime.AllocHostPtr, nil))
	return c, q, b
}

func mapPair(ctx context.Context, q *runtime.Queue, b *runtime.Buffer) error {
	m, e, err := q.EnqueueMap(ctx, b, 0, 1<<20, runtime.MapRead|runtime.MapWrite)
	if err != nil {
		return err
	}
	u, err := q.EnqueueUnmap(ctx, m)
	if err != nil {
		return err
	}
	if err := e.Release(); err != nil {
		return err
	}
	return u.Release()
}

func TestMapsAllocateNothingInSteadyState(t *testing.T) {
	c, q, b := sharing(t)
	ctx := soon(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := mapPair(ctx, q, b); err != nil {
			t.Fatal(err)
		}
	}))
	require.Zero(t, c.Stats().BytesMoved)
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(ctx))
}

// BenchmarkMapUnmap is a map and an unmap for reading and writing, on a device
// that shares the host's memory: nothing moves. ns/pair is the median over rounds
// of pairs, which other work on the machine disturbs less than the mean.
func BenchmarkMapUnmap(b *testing.B) {
	c, q, buf := sharing(b)
	ctx := context.Background()
	b.ReportAllocs()
	const pairs = 100
	var rounds []float64
	for b.Loop() {
		start := time.Now()
		for range pairs {
			if err := mapPair(ctx, q, buf); err != nil {
				b.Fatal(err)
			}
		}
		rounds = append(rounds, float64(time.Since(start))/pairs)
	}
	b.ReportMetric(median(rounds), "ns/pair")
	require.NoError(b, buf.Release())
	require.NoError(b, c.Close(ctx))
}
