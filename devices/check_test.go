package devices

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

type bare struct{}

func (bare) Name() string    { return "bare" }
func (bare) Args() []ArgInfo { return nil }

func TestALocalSizeTooWideInOneDimensionIsAnInvalidWorkItemSize(t *testing.T) {
	info := Info{MaxWorkGroup: 64, MaxWorkItems: [3]uint64{64, 16, 16}}
	launch := func(local [3]uint64) error {
		return CheckCommand(&Command{Op: OpLaunch, Kernel: bare{}, Dims: 2, Global: [3]uint64{64, 64, 1}, Local: local}, &info)
	}
	require.NoError(t, launch([3]uint64{4, 16, 1}))
	err := launch([3]uint64{1, 32, 1})
	require.Equal(t, mem.InvalidWorkItemSize, mem.StatusOf(err), "%v", err)
	require.ErrorContains(t, err, "work-group size 32 in dimension 1")
	err = launch([3]uint64{64, 16, 1})
	require.Equal(t, mem.InvalidWorkGroupSize, mem.StatusOf(err), "%v", err)
}
