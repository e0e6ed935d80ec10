//go:build !linux

package storage

// numaNodes lists the NUMA nodes that have memory: none, since only Linux is asked.
func numaNodes() []int { return nil }

// placeOn does nothing: PinnedNodes knows no node but NodeAny.
func placeOn([]byte, int) error { return nil }

// OnNode runs f. Memory is placed on a NUMA node on Linux only.
func OnNode(_ int, f func()) { f() }
