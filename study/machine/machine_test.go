package machine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/network"
	"godwit/internal/yaml"
	"godwit/mem"
	"godwit/study/machine"
)

var _ virtual.Machine = (*machine.Machine)(nil)

func parse(t testing.TB, text string) *machine.Machine {
	m, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
	require.NoError(t, err)
	return m
}

const small = `
name: small
about: two GPUs that are peers, a third behind the host
host: {memory: 16 GiB, bandwidth: 100 GB/s, enqueue: 2 us, poll: 500 ns, other: 1 us, call: 3 us}
devices:
- name: gpu
  count: 2
  memory: 1 GiB
  bandwidth: 1 TB/s
  rate: 1 Top/s
  launch: 5 us
  copy: 1.5 us
  copies: {in: 2, out: 1}
  kernels:
  - {name: matmul, operations: 2, power: 1.5}
  - {name: fixed, time: 30 us}
  - {name: sized, table: {1 KiB: 1 us, 2 KiB: 2 us, 4 KiB: 10 us, 8 KiB: 6 us}}
- {name: far, type: accelerator, copies: 1}
switches: [{name: bus, bandwidth: 30 GB/s, peers: false}]
links:
- {between: [host, bus], latency: 1 us, bandwidth: 25.5 GB/s, both: 40 GB/s}
- {between: [bus, gpu], latency: 250 ns, bandwidth: 20 GB/s}
- {between: [gpu, gpu], latency: 2 us, bandwidth: 50 GB/s}
- {between: [bus, far], latency: 4 us, bandwidth: 1 GB/s}
`

// names are the names of a path's channels.
func names(m *machine.Machine, path []network.Channel) (out []string) {
	for _, c := range path {
		out = append(out, m.Channels()[c].Name)
	}
	return out
}

func TestAFileIsAMachine(t *testing.T) {
	m := parse(t, small)
	require.Equal(t, "small", m.Name)
	require.Equal(t, machine.Host{Memory: 16 << 30, Bandwidth: 100e9, Enqueue: 2000, Poll: 500, Other: 1000, Call: 3000}, m.Host)
	require.Equal(t, 4, m.Memories())
	require.Equal(t, []int{1, 2, 1, 1, 2, 1, 1, 1}, m.Engines())
	require.Equal(t, "gpu1 in", m.EngineList()[4].Name)
	require.Equal(t, "far copies", m.EngineList()[7].Name)
	require.Equal(t, "gpu1", m.Info(2).Name)
	require.Equal(t, uint64(1<<30), m.Info(2).GlobalMemory)
	require.Equal(t, devices.Accelerator, m.Info(3).Type)
	require.Equal(t, uint64(2000), m.Call(0, devices.Enqueue))
	require.Equal(t, uint64(500), m.Call(0, devices.Poll))
	require.Equal(t, uint64(1000), m.Call(0, devices.Other))
	require.Equal(t, uint64(3000), m.HostCall(0))
	_, err := network.New(m.Bandwidths())
	require.NoError(t, err)
}

func TestPathsLeadOverLinksAndSwitches(t *testing.T) {
	m := parse(t, small)
	up := m.Copy(1, 0, 100)
	require.ElementsMatch(t, []string{"gpu0 memory", "bus → gpu0", "bus", "host → bus", "host ↔ bus", "host memory"}, replace(names(m, up.Path), "gpu0 → bus", "bus → gpu0", "bus → host", "host → bus"))
	require.Equal(t, uint64(1250), up.Latency)
	require.Equal(t, uint64(1500), up.Setup)
	require.Equal(t, "gpu0 out", m.EngineList()[up.Engine].Name)
	peer := m.Copy(1, 2, 100)
	require.ElementsMatch(t, []string{"gpu0 memory", "gpu0 → gpu1", "gpu1 memory"}, names(m, peer.Path))
	require.Equal(t, "gpu1 in", m.EngineList()[peer.Engine].Name)
	inside := m.Copy(1, 1, 100)
	require.Equal(t, []string{"gpu0 memory", "gpu0 memory"}, names(m, inside.Path), "read and written")
	require.Equal(t, []string{"host memory", "host memory"}, names(m, m.Copy(0, 0, 100).Path))
	require.Equal(t, int32(-1), m.Copy(0, 0, 100).Engine)

	require.Equal(t, mem.Path{There: true, Latency: 3500, Bandwidth: 50e9}, m.Link(1, 2).Direct)
	require.Equal(t, mem.Path{There: true, Latency: 1500 + 1250 + 1500 + 1250, Bandwidth: 20e9}, m.Link(1, 2).Ring, "for contexts that leave the link unused")
	require.Equal(t, mem.Link{Direct: mem.Path{There: true, Latency: 2750, Bandwidth: 20e9}}, m.Link(0, 1))
	require.Equal(t, mem.Link{Ring: mem.Path{There: true, Latency: 1500 + 1250 + 5000, Bandwidth: 1e9}}, m.Link(1, 3), "the switch is not for peers")
}

