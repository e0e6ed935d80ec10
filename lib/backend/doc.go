// Package backend is what an application keeps: a Manager that finds and opens
// devices, Handles from which everything else is reachable, and a way out of the
// process that gives device memory back (Main).
//
//	func main() {
//		backend.Main(func(ctx context.Context) error {
//			h, err := backend.Default(ctx, "auto")
//			if err != nil {
//				return err
//			}
//			fmt.Println(h, "because", h.Reason())
//			return train(ctx, h)
//		})
//	}
//
// # Choosing a device
//
// A device is asked for by one of these, in any case:
//
//   - auto: the best OpenCL device, a GPU before an accelerator before a CPU, then
//     by compute units, then by memory; without any, the cpu driver;
//   - gpu, accel: the best OpenCL device of that type, or an error;
//   - cpu: the cpu driver, kernels being Go functions, with one storage for device
//     and host;
//   - cl: the best OpenCL device; cl:N: the N-th;
//   - the name of a registered driver, such as tce;
//   - anything else: a part of the name of an OpenCL device or its platform.
//
// Handle.Reason says why the device was taken, and what was not there.
//
// # Lifetime and order
//
// A Handle belongs to its Manager and lives until Manager.Close, which finishes
// the queues, gives pooled buffers up and closes contexts and devices, in this
// order, youngest device first. Close is idempotent and obeys its context: where
// a device is stuck it returns, and the process can leave.
//
// Lock order: Manager.mu, then session.mu; the runtime's locks below both.
//
// # Environment
//
// Read when a Handle and its queue are made: GODWIT_ASYNC_H2D (default 1); 0 makes
// uploads wait. GODWIT_PINNED_H2D (default 1); 0 leaves page-locked memory out of
// uploads and of the staging of OpenCL's transfers. GODWIT_DEBUG=leaks prints, when Main ends the process, how
// many cl objects were created and released, and what was not released.
package backend
