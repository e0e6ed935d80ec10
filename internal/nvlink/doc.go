// Package nvlink copies between the memories of NVIDIA GPUs of one host by CUDA's driver
// library, for devices that are driven by something else. It knows no OpenCL.
//
// A window is memory of one GPU that CUDA makes and exports as a file descriptor: who
// imports that has the same memory. The engine copies between windows of different GPUs.
//
// What opens when. The library is opened at run time, as the OpenCL loader is: Open finds
// the GPUs by UUID (some 50 ms), after which windows can be made. Copies need a CUDA context
// for each GPU, which takes 130 ms and 525 MiB of device memory: Connect makes them, and is
// called beside the work when bytes first move between two GPUs. They are contexts of our
// own, never the primary one, which the program may use. A window is mapped when it is made, for its own
// GPU and those that NVLink joins with it, which takes no context, and ends inside Release.
//
// A call that fails while copies are under way retires the engine: it takes no more. Who copies has another way.
//
// Threads. CUDA is called on threads of ours only: goroutines for what takes long, which
// leave no context current behind, and for each engine one C thread, the pilot, which gives
// copies to CUDA and sees them end (pilot.c). What a copy waits for, and who is told of its
// end, are C functions that the pilot calls, so that from the end of a command elsewhere to
// the copy, and on to the command after it, no other thread need be woken.
//
// No acquiring or releasing of external memory orders the two sides: CUDA starts when the host
// has seen that the other side's command has ended, and the other side is given its next
// command when the host has seen that the copy has. A million hand-overs of changing patterns
// were right so (docs/measured.md).
//
// Lock order: the caller's locks, Engine.connecting, a GPU's or that of lanes, Engine.mu, the pilot's lock. No call of CUDA's
// that is slow is made under the last two, which are Start's. Polls and hooks run under none of these.
package nvlink
