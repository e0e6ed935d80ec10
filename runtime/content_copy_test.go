package runtime_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// A copy of what counts leaves the rest of its destination as it is, wherever the count
// was written and though nobody knew it when the copy was enqueued.
func TestACopyOfContentLeavesTheRestAsItIs(t *testing.T) {
	for _, n := range []uint64{0, 200, 256, 300, 356, 512, 1 << 40} {
		for q := range 5 {
			t.Run(fmt.Sprintf("%d on %d", n, q), func(t *testing.T) {
				h, b, size := mixedHouse(t)
				if q >= len(h.q) {
					t.Skip("there are fewer devices")
				}
				ctx, dst := soon(t), h.buffer(4096, bytes.Repeat([]byte{2}, 4096))
				gate := h.gate()
				h.fill(0, b, 1)
				h.setCount((q+1)%len(h.q), size, n, gate)
				e := h.ok(h.q[q].EnqueueCopyContent(ctx, b, dst, 256, 512, 100))
				h.held(e)
				require.NoError(t, gate.SetStatus(runtime.Complete))
				want := bytes.Repeat([]byte{2}, 4096)
				for i := uint64(256); i < min(n, 356); i++ {
					want[512+i-256] = 1
				}
				got := make([]byte, 4096)
				h.done(h.ok(h.q[(q+2)%len(h.q)].EnqueueRead(ctx, dst, 0, got)))
				require.True(t, bytes.Equal(want, got))
				require.NoError(t, h.c.Check())
			})
		}
	}
}

func TestACopyOfContentWithoutACountIsACopy(t *testing.T) {
	h, b, size := mixedHouse(t)
	ctx, dst := soon(t), h.buffer(4096, bytes.Repeat([]byte{2}, 4096))
	h.fill(0, b, 1)
	got := make([]byte, 4096)
	for i, change := range []func(){func() {}, func() { h.setCount(0, size, 8) }, func() { require.NoError(t, b.SetContentSizeBuffer(nil)) }} {
		change()
		h.fill(0, dst, 2)
		h.done(h.ok(h.q[1].EnqueueCopyContent(ctx, b, dst, 0, 0, 4096)))
		h.done(h.ok(h.q[0].EnqueueRead(ctx, dst, 0, got)))
		want := byte(1)
		if i == 1 {
			want = 2
		}
		require.Equal(t, []byte{1, want}, []byte{got[7], got[8]}, "step %d", i)
	}
	h.fill(2, b, 3)
	h.done(h.ok(h.q[1].EnqueueCopy(ctx, b, dst, 0, 0, 4096)))
	_, err := h.q[1].EnqueueCopyContent(ctx, b, b, 0, 8, 16)
	require.ErrorIs(t, err, mem.ErrOverlap)
}

// Where the count is lost, so is the copy.
func TestACopyOfContentFailsWithItsCount(t *testing.T) {
	h, b, size := mixedHouse(t)
	dst, gate := h.buffer(4096, nil), h.gate()
	h.fill(0, b, 1)
	h.setCount(1, size, 8, gate)
	e := h.ok(h.q[0].EnqueueCopyContent(soon(t), b, dst, 0, 0, 64))
	require.NoError(t, gate.SetStatus(-7))
	require.Error(t, e.Wait(soon(t)))
	_, err := h.q[0].EnqueueCopyContent(soon(t), b, dst, 0, 0, 64)
	require.ErrorIs(t, err, mem.ErrPoisoned)
}
