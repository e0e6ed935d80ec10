package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/internal/figures"
	"godwit/internal/outfile"
	"godwit/mem"
	"godwit/study/machine"
)

// machinesOutput is what godwit machines prints with --json; with a name it prints one of
// them, with its ways.
type machinesOutput struct {
	Machines []machineInfo `json:"machines"`
}

// machineInfo is what godwit machines says of one.
type machineInfo struct {
	Name    string       `json:"name" show:"machine"`
	About   string       `json:"about" show:"what it is"`
	Host    hostInfo     `json:"host"`
	Devices []deviceCost `json:"devices"`
	Links   []linkInfo   `json:"links"`
	Ways    []wayInfo    `json:"ways,omitempty"` // from memory to memory, where one machine is shown
}

// hostInfo is the host of a machine.
type hostInfo struct {
	Memory    uint64 `json:"memory_bytes"` // 0 is without limit
	Bandwidth uint64 `json:"bandwidth_bytes_per_s"`
	Enqueue   uint64 `json:"enqueue_ns"` // of a host thread, for each command
	Poll      uint64 `json:"poll_ns"`    // for each look and each wait
	Other     uint64 `json:"other_ns"`   // for each other call
	HostCall  uint64 `json:"host_call_ns"`
}

// deviceCost is a device of a machine. 0 is without limit.
type deviceCost struct {
	Name      string `json:"name" show:"device"`
	Type      string `json:"type" show:"type"`
	Memory    uint64 `json:"memory_bytes" show:"memory|bytes|no limit"`
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" show:"bandwidth|rate|no limit"` // of its memory
	Rate      uint64 `json:"operations_per_s" show:"op/s|SI|no limit"`
	Launch    uint64 `json:"launch_ns" show:"launch|span"`    // beside the work-items
	Copy      uint64 `json:"copy_ns" show:"copy|span"`        // of an engine, for each copy beside its bytes
	AtOnce    int    `json:"kernels" show:"at once: kernels"` // at once
	In        int    `json:"copies_in" show:"in"`             // at once
	Out       int    `json:"copies_out" show:"out||with in"`  // at once; 0 where those in do both
}

// linkInfo is a link of a machine.
type linkInfo struct {
	From      string `json:"from" show:"from"`
	To        string `json:"to" show:"to"`
	Latency   uint64 `json:"latency_ns" show:"latency|span"`
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" show:"one way|rate"`
	Both      uint64 `json:"both_bytes_per_s" show:"both ways|rate"` // both ways together; 0 is twice as much as one way
	OneWay    bool   `json:"one_way"`
}

// wayInfo is how bytes get from one memory to another.
type wayInfo struct {
	From      string `json:"from" show:"from"`
	To        string `json:"to" show:"to"`
	Way       string `json:"way" show:"way"` // direct or ring
	Latency   uint64 `json:"latency_ns" show:"latency|span"`
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" show:"bandwidth|rate|no limit"` // of a copy that has all to itself; 0 is without limit
}