func replace(list []string, pairs ...string) []string {
	for i := range list {
		for k := 0; k < len(pairs); k += 2 {
			if list[i] == pairs[k] {
				list[i] = pairs[k+1]
			}
		}
	}
	return list
}

// A table is of launches of so many work-items; between two it is in proportion to what each does.
func TestTablesByWorkItems(t *testing.T) {
	m := parse(t, `
devices: [{name: a, launch: 1 us, kernels: [{name: k, tables: {1024: {1 KiB: 8 us, 2 KiB: 16 us}, 4096: {1 KiB: 2 us}}}]}]
links: [{between: [host, a], bandwidth: 1 GB/s}]
`)
	for items, want := range map[uint64]uint64{1: 8000, 1024: 8000, 2048: 4000, 4096: 2000, 1 << 40: 2000} {
		w := m.Launch(1, &virtual.Kernel{Name: "k", Items: items, Largest: 1024})
		require.Equal(t, want, w.Setup+w.Least, "%d work-items", items)
	}
	w := m.Launch(1, &virtual.Kernel{Name: "k", Items: 2048, Largest: 2048})
	require.Equal(t, uint64(8000), w.Least)
}

// A class's setup takes the place of what the device says of all.
func TestSetupsOfClasses(t *testing.T) {
	m := parse(t, `
devices: [{name: a, count: 2, launch: 1 us, copy: 2 us, classes: {launch: {setup: 3 us}, fill: {setup: 4 us}, up: {setup: 5 us}, peer: {setup: 6 us}}}]
links: [{between: [host, a], bandwidth: 1 GB/s}, {between: [a, a], bandwidth: 1 GB/s}]
`)
	require.Equal(t, uint64(3000), m.Launch(1, &virtual.Kernel{Name: "k"}).Setup)
	require.Equal(t, uint64(4000), m.Fill(1, 1).Setup)
	require.Equal(t, []uint64{5000, 2000, 2000, 6000}, []uint64{m.Copy(0, 1, 1).Setup, m.Copy(1, 0, 1).Setup, m.Copy(1, 1, 1).Setup, m.Copy(1, 2, 1).Setup})
}

// Of several paths the one of least latency is taken, then the shortest, then one that is drawn.
func TestTheBestOfSeveralPaths(t *testing.T) {
	m := parse(t, `
devices: [{name: a}, {name: b}]
switches: [{name: s}, {name: t}, {name: u}]
links:
- {between: [host, a], bandwidth: 1 GB/s}
- {between: [host, b], bandwidth: 1 GB/s}
- {between: [a, s], latency: 1 us, bandwidth: 2 GB/s}
- {between: [s, b], latency: 1 us, bandwidth: 2 GB/s}
- {between: [a, t], latency: 1 us, bandwidth: 3 GB/s}
- {between: [t, b], latency: 1 us, bandwidth: 3 GB/s}
- {from: a, to: u, bandwidth: 4 GB/s}
- {from: u, to: b, latency: 1 us, bandwidth: 4 GB/s}
`)
	require.Equal(t, []string{"u → b", "a → u"}, names(m, m.Copy(1, 2, 1).Path))
	require.Contains(t, [][]string{{"s → a", "b → s"}, {"t → a", "b → t"}}, names(m, m.Copy(2, 1, 1).Path), "u is one way")
}

