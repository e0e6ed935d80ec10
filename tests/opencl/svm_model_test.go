//go:build cgo

package opencl_test

import (
	"testing"

	"pgregory.net/rapid"

	"godwit/internal/svmmodel"
	"godwit/mem"
)

// TestSVMOnOpenCLAgainstPlainBytes runs random commands over pointers, and over
// buffers made of them, on two OpenCL devices, which use the host's memory, and
// two simulated ones, which use their own.
func TestSVMOnOpenCLAgainstPlainBytes(t *testing.T) {
	need(t)
	h := openSVM(t, house("off", true))
	defer h.close()
	rig := svmmodel.Rig{
		Ctx: h.ctx, Context: h.c, Queues: h.q, Increment: h.inc, First: simTCE, Last: []int{simTCE, second},
		Memory: func(q int) mem.MemoryID {
			if q == simCPU || q == simTCE {
				return h.q[q].Memory()
			}
			return mem.Host
		},
	}
	rapid.Check(t, func(rt *rapid.T) { svmmodel.Run(rt, rig) })
}
