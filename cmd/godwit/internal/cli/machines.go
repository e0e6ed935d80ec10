package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"godwit/internal/figures"
	"godwit/mem"
	"godwit/study/machine"
	"godwit/study/sweep"
)

// machinesOutput is what godwit machines prints with --json; with a name it prints one of
// them, with its ways.
type machinesOutput struct {
	Machines []machineInfo `json:"machines"`
}

// machineInfo is what godwit machines says of one.
type machineInfo struct {
	Name    string           `json:"name" show:"machine"`
	About   string           `json:"about" show:"what it is"`
	Host    machine.Host     `json:"host"`
	Devices []machine.Device `json:"devices"`
	Links   []machine.Link   `json:"links"`
	Ways    []wayInfo        `json:"ways,omitempty"` // from memory to memory, where one machine is shown
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
	var given []string
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
			set, err := setOfMachine(given)
			if err == nil && len(set) < len(given) {
				err = fmt.Errorf("--set %s: want machine.NAME=VALUE, each once", strings.Join(given, " "))
			}
			if err != nil {
				return err
			}
			m, err := loadMachine(cmd.Context(), args[0], machine.Options{Devices: most, Set: set})
			if err != nil {
				return err
			}
			info := describeMachine(m)
			info.Ways = waysOf(m)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), info)
			}
			info.print(cmd.OutOrStdout())
			describeParams(cmd.OutOrStdout(), sweep.OfMachine, m.Params)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().StringArrayVar(&given, "set", nil, "`machine.NAME=VALUE` of a parameter of the machine")
	cmd.Flags().IntVar(&most, "devices", 0, "how many devices there are in all, `N`, where the machine leaves that open (count: any)")
	var all []builtIn
	for _, name := range machine.Names() {
		content, _ := machine.File(name)
		all = append(all, builtIn{name, name + ".yaml", content})
	}
	cmd.AddCommand(newWrite("built-in machines", all))
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
	return machineInfo{m.Name, m.About, m.Host, m.Devices, append([]machine.Link{}, m.Links...), nil}
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
	show(out, 2, 0, m.Links, special[machine.Link]{"both ways", func(l *machine.Link) string {
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
