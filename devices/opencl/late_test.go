//go:build cgo

package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// middle is a devices.Late that asks for the bytes [100, 300).
type middle struct{}

func (middle) Part() mem.Range { return mem.Range{Start: 100, End: 300} }
func (middle) Moved()          {}

func TestAPartOfACopyWithinTheHostsMemoryIsThatPart(t *testing.T) {
	d := open(t, 1, nil)[0]
	q := openQueue(t, d, devices.QueueOptions{})
	src, dst := pattern(512, 1), make([]byte, 512)
	finishPoint(t, q, run(t, q, &devices.Command{Op: devices.OpCopy, Size: 512, Late: middle{}, Src: devices.Loc{Bytes: src}, Dst: devices.Loc{Bytes: dst}}))
	want := make([]byte, 512)
	copy(want[100:300], src[100:300])
	require.Equal(t, want, dst)
}
