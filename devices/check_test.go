package devices

import (
	"errors"
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

func TestAPointerIsForABufferOrWhatNobodyKnows(t *testing.T) {
	for kind, want := range map[ArgKind]error{ArgBuffer: nil, ArgUnknown: nil, ArgValue: mem.ErrArgValue, ArgLocal: mem.ErrArgValue} {
		require.ErrorIs(t, checkArg(&Arg{Kind: ArgSVM}, &ArgInfo{Kind: kind}, &Info{SVM: SVMCaps{Coarse: true}}, new(uint64)), want)
	}
}

func TestWorkGroupsAreAsLargeAsTheyCanBeWhereADeviceCountsFew(t *testing.T) {
	info := Info{MaxWorkGroup: 64, MaxWorkItems: [3]uint64{64, 64, 8}, MaxGroups: 100}
	for _, c := range []struct{ global, local, want [3]uint64 }{
		{[3]uint64{101, 1, 1}, [3]uint64{1, 1, 1}, [3]uint64{1, 1, 1}}, // asked for
		{[3]uint64{100, 1, 1}, [3]uint64{}, [3]uint64{}},               // any will do
		{[3]uint64{101, 1, 1}, [3]uint64{}, [3]uint64{1, 1, 1}},        // a prime number
		{[3]uint64{128, 1, 1}, [3]uint64{}, [3]uint64{64, 1, 1}},
		{[3]uint64{6, 30, 16}, [3]uint64{}, [3]uint64{6, 10, 1}},
		{[3]uint64{2, 2, 32}, [3]uint64{}, [3]uint64{2, 2, 8}},
	} {
		got := LocalSize(3, &c.global, &c.local, &info)
		if got != c.want {
			t.Errorf("global %v, local %v: work-groups of %v, not %v", c.global, c.local, got, c.want)
		}
	}
	for global, refused := range map[uint64]bool{100: false, 101: true, 6400: false, 6464: true} {
		err := CheckSpace(1, &[3]uint64{}, &[3]uint64{global}, &[3]uint64{}, &info)
		if errors.Is(err, mem.ErrGlobalSize) != refused {
			t.Errorf("%d work-items, no work-group size: %v", global, err)
		}
	}
}
