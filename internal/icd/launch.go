//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"context"
	"slices"
	"unsafe"

	"godwit/runtime"
)

//export gwEnqueueNDRangeKernel
func gwEnqueueNDRangeKernel(qh, kh uintptr, dims uint32, offset, global, local unsafe.Pointer, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueKernel(qh, kh, &space{dims, words(offset, dims), words(global, dims), words(local, dims)}, C.CL_COMMAND_NDRANGE_KERNEL, n, list, out)
}

var one = [1]uint64{1}

//export gwEnqueueTask
func gwEnqueueTask(qh, kh uintptr, n uint32, list, out unsafe.Pointer) int32 {
	return enqueueKernel(qh, kh, &space{1, nil, one[:], one[:]}, C.CL_COMMAND_TASK, n, list, out)
}

// space is an index space, as the program has it in memory.
type space struct {
	dims                  uint32
	offset, global, local []uint64
}

// words are n words of the program's; nil where it gave none.
func words(p unsafe.Pointer, n uint32) []uint64 {
	if p == nil || n > 3 {
		return nil
	}
	return unsafe.Slice((*uint64)(p), n)
}

// enqueueKernel leaves to the runtime to refuse what launchable does not.
func enqueueKernel(qh, kh uintptr, s *space, command, n uint32, list, out unsafe.Pointer) int32 {
	q := queues.get(qh)
	if q == nil {
		return clInvalidCommandQueue
	}
	k := kernels.get(kh)
	if k == nil {
		return clInvalidKernel
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if st := k.launchable(q, s, false); st != clSuccess {
		return st
	}
	var w waits
	wait, st := q.c.waitList(w[:0], n, list)
	if st != clSuccess {
		return st
	}
	if s.empty() {
		run, err := q.enqueueNothing(wait)
		return q.accepted(run, err, command, false, out)
	}
	run, err := q.run.EnqueueLaunch(context.Background(), runtime.Launch{
		Kernel: k.run, Global: s.global, Local: s.local, Offset: s.offset, Args: k.args, SVM: k.svm, NoEvent: out == nil,
	}, wait...)
	return q.accepted(run, err, command, false, out)
}

// launchable tests in OpenCL's order what the runtime does not know, and whether all arguments are set, unless
// they may come later. mu is held.
func (k *kernel) launchable(q *queue, s *space, later bool) int32 {
	if k.p.c != q.c {
		return clInvalidContext
	}
	on := k.find(q.d)
	switch {
	case on == nil:
		return clInvalidProgramExecutable
	case k.unset > 0 && !later:
		return clInvalidKernelArgs
	case s.dims < 1 || s.dims > 3:
		return clInvalidWorkDimension
	case s.empty() && q.d.numericVersion() < versionNumber(2, 1):
		return clInvalidGlobalWorkSize
	}
	return s.fit(on)
}

// empty reports whether there is no work-item, which is no error since OpenCL 2.1.
func (s *space) empty() bool {
	return s.global == nil || slices.Contains(s.global, 0)
}

// fit tests the work-group size against what the kernel was compiled for, and
// takes that over where the program gives none.
func (s *space) fit(on *kernelOn) int32 {
	on.limits()
	if on.required[0] != 0 {
		if s.local == nil {
			s.local = on.required[:s.dims]
		}
		for i, r := range on.required {
			if i < len(s.local) && s.local[i] != r || i >= len(s.local) && r != 1 {
				return clInvalidWorkGroupSize
			}
		}
	}
	items, tooWide := uint64(1), false
	for i, l := range s.local {
		if l == 0 {
			return clInvalidWorkGroupSize
		}
		items *= l
		if most := on.d.found.Info.MaxWorkItems[i]; most != 0 && l > most {
			tooWide = true // one side alone is: the runtime refuses that with a status of its own
		}
	}
	if on.most != 0 && items > on.most && !tooWide {
		return clInvalidWorkGroupSize
	}
	return clSuccess
}

// enqueueNothing waits as a launch does and does nothing.
func (q *queue) enqueueNothing(wait []runtime.Event) (runtime.Event, error) {
	if len(wait) == 0 && q.flags&C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0 {
		// A marker would wait for all earlier commands.
		return q.run.EnqueueHostCall(context.Background(), func(context.Context) error { return nil })
	}
	return q.run.EnqueueMarker(context.Background(), wait...)
}