func TestWhatKernelsCost(t *testing.T) {
	m := parse(t, small)
	cost := func(k virtual.Kernel) virtual.Work { return m.Launch(1, &k) }
	w := cost(virtual.Kernel{Name: "any", Bytes: 1000, Items: 5_000_000})
	require.Equal(t, uint64(5000), w.Setup)
	require.Equal(t, uint64(5000), w.Least, "an operation for each work-item")
	require.Equal(t, uint64(1000), w.Bytes)
	require.Equal(t, []string{"gpu0 memory"}, names(m, w.Path))
	require.Equal(t, uint64(2_000_000), cost(virtual.Kernel{Name: "matmul", Items: 1_000_000}).Least, "2 n^3 of n = 1000")
	require.Equal(t, uint64(30_000), cost(virtual.Kernel{Name: "fixed", Bytes: 5, Items: 5}).Least)
	require.Equal(t, virtual.Work{Least: 70}, cost(virtual.Kernel{Name: "fixed", Bytes: 5, Items: 5, Takes: 70}), "the scenario's word")
	for size, want := range map[uint64]uint64{1: 1000, 1024: 1000, 1536: 1500, 2048: 2000, 3072: 6000, 4096: 10_000, 6144: 8000, 8192: 6000, 16384: 12_000} {
		require.Equal(t, want, cost(virtual.Kernel{Name: "sized", Largest: size}).Least, "%d bytes", size)
	}
	require.Equal(t, w.Setup, m.Fill(1, 100).Setup, "a fill is a kernel of the driver's")
	require.Equal(t, int32(-1), m.Fill(0, 100).Engine)
	free := m.Launch(3, &virtual.Kernel{Name: "any", Bytes: 1 << 40, Items: 1 << 40})
	require.Zero(t, free.Bytes+free.Least, "no bandwidth and no rate are said")
	require.NotZero(t, m.Launch(1, &virtual.Kernel{Name: "matmul", Items: 1 << 62}).Least)
}

func TestChunksOfARing(t *testing.T) {
	m, err := machine.Named("h200x2-pcie", machine.Options{})
	require.NoError(t, err)
	require.InEpsilon(t, 16.7e6, m.Chunk(1, 2, 1<<30), 0.01, "sqrt(n g b), as measured.md has it")
	m = parse(t, small+"chunk: 8 MiB\nstaging: 64 MiB\nexact: true\n")
	require.Equal(t, uint64(8<<20), m.Chunk(1, 3, 1<<30))
	require.Equal(t, uint64(64<<20), m.Staging())
	require.True(t, m.Exact())
}

func TestBuiltInMachines(t *testing.T) {
	require.Equal(t, []string{"boxes", "gpux4-switch", "h200-nvlink", "h200-pcie", "h200x2-nvlink", "h200x2-pcie", "h200x4-nvlink", "h200x4-pcie", "h200x8-nvlink", "h200x8-pcie", "laptop"}, machine.Names())
	for _, name := range machine.Names() {
		m, err := machine.Named(name, machine.Options{})
		require.NoError(t, err)
		require.Equal(t, name, m.Name)
		require.NotEmpty(t, m.About)
		_, err = network.New(m.Bandwidths())
		require.NoError(t, err)
		for from := range m.Memories() {
			for to := range m.Memories() {
				if from != to {
					l := m.Link(from, to)
					devices := from > 0 && to > 0
					require.Equal(t, devices, l.Ring.There, "%s: %d to %d", name, from, to)
					require.Equal(t, !devices || !strings.HasSuffix(name, "pcie") && name != "laptop", l.Direct.There, "%s: %d to %d", name, from, to)
				}
			}
		}
	}
	_, err := machine.Named("h200x3", machine.Options{})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	require.ErrorContains(t, err, "h200x2-nvlink")
}

func TestRingsAndGroups(t *testing.T) {
	m := parse(t, "devices: [{name: g, count: 4}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}, {ring: g, bandwidth: 2 GB/s, both: 3 GB/s}]\n")
	require.Len(t, m.Links, 8)
	require.Equal(t, machine.Link{From: "g3", To: "g0", Bandwidth: 2e9, Both: 3e9}, m.Links[7])
	require.True(t, m.Link(1, 4).Direct.There)
	require.True(t, m.Link(1, 3).Ring.There, "no path leads through a device")
	m = parse(t, "devices: [{name: g, count: 4}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}, {between: [g, g], bandwidth: 2 GB/s}]\n")
	require.Len(t, m.Links, 4+6)
	m = parse(t, "devices: [{name: g, count: 2}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}, {ring: g, bandwidth: 2 GB/s}]\n")
	require.Len(t, m.Links, 3)
}

