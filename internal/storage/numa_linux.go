package storage

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"godwit/devices"
	"godwit/mem"
)

// Memory policies of the system (set_mempolicy(2)).
const (
	policyDefault   = 0 // MPOL_DEFAULT
	policyPreferred = 1 // MPOL_PREFERRED
)

// numaNodes lists the NUMA nodes that have memory, ascending; none where the system
// does not say.
var numaNodes = sync.OnceValue(func() []int {
	text, err := os.ReadFile("/sys/devices/system/node/has_memory")
	if err != nil {
		return nil
	}
	return parseNodes(strings.TrimSpace(string(text)))
})

// parseNodes reads the system's form of a set: "0-1,4".
func parseNodes(text string) (nodes []int) {
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			return nil
		}
		b := a
		if ranged {
			if b, err = strconv.Atoi(last); err != nil {
				return nil
			}
		}
		for n := a; n <= b && n < nodeBits; n++ {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

const nodeBits = 1024 // of a node mask

func nodeMask(node int) (mask [nodeBits / 64]uint64) {
	mask[node/64] = 1 << (node % 64)
	return mask
}

// placeOn asks for a mapping's pages on a node; they are not there yet.
func placeOn(bytes []byte, node int) error {
	if node == devices.NodeAny || len(numaNodes()) < 2 {
		return nil
	}
	mask := nodeMask(node)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&bytes[0])), uintptr(len(bytes)),
		policyPreferred, uintptr(unsafe.Pointer(&mask)), nodeBits, 0)
	if errno != 0 {
		return fmt.Errorf("%s on NUMA node %d: mbind: %w", mem.FormatBytes(uint64(len(bytes))), node, errno)
	}
	return nil
}

// OnNode runs f such that memory that the system takes for it is on a node, where
// it can. f must not start goroutines that are to be placed too.
func OnNode(node int, f func()) {
	if node == devices.NodeAny {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := nodeMask(node)
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, policyPreferred, uintptr(unsafe.Pointer(&mask)), nodeBits)
	if errno == 0 {
		defer func() { _, _, _ = unix.Syscall(unix.SYS_SET_MEMPOLICY, policyDefault, 0, 0) }()
	}
	f()
}