func newMachines() *cobra.Command {
	var asJSON bool
	var most int
	cmd := &cobra.Command{
		Use:   "machines [NAME | FILE]",
		Short: "List the built-in machines, show one, or write them out to be changed",
		Long: `List the built-in machines, show one, or write them out to be changed.

A machine is a YAML file that says which devices there are, what copies and kernels cost
there, and which links join them; docs/machines.md describes it. What its file says is
what counts: nothing is measured here.`,
		Example: `  godwit machines
  godwit machines h200x4-nvlink
  godwit machines write mine laptop    # mine/laptop.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("machines: want one machine and nothing more, not %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listMachines(cmd.OutOrStdout(), asJSON)
			}
			if most < 0 || most > machine.MaxDevices {
				return fmt.Errorf("--devices %d: want 0 to %d", most, machine.MaxDevices)
			}
			m, err := loadMachine(cmd.Context(), args[0], machine.Options{Devices: most})
			if err != nil {
				return err
			}
			info := describeMachine(m)
			info.Ways = waysOf(m)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), info)
			}
			info.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().IntVar(&most, "devices", 0, "how many devices there are in all, `N`, where the machine leaves that open (count: any)")
	cmd.AddCommand(newMachinesWrite())
	return cmd
}

func newMachinesWrite() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "write DIR [NAME…]",
		Short: "Write built-in machines as files to a folder",
		Long: `Write built-in machines as files to a folder, which is made where it is missing:
those named, or all. A file that is there already and differs stays, unless --force.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("machines write: which folder?")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeMachines(cmd.Context(), cmd.OutOrStdout(), args[0], args[1:], force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace files that differ")
	return cmd
}

// loadMachine is a built-in machine by its name, or that of a file: what has a / or a . in
// it is one.
func loadMachine(ctx context.Context, arg string, opt machine.Options) (*machine.Machine, error) {
	if strings.ContainsAny(arg, "/.") {
		return machine.Load(ctx, arg, opt)
	}
	return machine.Named(arg, opt)
}

func listMachines(out io.Writer, asJSON bool) error {
	list := []machineInfo{}
	for _, name := range machine.Names() {
		m, err := machine.Named(name, machine.Options{})
		if err != nil {
			return err
		}
		list = append(list, describeMachine(m))
	}
	if asJSON {
		return writeJSON(out, machinesOutput{list})
	}
	show(out, 2, 0, list, special[machineInfo]{"links", func(m *machineInfo) string { return fmt.Sprint(len(m.Links)) }})
	return nil
}

func describeMachine(m *machine.Machine) machineInfo {
	h := &m.Host
	out := machineInfo{Name: m.Name, About: m.About, Devices: []deviceCost{}, Links: []linkInfo{}, Host: hostInfo{h.Memory, h.Bandwidth, h.Enqueue, h.Poll, h.Other, h.Call}}
	for i := range m.Devices {
		d := &m.Devices[i]
		out.Devices = append(out.Devices, deviceCost{d.Name, string(d.Type), d.Memory, d.Bandwidth, d.Rate, d.Launch, d.Copy, d.AtOnce, d.In, d.Out})
	}
	for _, l := range m.Links {
		out.Links = append(out.Links, linkInfo{l.From, l.To, l.Latency, l.Bandwidth, l.Both, l.OneWay})
	}
	return out
}

// waysOf are the ways between all memories; of machines with many devices between the
// host and the first few.
func waysOf(m *machine.Machine) (out []wayInfo) {
	const shown = 9
	n := min(m.Memories(), shown)
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			l := m.Link(from, to)
			way, p := l.Choose(1, mem.Plain)
			out = append(out, wayInfo{m.Info(from).Name, m.Info(to).Name, way.String(), uint64(p.Latency), p.Bandwidth})
		}
	}
	return out
}

func (m *machineInfo) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%s: %s\n", m.Name, m.About) // out keeps its first error
	_, _ = fmt.Fprintf(out, "host: %s of memory at %s; an enqueue takes %s, a look or a wait %s, another call %s\n",
		unlimited(m.Host.Memory, "bytes"), unlimited(m.Host.Bandwidth, "rate"), figures.Text("span", m.Host.Enqueue), figures.Text("span", m.Host.Poll), figures.Text("span", m.Host.Other))
	show(out, 2, 0, m.Devices)
	show(out, 2, 0, m.Links, special[linkInfo]{"both ways", func(l *linkInfo) string {
		if l.OneWay {
			return "-"
		}
		return figures.Text("rate", cmp.Or(l.Both, 2*l.Bandwidth))
	}})
	show(out, 3, 0, m.Ways)
}

func unlimited(n uint64, format string) string {
	if n == 0 {
		return "no limit"
	}
	return figures.Text(format, n)
}

// writeMachines writes the named machines, or all, to dir, and says what it wrote.
func writeMachines(ctx context.Context, out io.Writer, dir string, names []string, force bool) error {
	if len(names) == 0 {
		names = machine.Names()
	}
	for _, name := range names {
		if !slices.Contains(machine.Names(), name) {
			_, err := machine.Named(name, machine.Options{})
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		content, _ := machine.File(name)
		path := filepath.Join(dir, name+".yaml")
		if old, err := os.ReadFile(path); err == nil && !bytes.Equal(old, content) && !force {
			return fmt.Errorf("%s is there already and differs: --force replaces it", path)
		}
		if err := outfile.Write(ctx, path, content); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, path) // out keeps its first error
	}
	return nil
}