// How many devices a group has may be left to who uses the machine.
func TestAnyNumberOfDevices(t *testing.T) {
	text := []byte("devices: [{name: cpu}, {name: g, count: any}, {name: x, count: 2}]\nlinks: [{between: [host, cpu], bandwidth: 1 GB/s}, {between: [host, g], bandwidth: 1 GB/s}, {between: [host, x], bandwidth: 1 GB/s}]\n")
	for wanted, want := range map[int]int{0: 6, 1: 5, 5: 7, 64: 66} {
		m, err := machine.Parse("m.yaml", text, machine.Options{Devices: wanted})
		require.NoError(t, err)
		require.Equal(t, want, m.Memories(), "%d wanted: a declaration after it counts as one", wanted)
	}
	m, err := machine.Named("h200-pcie", machine.Options{Devices: 64})
	require.NoError(t, err)
	require.Equal(t, 65, m.Memories())
	m, err = machine.Parse("m.yaml", []byte("devices: [{name: g, count: any}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}, {between: [g, g], bandwidth: 1 GB/s}]\n"), machine.Options{Devices: 1})
	require.NoError(t, err)
	require.Len(t, m.Links, 1, "a group of one has no pairs")
	_, err = machine.Parse("m.yaml", []byte("devices: [{name: a, count: any}, {name: b, count: any}]"), machine.Options{})
	require.ErrorContains(t, err, "another group has that")
}

