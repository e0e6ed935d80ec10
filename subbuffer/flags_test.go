package subbuffer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
)

// The rules of clCreateBuffer and clCreateSubBuffer, as tables.

func TestFlagsOfBuffersThatExcludeEachOther(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags Flags
		want  error
	}{
		{"memory of the caller's, allocated", UseHostPtr | AllocHostPtr, mem.ErrInvalidValue},
		{"memory of the caller's, copied", UseHostPtr | CopyHostPtr, mem.ErrInvalidValue},
		{"allocated and copied", AllocHostPtr | CopyHostPtr, nil},
		{"the host only reads and only writes", HostReadOnly | HostWriteOnly, mem.ErrInvalidValue},
		{"the host only reads and does not", HostReadOnly | HostNoAccess, mem.ErrInvalidValue},
		{"the host only writes and does not", HostWriteOnly | HostNoAccess, mem.ErrInvalidValue},
		{"one of each kind", ReadOnly | UseHostPtr | HostWriteOnly, nil},
		{"the bit between", 1 << 6, mem.ErrInvalidValue},
	} {
		v, err := Whole(8, tc.flags)
		require.ErrorIs(t, err, tc.want, tc.name)
		if tc.want == nil {
			require.Equal(t, tc.flags.withAccess(ReadWrite), v.Flags, tc.name)
		}
	}
}

func TestWhatTheHostMayDo(t *testing.T) {
	for _, tc := range []struct {
		flags         Flags
		reads, writes error
	}{
		{0, nil, nil},
		{ReadOnly, nil, nil},
		{HostReadOnly, nil, mem.ErrInvalidOperation},
		{HostWriteOnly, mem.ErrInvalidOperation, nil},
		{HostNoAccess, mem.ErrInvalidOperation, mem.ErrInvalidOperation},
	} {
		require.ErrorIs(t, tc.flags.HostReads(), tc.reads, "%#x", tc.flags)
		require.ErrorIs(t, tc.flags.HostWrites(), tc.writes, "%#x", tc.flags)
	}
}

func TestFlagsOfSubBuffers(t *testing.T) {
	for _, tc := range []struct {
		name             string
		parent, sub, get Flags
		want             error
	}{
		{"all inherited", WriteOnly | UseHostPtr | HostReadOnly, 0, WriteOnly | UseHostPtr | HostReadOnly, nil},
		{"access given, the rest inherited", AllocHostPtr | HostWriteOnly, ReadOnly, ReadOnly | AllocHostPtr | HostWriteOnly, nil},
		{"host access given", ReadOnly, HostReadOnly, ReadOnly | HostReadOnly, nil},
		{"host access taken away", HostReadOnly, HostNoAccess, ReadWrite | HostNoAccess, nil},
		{"host reads of what it only writes", HostWriteOnly, HostReadOnly, 0, mem.ErrInvalidValue},
		{"host writes of what it only reads", HostReadOnly, HostWriteOnly, 0, mem.ErrInvalidValue},
		{"host reads where it has no access", HostNoAccess, HostReadOnly, 0, mem.ErrInvalidValue},
		{"host writes where it has no access", HostNoAccess, HostWriteOnly, 0, mem.ErrInvalidValue},
		{"memory of the caller's", 0, UseHostPtr, 0, mem.ErrInvalidValue},
		{"memory allocated", 0, AllocHostPtr, 0, mem.ErrInvalidValue},
		{"memory copied, like the root's", CopyHostPtr, CopyHostPtr, 0, mem.ErrInvalidValue},
		{"an unknown bit", 0, 1 << 30, 0, mem.ErrInvalidValue},
	} {
		sub, err := whole(t, 64, tc.parent).Of(8, 8, tc.sub)
		require.ErrorIs(t, err, tc.want, tc.name)
		require.Equal(t, tc.get, sub.Flags, tc.name)
	}
}

func TestASubBufferNeverPermitsWhatItsBufferForbids(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flags := rapid.Custom(func(t *rapid.T) Flags {
			a := rapid.SampledFrom([]Flags{0, ReadWrite, ReadOnly, WriteOnly}).Draw(t, "access")
			return a | rapid.SampledFrom([]Flags{0, HostReadOnly, HostWriteOnly, HostNoAccess}).Draw(t, "host access")
		})
		v, err := Whole(64, flags.Draw(t, "buffer"))
		require.NoError(t, err)
		sub, err := v.Of(0, 8, flags.Draw(t, "sub-buffer"))
		if err != nil {
			require.ErrorIs(t, err, mem.ErrInvalidValue)
			return
		}
		forbids := func(f Flags) [4]bool {
			return [4]bool{f.HostReads() != nil, f.HostWrites() != nil, f&WriteOnly != 0, f.ReadOnly()}
		}
		p, s := forbids(v.Flags), forbids(sub.Flags)
		for i := range p {
			require.True(t, !p[i] || s[i], "%#x of %#x", sub.Flags, v.Flags)
		}
	})
}
