package storage

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"godwit/devices"
)

func TestAPolicyOfMemoryLastsAsLongAsItsFunction(t *testing.T) {
	policy := func() (p int32) {
		_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&p)), 0, 0, 0, 0, 0)
		if errno != 0 {
			t.Skipf("get_mempolicy: %v", errno)
		}
		return p
	}
	OnNode(devices.NodeAny, func() { require.EqualValues(t, policyDefault, policy()) })
	OnNode(0, func() { require.EqualValues(t, policyPreferred, policy()) })
	require.EqualValues(t, policyDefault, policy())
}
