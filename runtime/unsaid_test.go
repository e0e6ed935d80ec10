package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/runtime"
)

var errNoFree = errors.New("cannot be freed")

// keeper frees, and says that it has not.
type keeper struct{ mem.Resource }

func (k keeper) FreeAfter(b mem.Block, points []mem.Point) error {
	return errors.Join(k.Resource.FreeAfter(b, points), errNoFree)
}

// An unmap or a free that was accepted is not taken for refused where storage behind it
// cannot be freed, as happens on a lost device. Close says so.
func TestWhatCannotBeFreedBehindACommandIsSaidAtClose(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h := build(t, runtime.Options{Devices: memories(1), Resource: func(_ mem.MemoryID, r mem.Resource) mem.Resource { return keeper{r} }}, runtime.QueueOptions{})
		ctx := soon(t)
		if shared {
			p := must(h.c.SVMAlloc(64, 0, 0))
			h.done(h.ok(h.q[0].EnqueueSVMFill(ctx, p, []byte{1}, 64)))
			e := must(h.q[0].EnqueueSVMFree(ctx, []runtime.Pointer{p}))
			h.done(e)
		} else {
			b := h.buffer(64, make([]byte, 64))
			h.done(h.fill(0, b, 1))
			m := must(h.q[0].Map(ctx, b, 0, 64, runtime.MapRead))
			require.NoError(t, b.Release(), "the map holds it")
			e := must(h.q[0].EnqueueUnmap(ctx, m))
			h.done(e)
		}
		require.NoError(t, h.c.Check())
		require.ErrorIs(t, h.c.Close(ctx), errNoFree)
		h.closed = true
	}
}
