// Package ocl is the handles and the calls of OpenCL that the driver uses: thin
// functions over C, one call from Go to C for a whole command, and sinks that bring
// the ends of commands back. It knows no device, queue or command of Godwit's.
//
// Platforms, devices, contexts, queues and programs come from
// github.com/jgillich/go-opencl. What that lacks is here: sub-buffers, rectangles,
// callbacks, events without garbage, binaries, linking. Every call of both goes
// through the functions of loader.c, which open the OpenCL loader on first use, count
// objects and inject the faults that tests ask for.
//
// Handles are integers: Go never follows one. Who has a handle keeps the reference it
// stands for, and releases it; nothing here has a finalizer. A status is OpenCL's own,
// 0 for success.
//
// All functions are safe for use from many goroutines as far as OpenCL is.
package ocl