// A bad file is refused with its file, a line and the rule, in bounded time and memory.
func TestFaultsNameLineAndRule(t *testing.T) {
	good := "links: [{between: [host, a], bandwidth: 1 GB/s}]\n"
	for text, want := range map[string]string{
		"":                                   "m.yaml: empty: a machine has devices and links",
		"devices: []":                        "m.yaml:1: machine: devices: want at least one",
		"a: 1\n---\nb: 2":                    "m.yaml:3: a second document",
		"- a":                                "m.yaml:1: machine: want a mapping",
		"devices:\n- {name: a, colour: 1}":   `m.yaml:2: device: unknown key "colour"; known here: name`,
		"devices:\n- {name: a, coun: 1}":     `did you mean "count"?`,
		"devices:\n- {count: 2}":             "m.yaml:2: device: name is missing",
		"devices:\n- {name: 1a}":             "begins with no digit",
		"devices:\n- {name: host}\n":         "the name is taken",
		"devices:\n- {name: a}\n- {name: a}": "m.yaml:3: device \"a\": the name is taken",
		"devices:\n- {name: a, count: 2}\n- {name: a1}":                                                                      "m.yaml:3: device \"a1\": the name is taken",
		"devices:\n- {name: a, count: 1e18}":                                                                                 `device "a": count "1e18": want from 1 to 16384`,
		"devices:\n- {name: a, count: 1000000000000000000}":                                                                  `want from 1 to 16384`,
		"devices:\n- {name: a, count: 0}":                                                                                    `count "0": want from 1 to 16384`,
		"devices:\n- {name: a, count: -1}":                                                                                   `count "-1": want from 1`,
		"devices:\n- {name: a, count: 16000}\n- {name: b, count: 999}":                                                       "m.yaml:3: device \"b\": count \"999\": want from 1 to 384",
		"devices:\n- {name: a, memory: much}":                                                                                `memory "much": want bytes such as 64 MiB`,
		"devices:\n- {name: a, memory: 9999999999999999999 EB}":                                                              `want from 1 B to`,
		"devices:\n- {name: a, bandwidth: 1 GB}":                                                                             `bandwidth "1 GB": want bytes a second such as 55.3 GB/s`,
		"devices:\n- {name: a, bandwidth: 0 GB/s}":                                                                           `want from 1 B/s to`,
		"devices:\n- {name: a, launch: -5us}":                                                                                `launch "-5us": want from 0 ns`,
		"devices:\n- {name: a, type: quantum}":                                                                               `type "quantum": want one of gpu, cpu, accelerator, custom`,
		"devices:\n- {name: a, copies: {in: 0}}":                                                                             `copies: in "0"`,
		"devices:\n- {name: a, kernels: [{name: k}]}":                                                                        "want one of time, operations, table and tables, not 0 of them",
		"devices:\n- {name: a, kernels: [{name: k, time: 1 us, table: {1: 1 us}}]}":                                          "not 2 of them",
		"devices:\n- {name: a, kernels: [{name: k, table: {2: 1 us, 1: 1 us}}]}":                                             "sizes have to ascend",
		"devices:\n- {name: a, kernels: [{name: k, tables: {2: {1: 1 us}, 1: {1: 1 us}}}]}":                                  "work-items have to ascend",
		"devices:\n- {name: a, kernels: [{name: k, tables: {0: {1: 1 us}}}]}":                                                `tables "0": want from 1`,
		"devices:\n- {name: a, kernels: [{name: k, tables: {1: {}}}]}":                                                       "0 lines: want 1 to 1000",
		"devices:\n- {name: a, kernels: [{name: k, table: {}}]}":                                                             "0 lines: want 1 to 1000",
		"devices:\n- {name: a, kernels: [{name: k, time: 1 us}, {name: k, time: 1 us}]}":                                     "k is there twice",
		"devices:\n- {name: a}\n":                                                                                            `device "a": no link or switch leads there from the host`,
		"devices:\n- {name: a}\nlinks: [{from: host, to: a, bandwidth: 1 GB/s}]":                                             `leads from there to the host`,
		"devices:\n- {name: a}\nlinks:\n- {between: [host, a]}":                                                              "m.yaml:4: link: bandwidth is missing",
		"devices:\n- {name: a}\nlinks:\n- {between: [host, b], bandwidth: 1 GB/s}":                                           `link: between: no device, group or switch is named "b"`,
		"devices:\n- {name: a}\nlinks:\n- {between: [host], bandwidth: 1 GB/s}":                                              "want two ends, not 1",
		"devices:\n- {name: a}\nlinks:\n- {between: [a, a], bandwidth: 1 GB/s}":                                              "a is linked to itself",
		"devices:\n- {name: a}\nlinks:\n- {ring: a, bandwidth: 1 GB/s}":                                                      "want a group of at least two",
		"devices:\n- {name: a}\nlinks:\n- {ring: a, from: a, bandwidth: 1 GB/s}":                                             "want between: [A, B], from: A and to: B, or ring: A",
		"devices:\n- {name: a}\nlinks:\n- {from: a, to: host, both: 1 B/s, bandwidth: 1 GB/s}":                               "it goes one way only",
		"devices:\n- {name: a}\n" + good + "exact: perhaps":                                                                  "m.yaml:4: machine: exact: want true or false",
		"devices:\n- {name: a}\nlinks:\n- {between: [host, a], bandwidth: 1 GB/s}\n- {from: host, to: a, bandwidth: 1 GB/s}": "m.yaml:5: link: from host to a there is one in line 4",
		"devices:\n- {name: a, count: 1024}\nlinks: [{between: [a, a], bandwidth: 1 GB/s}]":                                  "more than 200000 links: let devices meet at a switch",
		"devices: &x [{name: a}]\nlinks: *x":                                                                                 "an anchor or an alias",
		"devices: &x [*x]":                                                                                                   "an anchor or an alias",
		"devices:\n- {<<: {name: b}, name: a}":                                                                               "merge keys",
		"devices:\n- {name: a, name: b}":                                                                                     "",
		"devices: " + strings.Repeat("[", 100_000):                                                                           "nested more than 64 deep",
		strings.Repeat("#", 2<<20):                                                                                           "want at most",
		"\xff":                                                                                                               "not UTF-8",
		"about: \"\\e[2J\"\n":                                                                                                "no control characters",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want, text[:min(len(text), 100)])
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(256), "MiB")
	}
	_, err := machine.Load(t.Context(), filepath.Join(t.TempDir(), "none"), machine.Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	var e *yaml.Error
	_, err = machine.Parse("m.yaml", []byte("devices:\n- {name: 1}\n"), machine.Options{})
	require.ErrorAs(t, err, &e)
	require.Equal(t, 2, e.Line)
}

