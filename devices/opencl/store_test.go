//go:build cgo

package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/opencl/internal/ocl"
)

// NVIDIA's library crashes where one of two overlapping sub-buffers that kernels
// have used is released before the one made after it.
func TestSubBuffersAreReleasedLastMadeFirst(t *testing.T) {
	o := object{slab: new(slab), base: 10, parts: []part{{mem: 11}, {mem: 12}, {mem: 13}}}
	require.Equal(t, []ocl.Mem{13, 12, 11, 10}, o.appendSubBuffers(nil))
	whole := object{base: 10, parts: []part{{mem: 11}, {mem: 12}}}
	require.Equal(t, []ocl.Mem{12, 11}, whole.appendSubBuffers(nil), "a whole block's own buffer is not a sub-buffer")
}
