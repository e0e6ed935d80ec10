// Package tensor is n-dimensional arrays on devices: a buffer with shape, strides,
// element type and device.
//
//	x, err := tensor.FromHost(ctx, h, []float32{1, 2, 3, 4}, tensor.Shape(2, 2))
//	y, err := tensor.MatMul(ctx, x, x) // enqueued; nothing is waited for
//	got, err := tensor.ToHost[float32](ctx, y)
//	err = y.Release()
//
// Operations are enqueued on the queue of the first operand's device and return at
// once; ToHost, Ready and the queue's Finish wait. The backend of a tensor is that
// of its device and never changes; To makes a tensor elsewhere. Operands must be of
// devices that share a context (backend.Manager.Group): what lies elsewhere is then
// brought, byte for byte, by the runtime.
//
// # Element types
//
// Every Go numeric type has its DType, and can be uploaded, moved, cut, filled and
// read back; Half where the device has half precision (backend.FP16), float64 where it
// has doubles. Elsewhere it fails with ErrFeature. Arithmetic is for float32: what an
// MLP and attention need besides kernels of their own, for which In, Out and InOut are.
// Results are those of kernels in package kernels, the same on all devices for add, mul
// and scale; the order of additions in Sum depends on the device's group size.
//
// # Lifetime
//
// A tensor is to be released; its buffer goes back to the device's pool, for the
// next tensor on the same queue at once. Views (Slice, Reshape) are tensors of their
// own: the buffer goes back with the last. A tensor that the garbage collector finds
// unreleased is given back too, and reported (backend.Options.Report): a safety net,
// since nobody knows when it comes.
//
// # Steps
//
// What a program does again and again it records once (Record) and runs as a Step: operations are planned once, for
// all devices together, and results in between share memory.
//
// Methods are safe for use from many goroutines, but Release once.
package tensor
