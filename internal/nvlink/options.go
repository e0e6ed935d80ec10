//go:build cgo

package nvlink

import (
	"encoding/hex"
	"fmt"
)

// UUID names a GPU: what CUDA and other drivers call it.
type UUID [16]byte

// String is the UUID as NVIDIA's tools print it.
func (u UUID) String() string {
	s := hex.EncodeToString(u[:])
	return fmt.Sprintf("GPU-%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}

// Options say what an engine is for; zero values are defaults.
type Options struct {
	GPUs    []UUID // its GPUs: windows and copies name them by their index here
	Library string // a file name or path; libcuda.so.1
	// OnThread is a C function, void (*)(void), that the pilot calls first.
	OnThread uintptr
	// Piece is the most bytes of a copy that CUDA is given at once; 64 MiB.
	Piece uint64
}

// Gate is something that a copy waits for: Poll is a C function, int (*)(uint64_t arg). It
// returns 1 when the gate is open, 0 while it is not, and a negative status where it will
// never be. It is called again and again, on the pilot, until it is open.
type Gate struct{ Poll, Arg uintptr }

// Hook is who is told of the end of a copy: Func is a C function, void (*)(uint64_t arg,
// uint64_t id, int32_t status), called on the pilot. The status is
// 0, or the negative one of the gate that failed, or positive where the engine was lost (Engine.Err). It may
// start copies; it must not wait for any.
type Hook struct{ Func, Arg uintptr }

// Copy is a copy between windows of two GPUs.
type Copy struct {
	Dst, Src             *Window
	DstOff, SrcOff, Size uint64 // bytes
	Gates                []Gate // all are to be open before CUDA is given it; read until Start returns
	Hook                 Hook   // told once, when nothing of the copy touches memory any more
	ID                   uint64 // given to Hook
}
