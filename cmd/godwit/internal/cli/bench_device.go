package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"godwit/cmd/godwit/internal/devicebench"
)

// deviceBench are the flags of a benchmark of OpenCL devices.
type deviceBench struct {
	platform, device, kind, carve string
	count, reps                   int
	set                           map[string]string
	sizes                         []string
	vendor, json                  bool
	child                         string // what the part that may crash is to do
}

// command makes the verb; run measures, sizes are the defaults, and each is to be a multiple of unit.
func (f *deviceBench) command(run func(context.Context, devicebench.Options) (*devicebench.Report, error), unit uint64, sizes ...string) *cobra.Command {
	cmd := &cobra.Command{Args: noArgs}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.sizes, "sizes", sizes, "sizes in bytes")
	fl.StringVar(&f.platform, "platform", "", "platform: an index or a part of its name")
	fl.StringVar(&f.device, "device", "", "devices: an index or a part of the name")
	fl.StringVar(&f.kind, "type", "", "devices: cpu, gpu, accelerator")
	fl.StringToStringVar(&f.set, "set", nil, "further parameters of the driver, such as carve=off")
	fl.IntVar(&f.reps, "reps", 9, "times that medians are over")
	fl.BoolVar(&f.json, "json", false, "print JSON; times are in nanoseconds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.child != "" {
			return devicebench.Child(f.child)
		}
		o, err := f.options(unit, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		r, err := run(cmd.Context(), o)
		if err != nil {
			return err
		}
		if f.json {
			return writeJSON(cmd.OutOrStdout(), r)
		}
		printDeviceBench(cmd.OutOrStdout(), r)
		return nil
	}
	return cmd
}

// vendorFlag is how bench migrate calls itself for the part that may crash.
const vendorFlag = "vendor-child"

// options reads the flags.
func (f *deviceBench) options(unit uint64, errOut io.Writer) (o devicebench.Options, err error) {
	o = devicebench.Options{Reps: f.reps, Params: make(map[string]string)}
	maps.Copy(o.Params, f.set)
	for key, v := range map[string]string{"platform": f.platform, "device": f.device, "type": f.kind, "carve": f.carve} {
		if v != "" {
			o.Params[key] = v
		}
	}
	if f.count > 0 {
		o.Params["count"] = fmt.Sprint(f.count)
	}
	for _, s := range f.sizes {
		n, err := parseBytes(s)
		if err != nil {
			return o, err
		}
		if n == 0 || n%unit != 0 {
			return o, fmt.Errorf("size %s: it must be a multiple of %d bytes", s, unit)
		}
		o.Sizes = append(o.Sizes, n)
	}
	if len(o.Sizes) == 0 || f.reps < 1 {
		return o, errors.New("--sizes and --reps must not be empty or zero")
	}
	slices.Sort(o.Sizes)
	o.Progress = func(what string) { _, _ = fmt.Fprintln(errOut, "godwit:", what) } // stderr: nothing to do about an error
	if f.vendor {
		self, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Vendor = []string{self, "bench", "migrate", "--" + vendorFlag}
	}
	return o, nil
}

func newBenchMigrate() *cobra.Command {
	var f deviceBench
	cmd := f.command(devicebench.Migrate, 4096, "1MiB", "16MiB", "64MiB", "256MiB")
	cmd.Use, cmd.Short = "migrate", "Time how content gets from one OpenCL device to another"
	cmd.Long = `Time how content gets from one OpenCL device to another.

For each pair of devices of one platform and each size, one way and both ways at once:
a migration through Godwit's runtime, and a kernel that needs it. Beside them what the
vendor does for the same work: clEnqueueCopyBuffer between the devices, and one cl_mem
that kernels on both devices use in turn, in a process of its own. Where GPUs have
links (NVLink), CUDA's own copy of as many bytes is the limit; there, 64 MiB and more
are also moved outside of the windows through which CUDA copies.

"Speed" is how many times as fast a way is as the first one of the same work: CUDA's
own copy, or the vendor's. Times are medians, and include the host's waiting; contents
are checked.

PoCL has one CPU device; POCL_DEVICES="pthread pthread" makes two of it.`
	fl := cmd.Flags()
	fl.IntVar(&f.count, "count", 0, "take so many devices (0: all)")
	fl.StringVar(&f.carve, "carve", "", "carve buffers out of slabs: on, off")
	fl.BoolVar(&f.vendor, "vendor", true, "also measure the vendor's own means")
	fl.StringVar(&f.child, vendorFlag, "", "")
	_ = fl.MarkHidden(vendorFlag) // it exists
	return cmd
}

func newBenchTransfer() *cobra.Command {
	var f deviceBench
	cmd := f.command(devicebench.Transfer, 4, "256KiB", "1MiB", "4MiB", "16MiB", "64MiB", "256MiB")
	cmd.Use, cmd.Short = "transfer", "Time transfers between the host and an OpenCL device"
	cmd.Long = `Time transfers between the host and an OpenCL device, the first one chosen.

Both ways, for each size: by OpenCL's own calls out of pageable and page-locked
memory; through Godwit out of pageable memory, left to OpenCL ("unstaged") and
staged ("pageable"), and out of its pinned pool. "Speed" is how many times as fast a
way is as OpenCL's own calls out of pageable memory; "returned" is when the enqueue
gave the caller back. Ways take turns; contents are checked.`
	return cmd
}

func newBenchPool() *cobra.Command {
	var f deviceBench
	cmd := f.command(devicebench.Pool, 4, "4KiB", "1MiB", "16MiB", "256MiB")
	cmd.Use, cmd.Short = "pool", "Time a buffer out of a pool beside a new one, on an OpenCL device"
	cmd.Long = `Time a buffer out of a pool beside a new one, on an OpenCL device, the first one chosen.

A new buffer is created, used by one command and released: by OpenCL's own calls,
and through Godwit, which carves buffers of discrete devices out of slabs. A hit is
Get and Put of a buffer of the pool that the device has used; a pinned hit the same of
page-locked memory. "Speed" is how many times as fast a way is as OpenCL's own calls.`
	return cmd
}

func printDeviceBench(w io.Writer, r *devicebench.Report) {
	for i, d := range r.Devices {
		_, _ = fmt.Fprintf(w, "%d: %s (%s, %s)\n", i, d.Name, d.Platform, d.Version) // w keeps its first error
	}
	show(w, 3, 2, r.Rows)
	for _, n := range r.Notes {
		_, _ = fmt.Fprintln(w, "note:", n)
	}
	_, _ = fmt.Fprintf(w, "medians of %d\n", r.Reps)
}
