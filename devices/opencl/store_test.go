//go:build cgo

package opencl

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// NVIDIA's library crashes where one of two overlapping sub-buffers that kernels
// have used is released before the one made after it.
func TestSubBuffersAreReleasedLastMadeFirst(t *testing.T) {
	o := object{base: 10, parts: []part{{mem: 11}, {mem: 12}, {mem: 13}}}
	require.Equal(t, []ocl.Mem{13, 12, 11}, o.subBuffers(nil), "a whole block's own buffer is not a sub-buffer")
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

// NVIDIA's library crashes in a later release where sub-buffers are made or released while another thread enqueues
// commands, unless the two exclude each other; with several GPUs unless all such calls do. On other platforms the
// contents alone are tested.
func TestSubBuffersComeAndGoWhileCommandsAreEnqueued(t *testing.T) {
	t.Run("as the platform needs it", subBuffersComeAndGo)
	t.Run("apart", func(t *testing.T) {
		ocl.KeepApart(true)
		defer ocl.KeepApart(false)
		subBuffersComeAndGo(t)
	})
}

func subBuffersComeAndGo(t *testing.T) {
	d := open(t, 1, map[string]string{"carve": "on"})[0]
	m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	align := max(d.info.BaseAlign, 4)
	var users sync.WaitGroup
	for range 4 {
		k := kernelNamed(t, m, "advance")
		q := openQueue(t, d, devices.QueueOptions{Name: "user", OutOfOrder: true})
		users.Go(func() {
			for i := range uint64(50) {
				var room [1]mem.Block
				if out, err := d.Memory().AllocAll([]mem.Request{{Size: 4 * align}}, room[:], nil); err != nil || out != mem.Ready {
					t.Errorf("%v, %v", out, err)
					return
				}
				b := room[0]
				finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpFill, Size: 4 * align, Pattern: []byte{0}, Dst: devices.Loc{Device: d, Block: b}}))
				last := mem.Point{}
				for j := range uint64(6) { // parts that share bytes: each has a sub-buffer of its own
					c := &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{(align - j*4%align) / 4},
						Args: []devices.Arg{{Kind: devices.ArgBuffer, Block: b, Off: j % 3 * align, Size: align - j*4%align}, {Value: word(1)}}}
					var waits []mem.Wait
					if !last.IsZero() {
						waits = append(waits, mem.Wait{Point: last, Kind: mem.Data})
					}
					last = run(t, q, c, waits...)
				}
				got := make([]byte, 4)
				finishPoint(t, q, run(t, q, read(d, b, 0, got), mem.Wait{Point: last, Kind: mem.Data}))
				require.Equal(t, word(4), got, "block %d", i)
				require.NoError(t, d.Memory().FreeAfter(b, nil))
			}
		})
	}
	users.Wait()
	require.NoError(t, d.Memory().Check())
}
