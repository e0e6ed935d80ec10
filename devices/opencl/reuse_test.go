//go:build cgo

package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// Bytes of a slab go on to blocks of other sizes while their old users run; what the
// library has of both is released in the order in which it must be.
func TestASlabsBytesAreGivenAgainInStreamOrder(t *testing.T) {
	d := openSmall(t, map[string]string{"carve": "on", "slab": "41943040", "count": "1"})
	defer func() { require.NoError(t, d.Close()) }()
	m := d.Memory()
	line := mem.NewTimeline("q", true, nil)
	var old [2]mem.Block
	o, err := m.AllocAll([]mem.Request{{Size: 16 << 20}, {Size: 16 << 20}}, old[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, o)
	for _, b := range old {
		_, err := d.store.resolve(b.Addr, b.Size, true)
		require.NoError(t, err)
	}
	p := line.Next()
	for _, b := range old {
		require.NoError(t, m.FreeAfter(b, []mem.Point{p}))
	}
	reuse := &mem.Reuse{}
	var b [1]mem.Block
	big := []mem.Request{{Size: 36 << 20}}
	require.False(t, m.Fits(big, nil, nil))
	require.True(t, m.Fits(big, nil, reuse))
	o, err = m.AllocAll(big, b[:], reuse)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, o)
	require.Contains(t, reuse.Busy, mem.Busy{Index: 0, Point: p})
	_, err = d.store.resolve(b[0].Addr, b[0].Size, true)
	require.NoError(t, err)
	require.NoError(t, m.Check())
	line.End(p, nil)
	require.NoError(t, m.Check())
	require.Equal(t, 2, d.store.slabs[0].held(), "b's sub-buffer is newer")
	require.NoError(t, m.FreeAfter(b[0], nil))
	require.False(t, d.store.slabs[0].shared())
	m.Trim(0)
	require.Zero(t, m.Stats().Reserved)
	require.NoError(t, m.Check())
}
