package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// What the host writes into a range that it has mapped for writing must not be
// copied over by a step into the host's memory; a map that invalidates leaves those
// bytes stale by the planner's books until the unmap.

func TestAMigrationGoesRoundWhatTheHostHasMapped(t *testing.T) {
	devs, _ := wordy(t, 1)
	h := build(t, runtime.Options{Devices: devs}, runtime.QueueOptions{})
	ctx := soon(t)
	b := h.buffer(64, nil)
	h.fill(0, b, 1)
	m, err := h.q[0].Map(ctx, b, 16, 16, runtime.MapInvalidate)
	require.NoError(t, err)
	copy(m.Bytes(), bytes.Repeat([]byte{2}, 16))
	h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost)))
	require.Equal(t, bytes.Repeat([]byte{2}, 16), m.Bytes(), "the host's bytes are as it wrote them")
	require.NoError(t, h.c.Check())
	all, err := h.q[0].Map(ctx, b, 0, 64, runtime.MapRead)
	require.NoError(t, err)
	want := bytes.Repeat([]byte{1}, 64)
	copy(want[16:], bytes.Repeat([]byte{2}, 16))
	require.Equal(t, want, all.Bytes(), "what is not mapped has come")
	require.Equal(t, uint64(48), h.c.Stats().BytesMoved)
	h.ok(h.q[0].EnqueueUnmap(ctx, all))
	h.ok(h.q[0].EnqueueUnmap(ctx, m))
	require.Equal(t, want, h.seen(0, b))
	h.fill(0, b, 3)
	h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost)))
	require.Equal(t, uint64(48+16+64), h.c.Stats().BytesMoved, "unmapped bytes come again")
	require.NoError(t, h.c.Check())
}

// While the host writes the count, nobody knows it: all bytes come, and no step
// brings the old count over the new one.
func TestACountDoesNotComeOverWhatTheHostHasMapped(t *testing.T) {
	for _, flags := range []runtime.MapFlags{runtime.MapInvalidate, runtime.MapWrite} {
		h := build(t, runtime.Options{Devices: mixed(t)}, runtime.QueueOptions{})
		ctx := soon(t)
		b, size := h.counted()
		h.fill(1, b, 4)
		h.done(h.setCount(1, size, 9))
		require.Equal(t, bytes.Repeat([]byte{4}, 9), h.seen(2, b)[:9])
		var last uint64
		h.moved(&last)
		m, err := h.q[1].Map(ctx, size, 0, 8, flags)
		require.NoError(t, err)
		copy(m.Bytes(), count(21))
		require.Zero(t, h.moved(&last), "the count was on the host")
		h.done(h.ok(h.q[1].EnqueueFill(ctx, size, []byte{0}, 16, 8))) // of no concern
		require.Equal(t, bytes.Repeat([]byte{4}, 4096), h.seen(3, b))
		require.Equal(t, uint64(4096), h.moved(&last), "all of it, from who has all of it")
		require.Equal(t, count(21), m.Bytes(), "the host's bytes are as it wrote them")
		require.NoError(t, h.c.Check())
		h.ok(h.q[1].EnqueueUnmap(ctx, m))
		require.Equal(t, bytes.Repeat([]byte{4}, 21), h.seen(2, b)[:21])
		require.Equal(t, uint64(12), h.moved(&last), "9 bytes are there")

		h.done(h.setCount(1, size, 30)) // so that the host's is old
		m, err = h.q[1].Map(ctx, size, 0, 8, runtime.MapInvalidate)
		require.NoError(t, err)
		copy(m.Bytes(), count(4096))
		h.done(h.ok(h.q[2].EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)))
		require.Equal(t, uint64(4096-21), h.moved(&last))
		require.Equal(t, count(4096), m.Bytes(), "the host's bytes are as it wrote them")
		h.done(h.ok(h.q[1].EnqueueUnmap(ctx, m)))
		require.NoError(t, h.c.Check())
	}
}

// A map that has not run yet holds back who reads on the host what it is to write
// there, and fails it: nobody finds old bytes in silence.
func TestWhoReadsWhatIsToBeMappedWaitsForTheMap(t *testing.T) {
	for _, status := range []runtime.ExecStatus{runtime.Complete, -77} {
		h := build(t, runtime.Options{Devices: memories(1)}, outOfOrder)
		ctx := soon(t)
		b := h.buffer(64, nil)
		h.fill(0, b, 1)
		gate := h.gate()
		m, e, err := h.q[0].EnqueueMap(ctx, b, 16, 16, runtime.MapInvalidate, gate)
		require.NoError(t, err)
		migrated := h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost))
		h.held(migrated)
		require.Equal(t, uint64(48), h.c.Stats().BytesMoved)
		require.NoError(t, gate.SetStatus(status))
		if status == runtime.Complete {
			require.NoError(t, migrated.Wait(ctx))
			h.ok(h.q[0].EnqueueUnmap(ctx, m))
			require.NoError(t, h.c.Check())
			continue
		}
		require.ErrorIs(t, e.Wait(ctx), mem.ErrDependency)
		require.ErrorIs(t, migrated.Wait(ctx), mem.ErrDependency)
		h.done(h.ok(h.q[0].EnqueueMigrate(ctx, []*runtime.Buffer{b}, runtime.MigrateToHost)))
		require.Equal(t, uint64(64), h.c.Stats().BytesMoved, "who failed to map writes nothing")
		h.done(h.ok(h.q[0].EnqueueUnmap(ctx, m)))
		require.Equal(t, bytes.Repeat([]byte{1}, 64), h.seen(0, b))
		require.NoError(t, h.c.Check())
	}
}
