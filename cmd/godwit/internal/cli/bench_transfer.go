package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"godwit/cmd/godwit/internal/transferbench"
)

// deviceFlags choose an OpenCL device to measure, and say how.
type deviceFlags struct {
	platform, device, kind string
	set                    map[string]string
	sizes                  []string
	reps                   int
	json                   bool
}

func (f *deviceFlags) add(cmd *cobra.Command, sizes []string) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.sizes, "sizes", sizes, "sizes in bytes")
	fl.StringVar(&f.platform, "platform", "", "platform: an index or a part of its name")
	fl.StringVar(&f.device, "device", "", "device: an index or a part of the name; the first one is taken")
	fl.StringVar(&f.kind, "type", "", "device: cpu, gpu, accelerator")
	fl.StringToStringVar(&f.set, "set", nil, "further parameters of the driver, such as carve=off")
	fl.IntVar(&f.reps, "reps", 9, "times that medians are over")
	fl.BoolVar(&f.json, "json", false, "print JSON; times are in nanoseconds")
}

// options reads the flags.
func (f *deviceFlags) options(errOut io.Writer) (transferbench.Options, error) {
	o := transferbench.Options{Reps: f.reps, Params: make(map[string]string)}
	for key, v := range f.set {
		o.Params[key] = v
	}
	for key, v := range map[string]string{"platform": f.platform, "device": f.device, "type": f.kind} {
		if v != "" {
			o.Params[key] = v
		}
	}
	for _, s := range f.sizes {
		n, err := parseBytes(s)
		if err != nil {
			return o, err
		}
		if n == 0 || n%4 != 0 {
			return o, fmt.Errorf("size %s: it must be a multiple of 4 bytes", s)
		}
		o.Sizes = append(o.Sizes, n)
	}
	if len(o.Sizes) == 0 || f.reps < 1 {
		return o, errors.New("--sizes and --reps must not be empty or zero")
	}
	slices.Sort(o.Sizes)
	o.Progress = func(what string) { _, _ = fmt.Fprintln(errOut, "godwit:", what) } // stderr: nothing to do about an error
	return o, nil
}

func newBenchTransfer() *cobra.Command {
	var f deviceFlags
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Time transfers between the host and an OpenCL device",
		Long: `Time transfers between the host and an OpenCL device.

Both ways, for each size: by OpenCL's own calls out of pageable and page-locked
memory; through Godwit out of pageable memory, left to OpenCL ("unstaged") and
staged ("pageable"), and out of its pinned pool. "returned" is when the enqueue
gave the caller back, in parts of the transfer. For the largest size also
tensor.FromHost, staged beside a memcpy and borrowed, and FromHost with ToHost
beside the same transfers by OpenCL alone. Ways take turns; contents are checked.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			r, err := transferbench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			printBenchTransfer(cmd.OutOrStdout(), r)
			return nil
		},
	}
	f.add(cmd, []string{"256KiB", "1MiB", "4MiB", "16MiB", "64MiB", "256MiB"})
	return cmd
}

func printBenchTransfer(w io.Writer, r *transferbench.Report) {
	fmt.Fprintf(w, "%s (%s, %s)\n", r.Device, r.Platform, r.Version)
	t := newTable(w, 3, "size", "way", "time", "GB/s", "of raw, pageable", "returned")
	for _, m := range r.Moves {
		direction := "up"
		if !m.Up {
			direction = "down"
		}
		var base time.Duration
		for _, x := range m.Ways {
			if x.Name == transferbench.RawPageable {
				base = x.Time
			}
			t.appendRow([]any{humanize.IBytes(m.Size) + " " + direction, x.Name, took(x.Time), gbs(m.Size, x.Time),
				ratio(base, x.Time) + " x", share(x.Returned, x.Time)})
		}
		t.appendSeparator()
	}
	t.render()
	for _, x := range r.Tensors {
		fmt.Fprintf(w, "tensors of %s:\n", humanize.IBytes(x.Size))
		t := newTable(w, 2, "what", "time", "GB/s", "beside")
		t.appendRow([]any{"memcpy, one goroutine", took(x.Memcpy), gbs(x.Size, x.Memcpy), ""})
		t.appendRow([]any{"FromHost(Async()) returns", took(x.StagedReturned), gbs(x.Size, x.StagedReturned), ratio(x.StagedReturned, x.Memcpy) + " x the memcpy"})
		t.appendRow([]any{"   and the device has it", took(x.Staged), gbs(x.Size, x.Staged), ""})
		t.appendRow([]any{"FromHost(Async(), Borrow()) returns", took(x.BorrowedReturned), "", share(x.BorrowedReturned, x.Borrowed) + " of the transfer"})
		t.appendRow([]any{"   and the device has it", took(x.Borrowed), gbs(x.Size, x.Borrowed), ""})
		both := 2 * x.Size
		t.appendRow([]any{"FromHost + CopyTo, pageable", took(x.Pageable), gbs(both, x.Pageable), ratio(x.Pageable, x.RawPageable) + " x raw, " + ratio(x.Pageable, x.DriverPageable) + " x the runtime alone"})
		t.appendRow([]any{"FromHost + CopyTo, pinned", took(x.Pinned), gbs(both, x.Pinned), ratio(x.Pinned, x.RawPinned) + " x raw"})
		t.appendRow([]any{"raw, pageable", took(x.RawPageable), gbs(both, x.RawPageable), ""})
		t.appendRow([]any{"raw, pinned", took(x.RawPinned), gbs(both, x.RawPinned), ""})
		t.appendRow([]any{"runtime alone, pageable", took(x.DriverPageable), gbs(both, x.DriverPageable), ""})
		t.render()
	}
	if r.Shared {
		r.Notes = append(r.Notes, "this device shares the host's memory: staging, which is off there by default, only costs")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", n)
	}
	fmt.Fprintf(w, "medians of %d\n", r.Reps)
}

// ratio is a over b.
func ratio(a, b time.Duration) string {
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a.Seconds()/b.Seconds())
}

// share is a part of b.
func share(a, b time.Duration) string {
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*a.Seconds()/b.Seconds())
}

func newBenchPool() *cobra.Command {
	var f deviceFlags
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Time a buffer out of a pool beside a new one, on an OpenCL device",
		Long: `Time a buffer out of a pool beside a new one, on an OpenCL device.

A new buffer is created, used by one command and released: by OpenCL's own calls,
and through Godwit, which carves buffers of discrete devices out of slabs. A hit is
Get and Put of a buffer of the pool that the device has used.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			r, err := transferbench.RunPool(cmd.Context(), o)
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			printBenchPool(cmd.OutOrStdout(), r)
			return nil
		},
	}
	f.add(cmd, []string{"4KiB", "1MiB", "16MiB", "256MiB"})
	return cmd
}

func printBenchPool(w io.Writer, r *transferbench.Pool) {
	fmt.Fprintf(w, "%s (%s)\n", r.Device, r.Platform)
	t := newTable(w, 2, "size", "raw: create, use, release", "godwit: the same", "a hit", "raw is", "godwit is", "a pinned hit")
	for _, x := range r.Rows {
		t.appendRow([]any{humanize.IBytes(x.Size), took(x.Raw), took(x.Godwit), fmt.Sprintf("%d ns", x.Hit.Nanoseconds()),
			ratio(x.Raw, x.Hit) + " x a hit", ratio(x.Godwit, x.Hit) + " x a hit", fmt.Sprintf("%d ns", x.Pinned.Nanoseconds())})
	}
	t.render()
	fmt.Fprintf(w, "medians of %d\n", r.Reps)
}
