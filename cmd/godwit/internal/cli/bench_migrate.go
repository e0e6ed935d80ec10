package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"godwit/cmd/godwit/internal/migratebench"
)

// vendorFlag is how the bench calls itself for the part that may crash.
const vendorFlag = "vendor-child"

func newBenchMigrate() *cobra.Command {
	var sizes []string
	var platform, device, kind, carve, child string
	var count, reps int
	var vendor, asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Time how content gets from one OpenCL device to another",
		Long: `Time how content gets from one OpenCL device to another.

For each pair of devices of one platform and each size: a migration through
Godwit's runtime, a kernel that needs it, the driver's copy alone; beside them
what the vendor does for the same work (one cl_mem that kernels on both devices
use in turn), clEnqueueCopyBuffer between the devices, and how fast each device
reads and writes pinned memory. Where GPUs have links (NVLink), CUDA's own copy of as
many bytes is the limit, and "of it" what a migration reaches; copies of up to 4 MiB are
taken apart, from hand to hand. The vendor's part runs in a process of its own.
Times are medians, and include the host's waiting; contents are checked.

"One to all" is one buffer, wanted on all other devices at once, where there are three
or more: by one command that names them all, by a command for each of them (star), and
from each device on to the next in so many pieces (chain). Legs are the copies that
it was done in, of which each has one of its ends in staging memory, or goes straight
between two devices: fewer legs for the same bytes are larger pieces.

PoCL has one CPU device; POCL_DEVICES="pthread pthread" makes two of it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if child != "" {
				return migratebench.Child(child)
			}
			o := migratebench.Options{Reps: reps, Params: make(map[string]string)}
			for key, v := range map[string]string{"platform": platform, "device": device, "type": kind, "carve": carve} {
				if v != "" {
					o.Params[key] = v
				}
			}
			if count > 0 {
				o.Params["count"] = fmt.Sprint(count)
			}
			for _, s := range sizes {
				n, err := parseBytes(s)
				if err != nil {
					return err
				}
				if n < 4096 || n%4096 != 0 {
					return fmt.Errorf("size %s: it must be a multiple of 4 KiB", s)
				}
				o.Sizes = append(o.Sizes, n)
			}
			if len(o.Sizes) == 0 || reps < 1 {
				return errors.New("--sizes and --reps must not be empty or zero")
			}
			slices.Sort(o.Sizes)
			return runBenchMigrate(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), o, vendor, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&sizes, "sizes", []string{"1MiB", "16MiB", "64MiB", "256MiB"}, "sizes of the buffer")
	fl.StringVar(&platform, "platform", "", "platform: an index or a part of its name")
	fl.StringVar(&device, "device", "", "devices: an index or a part of the name")
	fl.StringVar(&kind, "type", "", "devices: cpu, gpu, accelerator")
	fl.IntVar(&count, "count", 0, "take so many devices (0: all)")
	fl.StringVar(&carve, "carve", "", "carve buffers out of slabs: on, off")
	fl.IntVar(&reps, "reps", 9, "times that medians are over")
	fl.BoolVar(&vendor, "vendor", true, "also measure the vendor's own means")
	fl.BoolVar(&asJSON, "json", false, "print JSON; times are in nanoseconds")
	fl.StringVar(&child, vendorFlag, "", "")
	_ = fl.MarkHidden(vendorFlag) // it exists
	return cmd
}

func runBenchMigrate(ctx context.Context, out, errOut io.Writer, o migratebench.Options, vendor, asJSON bool) error {
	if vendor {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Vendor = []string{self, "bench", "migrate", "--" + vendorFlag}
	}
	o.Progress = func(what string) { _, _ = fmt.Fprintln(errOut, "godwit:", what) } // stderr: nothing to do about an error
	r, err := migratebench.Run(ctx, o)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(out, r)
	}
	printBenchMigrate(out, r)
	return nil
}

// gbs is a rate in GB/s (10^9 bytes), or "-" where nothing was measured.
func gbs(n uint64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/d.Seconds()/1e9)
}

func took(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f us", d.Seconds()*1e6)
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
}

func times(godwit, vendor time.Duration) string {
	if vendor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f x", migratebench.Ratio(godwit, vendor))
}

// ofLimit is what Godwit reaches of a limit.
func ofLimit(godwit, limit time.Duration) string {
	if limit == 0 || godwit == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", migratebench.Ratio(godwit, limit))
}

func printBenchMigrate(w io.Writer, r *migratebench.Report) {
	for i, d := range r.Devices {
		_, _ = fmt.Fprintf(w, "%d: %s (%s, %s)\n", i, d.Name, d.Platform, d.Version) // as the tables below
	}
	t := newTable(w, 2, "from, to", "size", "migrate", "GB/s", "with a kernel", "GB/s", "copy alone", "GB/s", "way", "CUDA's own", "GB/s", "of it", "vendor's kernel", "GB/s", "godwit is", "vendor's copy", "GB/s", "godwit is")
	for _, m := range r.Moves {
		t.appendRow([]any{fmt.Sprintf("%d, %d", m.From, m.To), humanize.IBytes(m.Size), took(m.Godwit), gbs(m.Size, m.Godwit),
			took(m.GodwitKernel), gbs(m.Size, m.GodwitKernel), took(m.Copy), gbs(m.Size, m.Copy), m.Way, took(m.CUDA), gbs(m.Size, m.CUDA), ofLimit(m.Godwit, m.CUDA),
			took(m.VendorKernel), gbs(m.Size, m.VendorKernel), times(m.GodwitKernel, m.VendorKernel),
			took(m.VendorCopy), gbs(m.Size, m.VendorCopy), times(m.Copy, m.VendorCopy)})
	}
	t.render()
	if len(r.Limits) > 0 {
		t = newTable(w, 2, "device", "size", "to pinned memory", "GB/s", "from it", "GB/s")
		for _, l := range r.Limits {
			t.appendRow([]any{l.Device, humanize.IBytes(l.Size), took(l.Down), gbs(l.Size, l.Down), took(l.Up), gbs(l.Size, l.Up)})
		}
		t.render()
	}
	if len(r.Linked) > 0 {
		t = newTable(w, 2, "over the links", "way", "size", "godwit", "GB/s", "CUDA's own", "GB/s", "of it", "through the host", "GB/s")
		for _, l := range r.Linked {
			t.appendRow([]any{l.What, l.Way, humanize.IBytes(l.Size), took(l.Godwit), gbs(l.Size, l.Godwit), took(l.CUDA), gbs(l.Size, l.CUDA), ofLimit(l.Godwit, l.CUDA), took(l.Pinned), gbs(l.Size, l.Pinned)})
		}
		t.render()
	}
	t = newTable(w, 1, "command", "godwit", "raw OpenCL", "bytes moved")
	for _, s := range r.Small {
		moved := "-"
		if s.Moved > 0 {
			moved = humanize.IBytes(s.Moved)
		}
		t.appendRow([]any{s.What, took(s.Godwit), took(s.Vendor), moved})
	}
	t.render()
	if len(r.Spread) > 0 {
		t = newTable(w, 1, "one to all", "size", "time", "GB/s in all", "legs")
		for _, s := range r.Spread {
			t.appendRow([]any{s.How, humanize.IBytes(s.Size), took(s.Time), fmt.Sprintf("%.1f", s.Rate/1e9), s.Legs})
		}
		t.render()
	}
	for _, d := range r.Devices {
		if d.Shared {
			r.Notes = append(r.Notes, "these devices share one memory: the vendor's kernel moves nothing")
			break
		}
	}
	for _, m := range r.Moves {
		if m.VendorProblem != "" && !slices.Contains(r.Notes, m.VendorProblem) {
			r.Notes = append(r.Notes, m.VendorProblem)
		}
	}
	for _, n := range r.Notes {
		_, _ = fmt.Fprintln(w, "note:", n)
	}
	_, _ = fmt.Fprintf(w, "medians of %d; \"godwit is\" so many times as fast as the vendor\n", r.Reps)
}
