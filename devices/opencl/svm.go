//go:build cgo

package opencl

import (
	"bytes"
	"context"
	"fmt"
	"unsafe"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// Shared virtual memory.
//
// A pointer must be the same integer in every memory of a context, the simulated
// ones included, so the addresses are Godwit's (package svm's arena) and not
// those that clSVMAlloc comes up with. That leaves the devices whose kernels
// follow any address of this process:
//
//   - those with fine-grained system memory, which says so;
//   - cpu devices with fine-grained buffers: kernels and host touch the same bytes
//     at the same time there, so that the kernels run in this process.
//
// Such devices use the host's memory in place. Two of them share it, though they
// are memories apart for buffers: one address in one process cannot hold two
// contents. Their launches are lent the pages that they name; what a kernel
// reaches beyond them is a fault of the process.
//
// Any other device has coarse-grained memory at addresses of
// its own choosing only, which neither another platform nor another GPU can be
// given, and takes no other pointers. Info says so, and pointers are refused there.

// OpenCL's bits of CL_DEVICE_SVM_CAPABILITIES.
const (
	svmCoarse  = 1 << 0
	svmFine    = 1 << 1
	svmSystem  = 1 << 2
	svmAtomics = 1 << 3
)

// svmCaps is what of a device's shared virtual memory can be used.
func svmCaps(t devices.Type, bits uint64) devices.SVMCaps {
	switch {
	case !ocl.HasSVM():
		return devices.SVMCaps{Why: "the OpenCL loader is older than OpenCL 2.0"}
	case bits&svmSystem != 0 || t == devices.CPU && bits&svmFine != 0:
		return devices.SVMCaps{Coarse: true, Fine: true, Atomics: bits&svmAtomics != 0, InPlace: true}
	case bits&svmCoarse != 0:
		return devices.SVMCaps{Why: "its own is at addresses of its own choosing, which other memories cannot have; fine-grained system memory is wanted, or a cpu device"}
	}
	return devices.SVMCaps{Why: "the platform has none for it"}
}

// ReserveSVM implements devices.Device: where there is shared virtual memory
// its addresses are the process's.
func (d *Device) ReserveSVM(mem.Range) error {
	if !d.info.SVM.InPlace {
		return devices.NoSVM(&d.info)
	}
	return nil
}

// lent is bytes of shared virtual memory that a launch may touch until it ends.
type lent struct {
	space      devices.SVMSpace
	addr, size uint64
}

// fillPointer encodes a pointer.
func (r *record) fillPointer(a *devices.Arg) error {
	if a.Block.IsZero() {
		r.args = ocl.AppendSVM(r.args, 0)
		return nil
	}
	if a.Device == nil {
		return fmt.Errorf("device %s: a pointer into a block of its own: it follows those of the host's memory: %w", r.q.dev.name, mem.ErrInvalidOperation)
	}
	if _, err := r.keep(a.Device, a.Block, a.Off, a.Size); err != nil {
		return err
	}
	if a.Space != nil {
		if err := a.Space.Lend(a.Pointer, a.Size); err != nil {
			return err
		}
		r.lent = append(r.lent, lent{a.Space, a.Pointer, a.Size})
	}
	r.args = ocl.AppendSVM(r.args, a.Pointer)
	return nil
}

// fillInPlace encodes a buffer or image whose block is in this process's memory.
func (r *record) fillInPlace(a *devices.Arg) error {
	if !r.q.dev.info.SVM.InPlace {
		return fmt.Errorf("device %s: a block of device %s: %w", r.q.dev.name, a.Device.Info().Name, devices.NoSVM(&r.q.dev.info))
	}
	addr, err := r.keep(a.Device, a.Block, a.Off, a.Size)
	if err != nil {
		return err
	}
	if a.Image != nil {
		return r.imageInPlace(a.Image, addr)
	}
	r.args = ocl.AppendSVM(r.args, addr)
	return nil
}

// fillFill is a fill of the host's memory: where the device uses it in place, and
// takes the pattern at that address, it does it, else a host call.
func (r *record) fillFill(cmd *devices.Command) error {
	if err := r.hostEnd(&cmd.Dst, cmd.Size); err != nil {
		return err
	}
	r.pinBytes()
	dst := r.bytes
	if at := addressOf(dst); r.q.dev.info.SVM.InPlace && at%uint64(len(cmd.Pattern)) == 0 {
		r.cmd.Op, r.cmd.Dst = ocl.SVMFill, ocl.Mem(at)
		return nil
	}
	pattern := bytes.Clone(cmd.Pattern)
	r.hostCall(func(context.Context) error {
		engine.FillBytes(dst, pattern)
		return nil
	})
	return nil
}

// addressOf is the address of bytes that stay where they are.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
