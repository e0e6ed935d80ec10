package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"godwit/devices"
	"godwit/devices/opencl"
)

// driverList is what godwit devices shows of one driver.
type driverList struct {
	Driver  string       `json:"driver"`
	What    string       `json:"what"`
	Devices []deviceInfo `json:"devices"`
	Missing string       `json:"missing,omitempty"` // why there are none
	Pairs   []pairInfo   `json:"pairs,omitempty"`   // of devices of one platform that has GPUs
}

// pairInfo says how bytes get from one device to another.
type pairInfo struct {
	From    int    `json:"from"` // indices of devices
	To      int    `json:"to"`
	Way     string `json:"way"`
	Missing string `json:"missing,omitempty"` // why they go no faster way
}

// deviceInfo is a device, in the form of the JSON output.
type deviceInfo struct {
	Index int `json:"index" show:"#"` // among its driver's; as a scenario's device selects it
	devices.Info
	SVM      []string `json:"svm" show:"svm"`
	WhyNoSVM string   `json:"why_no_svm,omitempty"`
}

// deviceRow is a device in the table of all.
type deviceRow struct {
	Driver string `show:"driver"`
	deviceInfo
}

// devicesOutput is the JSON form of godwit devices.
type devicesOutput struct {
	Drivers []driverList `json:"drivers"`
	System  string       `json:"system"`
	Lacks   []string     `json:"system_lacks"` // what Godwit has elsewhere, and not on this system
}

func newDevices() *cobra.Command {
	var asJSON, all, try, here bool
	var most uint64
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List drivers and devices; say what is missing",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case here:
				return tryHere(cmd, most)
			case try:
				return tryDriver(cmd.Context(), cmd.OutOrStdout(), most)
			}
			lists := listDevices(cmd.Context())
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), devicesOutput{lists, runtime.GOOS, lacks(runtime.GOOS)})
			}
			printDevices(cmd.OutOrStdout(), lists, all)
			for _, what := range lacks(runtime.GOOS) {
				fmt.Fprintf(cmd.OutOrStdout(), "not on %s: %s\n", runtime.GOOS, what)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&try, "try", false, "try whether links between GPUs work with this driver, in a process of its own, and note it")
	cmd.Flags().Uint64Var(&most, "try-most", 0, "the largest window that is tried, in bytes (default 500 MiB)")
	cmd.Flags().BoolVar(&here, "try-here", false, "what --try does, in this process")
	for _, hidden := range []string{"try-most", "try-here"} {
		_ = cmd.Flags().MarkHidden(hidden)
	}
	cmd.Flags().BoolVar(&all, "extensions", false, "show every extension of every device")
	return cmd
}

// simulated says what the simulated drivers are; each opens as many devices as
// are asked for, so that one is opened to show what they are like.
var simulated = map[string]string{
	"cpu":  "kernels in Go, on this machine's cores; each device has memory of its own",
	"tce":  "a simulated accelerator with separate global and local address spaces",
	"null": "accepts everything and moves nothing: for measuring what the rest costs",
}

func listDevices(ctx context.Context) []driverList {
	var out []driverList
	for _, name := range devices.Drivers() {
		l := driverList{Driver: name, Devices: []deviceInfo{}}
		if name == "opencl" {
			l.What = "the OpenCL devices of this machine"
			found, err := opencl.Discover()
			for _, info := range found {
				l.Devices = append(l.Devices, describe(info))
			}
			if err != nil {
				l.Missing = err.Error()
			} else if len(found) == 0 {
				l.Missing = "the OpenCL loader found no device: install a driver, such as Debian's pocl-opencl-icd for this machine's cores"
			} else {
				l.Pairs = listPairs(ctx)
			}
		} else {
			if l.What = simulated[name]; l.What == "" {
				l.What = "a driver that is linked into this program"
			}
			devs, err := devices.Open(ctx, name, devices.Config{})
			for _, d := range devs {
				l.Devices = append(l.Devices, describe(d.Info()))
				if cerr := d.Close(); err == nil {
					err = cerr
				}
			}
			if err != nil {
				l.Missing = err.Error()
			}
		}
		for i := range l.Devices {
			l.Devices[i].Index = i
		}
		out = append(out, l)
	}
	return out
}

// listPairs says how bytes get between the GPUs of a platform.
func listPairs(ctx context.Context) (out []pairInfo) {
	pairs, err := opencl.Pairs(ctx)
	for _, p := range pairs {
		i := pairInfo{From: p.From, To: p.To, Way: "over NVLink"}
		if p.Missing != nil {
			i.Way, i.Missing = "by page-locked host memory", p.Missing.Error()
		}
		out = append(out, i)
	}
	if err != nil {
		out = append(out, pairInfo{Missing: err.Error()})
	}
	return out
}

func describe(info devices.Info) deviceInfo {
	d := deviceInfo{Info: info, SVM: []string{}, WhyNoSVM: info.SVM.Why}
	d.Extensions = append([]string{}, info.Extensions...) // a list, though there are none
	for _, s := range []struct {
		has  bool
		name string
	}{{info.SVM.Coarse, "coarse"}, {info.SVM.Fine, "fine"}, {info.SVM.Atomics, "atomics"}, {info.SVM.InPlace, "in place"}} {
		if s.has {
			d.SVM = append(d.SVM, s.name)
		}
	}
	return d
}

func printDevices(w io.Writer, lists []driverList, all bool) {
	var rows []deviceRow
	for _, l := range lists {
		for _, d := range l.Devices {
			rows = append(rows, deviceRow{l.Driver, d})
		}
	}
	show(w, 3, 0, rows, special[deviceRow]{"svm", func(d *deviceRow) string { return cmp.Or(strings.Join(d.SVM, ", "), "none") }})
	fmt.Fprintln(w)
	for _, l := range lists {
		fmt.Fprintf(w, "%s: %s\n", l.Driver, l.What)
		if l.Missing != "" {
			fmt.Fprintf(w, "  none: %s\n", l.Missing)
		}
		for _, d := range l.Devices {
			printDetails(w, d, all)
		}
		printPairs(w, l.Pairs)
	}
}

// printPairs says how bytes get between devices, a line for those that go the same way.
func printPairs(w io.Writer, pairs []pairInfo) {
	for len(pairs) > 0 {
		var which []string
		first, rest := pairs[0], pairs[:0:0]
		for _, p := range pairs {
			if p.Way == first.Way && p.Missing == first.Missing {
				which = append(which, fmt.Sprintf("%d to %d", p.From, p.To))
			} else {
				rest = append(rest, p)
			}
		}
		line := "  " + strings.Join(which, ", ") + ": " + first.Way
		if first.Missing != "" {
			line += "; no link: " + first.Missing
		}
		fmt.Fprintln(w, line)
		pairs = rest
	}
}

// printDetails shows what does not fit the table, for real devices.
func printDetails(w io.Writer, d deviceInfo, all bool) {
	if d.Platform == "Godwit" || d.Platform == "" { // simulated, or of a driver from outside: the table says it all
		return
	}
	fmt.Fprintf(w, "  %d %s: platform %s, %s\n", d.Index, d.Name, d.Platform, d.Version)
	if d.WhyNoSVM != "" {
		fmt.Fprintf(w, "    no shared virtual memory: %s\n", d.WhyNoSVM)
	}
	switch {
	case len(d.Extensions) == 0:
	case all:
		fmt.Fprintf(w, "    extensions: %s\n", strings.Join(d.Extensions, " "))
	default:
		fmt.Fprintf(w, "    %d extensions (--extensions lists them)\n", len(d.Extensions))
	}
}
