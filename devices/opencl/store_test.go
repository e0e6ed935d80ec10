//go:build cgo

package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// NVIDIA's library crashes where one of two overlapping sub-buffers that kernels
// have used is released before the one made after it.
func TestSubBuffersAreReleasedLastMadeFirst(t *testing.T) {
	o := object{slab: new(slab), base: 10, parts: []part{{mem: 11}, {mem: 12}, {mem: 13}}}
	require.Equal(t, []ocl.Mem{13, 12, 11, 10}, o.appendSubBuffers(nil))
	whole := object{base: 10, parts: []part{{mem: 11}, {mem: 12}}}
	require.Equal(t, []ocl.Mem{12, 11}, whole.appendSubBuffers(nil), "a whole block's own buffer is not a sub-buffer")
}

func TestSubBuffersThatShareBytesAreReleasedLastMadeFirst(t *testing.T) {
	r := func(from, to uint64) mem.Range { return mem.Range{Start: from, End: to} }
	sl := &slab{yields: 1, subs: []sub{{1, 1, r(0, 64), false}, {2, 2, r(64, 128), false}, {3, 3, r(32, 96), false}, {4, 4, r(128, 256), false}}}
	require.Empty(t, sl.releasable([]ocl.Mem{1}), "3 is newer")
	require.Equal(t, []ocl.Mem{4}, sl.releasable([]ocl.Mem{4}))
	require.Empty(t, sl.releasable([]ocl.Mem{2}), "3 is newer")
	require.Equal(t, 2, sl.held())
	sl.yields = 0
	require.True(t, sl.shared())
	require.Equal(t, []ocl.Mem{3, 2, 1}, sl.releasable([]ocl.Mem{3}))
	require.False(t, sl.shared())
	require.Equal(t, []ocl.Mem{9}, sl.releasable([]ocl.Mem{9}), "nothing is shared any more")
}
