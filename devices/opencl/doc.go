// Package opencl makes real OpenCL devices into Godwit devices, through
// github.com/jgillich/go-opencl. Importing it registers the driver "opencl".
//
// All devices of one platform share one cl_context, in which each has memory of
// its own: a block on a device is a cl_mem (or a part of one) that no other
// device ever touches, so that no vendor's runtime migrates anything behind our
// back. Copies between two devices of a platform go through page-locked staging with
// both legs overlapped, chained by events across their queues (batch.go). Devices that share
// the host's memory copy once.
//
// Handles and calls are in internal/ocl. Here, record.go tells the life of a command,
// lanes.go how it goes on when nothing holds it, batch.go what is different for rings, and
// quirks.go, alone, what is different on a platform.
//
// Parameters (devices.Config.Params): platform and device choose by index or by
// a part of the name, type by kind (cpu, gpu, accelerator), count takes that
// many of what was chosen, carve (on, off) says whether blocks are carved out
// of large slabs, slab how large those are in bytes, direct (off; on where it can be)
// whether blocks are in this process's memory, so that it does copies by itself where it
// can (direct.go), events (watch, callback)
// whether a thread of ours looks for commands that have ended or OpenCL calls
// back, worker (on, off) whether OpenCL has no thread to run commands
// and takes one call at a time, so that a goroutine here sees to both (worker.go),
// quiet (on, off) whether unobserved launches go without
// an event (unobserved.go);
// what a platform's first open device says counts for all, and what it does not say
// is as the platform needs it (quirks.go). bus (on, off) says
// whether the device's memory is across a bus: then what is large is staged through
// page-locked memory, and copies between two such devices are batches (batch.go). nvlink
// (on, off, try) says whether blocks of GPUs lie in windows, between which bytes go over NVLink
// (windows.go), with try also where the vendor's driver is one that nobody has tried; the
// platform's first open device says it.
//
// Assumptions: commands are small and many; hardly any fails; waits are mostly
// on commands of the same platform. So a command whose waits are all such is
// given to OpenCL at once, with cl_events for waits, and one call into C does
// all of it. Whatever OpenCL is bad at stays here: a command that waits for
// something foreign, or for a command that is itself still here, is kept until
// that has ended or gone, and only then enqueued. So nothing in a cl queue ever
// waits for the host, no event in OpenCL fails for reasons that are not
// OpenCL's, and an Order wait is an edge that cannot fail.
//
// Shared virtual memory has addresses of the host's choosing. Devices whose
// kernels follow them, in this process, use the host's memory in place; others
// say in Info that they have none, and why. See svm.go.
//
// Environment: GODWIT_NVLINK (off) is nvlink where the parameter is not given;
// GODWIT_CUDA_LIBRARY names the library to open in place of libcuda.so.1. GODWIT_OPENCL_LIBRARY names the OpenCL loader to open in place
// of libOpenCL.so.1; GODWIT_DEBUG=leaks prints, when the last device of a
// platform is closed, the cl objects that were not released.
package opencl
