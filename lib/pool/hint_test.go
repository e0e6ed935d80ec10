package pool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

// hinted notes what is said of the lives of blocks.
type hinted struct {
	mem.Resource
	seen *[]mem.Hint
}

func (h hinted) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	for _, q := range reqs {
		*h.seen = append(*h.seen, q.Hint)
	}
	return h.Resource.AllocAll(reqs, out, reuse)
}

// A pool without a ceiling keeps what it has; one with a ceiling cannot say.
func TestPoolsSayHowLongTheirBuffersLive(t *testing.T) {
	var seen []mem.Hint
	d, err := cpu.New(cpu.Options{Name: "cpu"})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Resource: func(_ mem.MemoryID, base mem.Resource) mem.Resource {
		return hinted{base, &seen}
	}})
	require.NoError(t, err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	require.NoError(t, err)
	use := func(b *runtime.Buffer) {
		e, err := q.EnqueueFill(bg, b, []byte{1}, 0, 256)
		require.NoError(t, err)
		require.NoError(t, e.Wait(bg))
	}
	free, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(t, err)
	a, err := free.Get(q, 256, 0)
	require.NoError(t, err)
	use(a.Buffer())
	bounded, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: 1 << 20})
	require.NoError(t, err)
	b, err := bounded.Get(bg, q, 256, 0)
	require.NoError(t, err)
	use(b.Buffer())
	require.Equal(t, []mem.Hint{mem.Kept, 0}, seen)

	require.NoError(t, free.PutAfter(a, q))
	require.NoError(t, bounded.PutAfter(b, q))
	_, err = free.Clear()
	require.NoError(t, err)
	_, err = bounded.Clear()
	require.NoError(t, err)
	require.NoError(t, c.Close(bg))
}
