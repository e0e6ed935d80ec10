package subbuffer

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

func whole(t *testing.T, size uint64, f Flags) View {
	t.Helper()
	v, err := Whole(size, f)
	require.NoError(t, err)
	return v
}

func TestWholeRefusesWhatOpenCLRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  uint64
		flags Flags
		want  error
	}{
		{"no bytes", 0, 0, mem.ErrInvalidSize},
		{"two access flags", 8, ReadOnly | WriteOnly, mem.ErrInvalidValue},
		{"all access flags", 8, ReadOnly | WriteOnly | ReadWrite, mem.ErrInvalidValue},
		{"an unknown bit", 8, 1 << 20, mem.ErrInvalidValue},
	} {
		_, err := Whole(tc.size, tc.flags)
		require.ErrorIs(t, err, tc.want, tc.name)
	}
	require.Equal(t, View{Range: mem.Range{End: 8}, Flags: ReadWrite}, whole(t, 8, 0))
	require.Equal(t, ReadOnly, whole(t, 8, ReadOnly).Flags)
}

func TestSubBufferRules(t *testing.T) {
	for _, tc := range []struct {
		name         string
		parent       Flags
		origin, size uint64
		flags        Flags
		want         error
		get          Flags
	}{
		{"inherits", ReadOnly, 0, 64, 0, nil, ReadOnly},
		{"narrows read-write to read-only", ReadWrite, 8, 8, ReadOnly, nil, ReadOnly},
		{"narrows read-write to write-only", ReadWrite, 8, 8, WriteOnly, nil, WriteOnly},
		{"cannot widen read-only", ReadOnly, 0, 8, ReadWrite, mem.ErrInvalidValue, 0},
		{"cannot turn write-only to read-only", WriteOnly, 0, 8, ReadOnly, mem.ErrInvalidValue, 0},
		{"no bytes", ReadWrite, 8, 0, 0, mem.ErrInvalidSize, 0},
		{"past the end", ReadWrite, 60, 5, 0, mem.ErrInvalidValue, 0},
		{"origin past the end", ReadWrite, 64, 1, 0, mem.ErrInvalidValue, 0},
		{"overflow", ReadWrite, math.MaxUint64, 2, 0, mem.ErrInvalidValue, 0},
		{"contradictory flags", ReadWrite, 0, 8, ReadOnly | WriteOnly, mem.ErrInvalidValue, 0},
		{"the last byte", ReadWrite, 63, 1, 0, nil, ReadWrite},
	} {
		v := whole(t, 64, tc.parent)
		sub, err := v.Of(tc.origin, tc.size, tc.flags)
		require.ErrorIs(t, err, tc.want, tc.name)
		if tc.want == nil {
			require.Equal(t, View{Range: mem.Range{Start: tc.origin, End: tc.origin + tc.size}, Flags: tc.get, Sub: true}, sub, tc.name)
		}
	}
}

func TestOnlyWholeBuffersHaveSubBuffers(t *testing.T) {
	sub, err := whole(t, 64, 0).Of(0, 64, 0)
	require.NoError(t, err)
	_, err = sub.Of(0, 8, 0)
	require.ErrorIs(t, err, mem.ErrInvalidBuffer)
	require.Equal(t, mem.InvalidMemObject, mem.StatusOf(err))
}

func TestAlignmentIsTheOriginsInTheRoot(t *testing.T) {
	sub, err := whole(t, 64, 0).Of(16, 8, 0)
	require.NoError(t, err)
	for _, align := range []uint64{0, 1, 8, 16} {
		require.NoError(t, sub.CheckAlign(align))
	}
	err = sub.CheckAlign(32)
	require.ErrorIs(t, err, mem.ErrMisaligned)
	require.ErrorContains(t, err, "origin 16")
	require.ErrorContains(t, err, "32 bytes")
}

func TestResolveStaysWithinTheView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, 64).Draw(t, "size")
		root, err := Whole(size, 0)
		require.NoError(t, err)
		from := rapid.Uint64Range(0, size-1).Draw(t, "from")
		v, err := root.Of(from, rapid.Uint64Range(1, size-from).Draw(t, "of"), 0)
		require.NoError(t, err)
		off, n := rapid.Uint64Range(0, 70).Draw(t, "off"), rapid.Uint64Range(0, 70).Draw(t, "n")
		got, err := v.Resolve(off, n)
		if n == 0 || off+n > v.Size() {
			require.ErrorIs(t, err, mem.ErrInvalidValue)
			return
		}
		require.NoError(t, err)
		require.Equal(t, mem.Range{Start: v.Range.Start + off, End: v.Range.Start + off + n}, got)
	})
}