// A device or a switch without a count is one, and counts as that.
func TestDevicesAndSwitchesAreBoundedHoweverTheyAreWritten(t *testing.T) {
	many := func(key, name string, n int) string {
		var s strings.Builder
		s.WriteString(key + ":\n")
		for i := range n {
			fmt.Fprintf(&s, "- {name: %s%d}\n", name, i)
		}
		return s.String()
	}
	link := "links: [{between: [host, d0], bandwidth: 1 GB/s}]\n"
	full := "devices:\n- {name: d0}\n" + fmt.Sprintf("- {name: e, count: %d}\n", machine.MaxDevices-1)
	for text, want := range map[string]string{
		full + "- {name: x}\n":                              `m.yaml:4: device "x": more than 16384 devices`,
		full + "- {name: x}\n- {name: y}\n":                 `m.yaml:5: device "y": more than 16384 devices`,
		full + "- {name: x, count: 1}\n":                    `m.yaml:4: device "x": more than 16384 devices`,
		full + "- {name: x}\n- {name: y, count: 1e18}\n":    `m.yaml:5: device "y": more than 16384 devices`,
		full + "- {name: x}\n- {name: y, count: any}\n":     `m.yaml:5: device "y": more than 16384 devices`,
		full + "- {name: x, count: 18446744073709551615}\n": `m.yaml:4: device "x": more than 16384 devices`,

		"devices: [{name: d0}]\n" + link + "switches:\n- {name: s, count: 65536}\n- {name: x}\n":    `m.yaml:5: switch "x": more than 65536 switches`,
		"devices: [{name: d0}]\n" + link + many("switches", "s", 3) + "- {name: x, count: 65534}\n": `m.yaml:7: switch "x": count "65534": want from 1 to 65533`,
	} {
		_, err := machine.Parse("m.yaml", []byte(text), machine.Options{Devices: 1 << 40})
		require.ErrorContains(t, err, want)
	}
	for _, text := range []string{many("devices", "d", 1023), many("devices", "d", 1023) + "- {name: x, count: any}\n", "devices: [{name: d0, count: 1}]\n" + many("switches", "s", 4096) + "- {name: x, count: 61440}\n"} {
		_, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
		require.NotContains(t, fmt.Sprint(err), "more than")
	}
}

// Whatever the file: an error, or a machine within bounds in which every memory reaches
// the host.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	for _, name := range machine.Names() {
		data, _ := machine.File(name)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := machine.Parse("m.yaml", data, machine.Options{})
		if err != nil {
			return
		}
		if n := m.Memories(); n < 2 || n > machine.MaxDevices+1 {
			t.Fatalf("%d memories", n)
		}
		if _, err := network.New(m.Bandwidths()); err != nil {
			t.Fatal(err)
		}
		last := m.Memories() - 1
		for _, ends := range [][2]int{{0, last}, {last, 0}, {1, last}} {
			l := m.Link(ends[0], ends[1])
			if ends[0] != ends[1] && !l.Direct.There && !l.Ring.There {
				t.Fatalf("no way from %d to %d", ends[0], ends[1])
			}
			m.Copy(ends[0], ends[1], 1<<40)
			m.Chunk(ends[0], ends[1], 1<<60)
		}
		m.Launch(last, &virtual.Kernel{Name: "matmul", Items: 1 << 63, Bytes: 1 << 63, Largest: 1 << 63})
	})
}

func Example() {
	m, err := machine.Named("h200x2-nvlink", machine.Options{})
	if err != nil {
		panic(err)
	}
	w := m.Copy(1, 2, 256<<20)
	fmt.Println(m.EngineList()[w.Engine].Name, "copies", w.Bytes, "bytes over:")
	for _, c := range w.Path {
		fmt.Println(" ", m.Channels()[c].Name, m.Channels()[c].Bandwidth/1e9, "GB/s")
	}
	// Output:
	// gpu1 in copies 268435456 bytes over:
	//   nvswitch → gpu1 389 GB/s
	//   gpu0 → nvswitch 389 GB/s
	//   gpu0 memory 4800 GB/s
	//   gpu1 memory 4800 GB/s
}
