package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/tce"
	"godwit/mem"
	"godwit/runtime"
)

func TestDevicesThatShareAStoreNeverCopyBetweenEachOther(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(2), Shared: [][2]mem.MemoryID{{1, 2}}}, runtime.QueueOptions{})
	ctx := soon(t)
	b := h.buffer(64, nil)
	h.ok(h.q[0].EnqueueFill(ctx, b, []byte{5}, 0, 64))
	h.ok(h.q[1].EnqueueFill(ctx, b, []byte{6}, 0, 32))
	got := make([]byte, 64)
	h.done(h.ok(h.q[0].EnqueueRead(ctx, b, 0, got)))
	require.Equal(t, append(bytes.Repeat([]byte{6}, 32), bytes.Repeat([]byte{5}, 32)...), got)
	require.Zero(t, h.c.Stats().BytesMoved)
	require.Equal(t, 1, h.c.Resource(1).Stats().Blocks)
	require.Zero(t, h.c.Resource(2).Stats().Blocks)
}

// TestOnlyMemoriesOfThisProcessAreOneStore: others fail when the context opens, not in the
// first launch that is given a block of another device.
func TestOnlyMemoriesOfThisProcessAreOneStore(t *testing.T) {
	d := must(tce.New(tce.Options{Name: "apart", Memory: 1 << 20}))
	all := append(memories(1), d)
	for _, pair := range [][2]mem.MemoryID{{mem.Host, 2}, {2, 1}, {1, 7}, {1, 1}} {
		_, err := runtime.NewContext(runtime.Options{Devices: all, Shared: [][2]mem.MemoryID{pair}})
		require.ErrorIs(t, err, mem.ErrInvalidValue, "%v", pair)
	}
	_, err := runtime.NewContext(runtime.Options{Devices: all, Shared: [][2]mem.MemoryID{{mem.Host, 2}}})
	require.ErrorContains(t, err, "blocks of device apart are not bytes of this process")
	_, err = runtime.NewContext(runtime.Options{Devices: all, Names: []string{"a", "b", "c"}})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "3 names for 2 devices")
	for _, d := range all {
		require.NoError(t, d.Close())
	}
}
