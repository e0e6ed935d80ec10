package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

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
