//go:build cgo

package icd

import "godwit/runtime"

// mapping is a mapped range of a buffer, by the address that the program got.
type mapping struct {
	at  uintptr
	run runtime.Mapping
}
