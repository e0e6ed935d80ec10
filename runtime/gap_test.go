package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

// TestACopyRunsOnOverAGap that is shorter than what the link's latency takes, and not over
// a longer one, or where the context did not ask for it.
func TestACopyRunsOnOverAGap(t *testing.T) {
	for _, c := range []struct {
		gap          bool
		between      uint64
		copies, rode uint64
	}{{true, 512, 1, 512}, {true, 4096, 2, 0}, {false, 512, 2, 0}} {
		h := build(t, runtime.Options{
			Devices: memories(1), Gap: c.gap,
			Links: []runtime.Link{{From: mem.Host, To: 1, Link: mem.DirectLink(time.Microsecond, 1e9)}}, // 1,000 bytes
		}, runtime.QueueOptions{})
		ctx, q := soon(t), h.q[0]
		whole := h.buffer(8192, make([]byte, 8192))
		var parts []*runtime.Buffer
		for _, at := range []uint64{0, 128 + c.between} {
			part, err := whole.Sub(at, 128, 0)
			require.NoError(t, err)
			parts = append(parts, part)
		}
		h.done(h.ok(q.EnqueueMigrate(ctx, parts, 0)))
		s := h.c.Stats()
		require.EqualValues(t, 256, s.BytesMoved)
		require.EqualValues(t, c.copies, s.Steps)
		require.EqualValues(t, c.rode, s.RideAlong)
		for _, p := range parts {
			require.NoError(t, p.Release())
		}
	}
}
