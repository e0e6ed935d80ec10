package devicetest

import (
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// testPinned checks the page-locked memory of devices that have some: a resource like
// others, whose bytes move both ways, also across its blocks' middle, beside pageable
// ones.
func testPinned(e *env) {
	t := e.t
	l, ok := e.dev.(devices.PageLocker)
	if !ok {
		t.Skip("this device has no page-locked memory")
	}
	const size = 3*4096 + 7
	m, err := l.PinnedMemory(l.NUMANode())
	require.NoError(t, err)
	again, err := l.PinnedMemory(l.NUMANode())
	require.NoError(t, err)
	require.Same(t, m, again)
	_, err = l.PinnedMemory(1 << 20)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	var b [2]mem.Block
	out, err := m.AllocAll([]mem.Request{{Size: size}, {Size: 100}}, b[:], nil)
	require.NoError(t, err)
	require.Equal(t, mem.Ready, out)
	locking := m.Locking()
	require.GreaterOrEqual(t, locking.Locked+locking.Unlocked, uint64(size+100))
	if locking.Unlocked > 0 {
		require.NotEmpty(t, locking.Why)
	}
	bytes, err := m.View(b[0], 0, size)
	require.NoError(t, err)
	small, err := m.View(b[1].Piece(10, 80), 5, 50)
	require.NoError(t, err)
	require.Len(t, small, 50)

	q, dev := e.inOrder(), e.alloc(size)
	want := noise(1, size)
	copy(bytes, want)
	e.write(q, dev, 0, bytes)
	got := make([]byte, size)
	e.wait(q, e.read(q, dev, 0, got))
	e.equal(want, got, "written out of page-locked memory")
	other := noise(2, 5000)
	e.write(q, dev, 3, other)
	e.read(q, dev, 1, bytes[4000:9000])
	e.wait(q, e.read(q, dev, 10, small))
	copy(want[3:], other)
	e.equal(want[1:5001], bytes[4000:9000], "read into the middle of page-locked memory")
	e.equal(want[10:60], small, "read into a piece of a block")

	require.NoError(t, m.Check())
	live := m.Stats().Live // the driver may keep some of its own there
	for _, x := range b {
		require.NoError(t, m.FreeAfter(x, nil))
	}
	require.ErrorIs(t, m.FreeAfter(b[0], nil), mem.ErrInvalidBuffer)
	require.Equal(t, live-size-100, m.Stats().Live)

	d := e.open(t)
	left, err := d.(devices.PageLocker).PinnedMemory(devices.NodeAny)
	require.NoError(t, err)
	_, err = left.AllocAll([]mem.Request{{Size: 12345}}, b[:1], nil)
	require.NoError(t, err)
	require.ErrorContains(t, d.Close(), "12345", "names the leak")
	_, err = d.(devices.PageLocker).PinnedMemory(devices.NodeAny)
	require.ErrorIs(t, err, mem.ErrClosed)
}
