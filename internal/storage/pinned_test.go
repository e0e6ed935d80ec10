package storage

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/mem"
)

func take(t require.TestingT, m mem.Resource, size uint64) mem.Block {
	var b [1]mem.Block
	out, err := m.AllocAll([]mem.Request{{Size: size}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	return b[0]
}

func TestNodesArePartsOfTheSystem(t *testing.T) {
	n := NewPinnedNodes("d", NewLocked)
	_, err := n.At(1025)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "NUMA node 1025")
	for _, node := range append(numaNodes(), devices.NodeAny) {
		m, err := n.At(node)
		require.NoError(t, err)
		again, err := n.At(node)
		require.NoError(t, err)
		require.Same(t, m, again)
		b := take(t, m, 8192)
		OnNode(node, func() { BytesAt(b.Addr, b.Size)[0] = 1 })
		require.NoError(t, m.FreeAfter(b, nil))
	}
	require.NoError(t, n.Check())
	leaked, err := n.At(devices.NodeAny)
	require.NoError(t, err)
	take(t, leaked, 100)
	require.ErrorContains(t, n.Close(), "100 bytes (tag 0) was still live")
	_, err = n.At(devices.NodeAny)
	require.ErrorIs(t, err, mem.ErrClosed)
}

// Blocks of locked memory come and go; what is counted is what is mapped.
func TestLockingIsWhatIsMapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewLocked("locked", devices.NodeAny)
		var live []mem.Block
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				require.NoError(t, m.FreeAfter(live[i], nil))
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			} else {
				live = append(live, take(t, m, rapid.SampledFrom([]uint64{1, 300, 5000, 65536, 65537, 300000}).Draw(t, "size")))
			}
			require.NoError(t, m.Check())
			l := m.Locking()
			require.Equal(t, m.store.(*hostStore).inUse, l.Locked+l.Unlocked)
		}
		for _, b := range live {
			require.NoError(t, m.FreeAfter(b, nil))
		}
		require.NoError(t, m.Close())
		l := m.Locking()
		require.Zero(t, l.Locked+l.Unlocked)
	})
}
