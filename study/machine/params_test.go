package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/study/machine"
)

const boxes = `
about: boxes whose devices meet at a switch, and {rails} between them
params:
  boxes: {type: integer, default: 2, min: 1, max: 64, about: how many}
  nic: {type: bandwidth, default: 50 GB/s}
  far: {type: duration, default: 4 us}
  speed: {type: rate, default: 2 Top/s}
  kind: {type: string, default: nvs, values: [nvs, pcie]}
  sizes: {type: list, of: size, default: [1 GiB, 2 GiB]}
let: {gpus: 2, slow: nic / 4}
host: {bandwidth: nic * 4, enqueue: far / 2}
groups:
- repeat: boxes
  as: b
  devices:
  - {name: "gpu{b}_", count: gpus, memory: "sizes[b % 2]", rate: speed, kernels: [{name: k, operations: 1 / 8.0}]}
  switches: [{name: "{kind}{b}"}]
  links:
  - {between: ["gpu{b}_", "{kind}{b}"], latency: 1 us, bandwidth: 10 * nic}
  - {between: [host, "{kind}{b}"], bandwidth: slow}
- repeat: gpus
  as: r
  switches: [{name: "rail{r}"}]
  links:
  - {between: ["gpu*_{r}", "rail{r}"], latency: far, bandwidth: nic}
  groups:
  - {repeat: "if(r == 0, 0, 1)", links: [{between: ["rail{r}", rail0], latency: 2 * far, bandwidth: 12.5 GB/s}]}
`

const byHand = `
host: {bandwidth: 200 GB/s, enqueue: 2 us}
devices:
- {name: gpu0_, count: 2, memory: 1 GiB, rate: 2 Top/s, kernels: [{name: k, operations: 0.125}]}
- {name: gpu1_, count: 2, memory: 2 GiB, rate: 2 Top/s, kernels: [{name: k, operations: 0.125}]}
switches: [{name: nvs0}, {name: nvs1}, {name: rail0}, {name: rail1}]
links:
- {between: [gpu0_, nvs0], latency: 1 us, bandwidth: 500 GB/s}
- {between: [host, nvs0], bandwidth: 12.5 GB/s}
- {between: [gpu1_, nvs1], latency: 1 us, bandwidth: 500 GB/s}
- {between: [host, nvs1], bandwidth: 12.5 GB/s}
- {between: [gpu0_0, rail0], latency: 4 us, bandwidth: 50 GB/s}
- {between: [gpu1_0, rail0], latency: 4 us, bandwidth: 50 GB/s}
- {between: [gpu0_1, rail1], latency: 4 us, bandwidth: 50 GB/s}
- {between: [gpu1_1, rail1], latency: 4 us, bandwidth: 50 GB/s}
- {between: [rail1, rail0], latency: 8 us, bandwidth: 12.5 GB/s}
`

func TestGroupsAndParametersStandForWhatOneWouldWrite(t *testing.T) {
	m, want := parse(t, boxes), parse(t, byHand)
	require.Equal(t, "boxes whose devices meet at a switch, and {rails} between them", m.About)
	require.Equal(t, want.Host, m.Host)
	require.Equal(t, want.Devices, m.Devices)
	require.Equal(t, want.Switches, m.Switches)
	require.Equal(t, want.Links, m.Links)
	require.Len(t, m.Params, 6)
	require.Equal(t, "50000000000", m.Params[1].Value)

	set := map[string]string{"boxes": "3", "nic": "25 GB/s", "far": "1 us + 500 ns", "kind": "pcie"}
	m, err := machine.Parse("m.yaml", []byte(boxes), machine.Options{Set: set})
	require.NoError(t, err)
	require.Len(t, m.Devices, 6)
	require.Equal(t, "pcie2", m.Switches[2].Name)
	require.Equal(t, machine.Link{From: "gpu2_1", To: "rail1", Latency: 1500, Bandwidth: 25e9}, m.Links[len(m.Links)-2])
}

func TestFaultsOfParametersAndGroups(t *testing.T) {
	const rest = "\nlinks: [{between: [host, g], bandwidth: 1 GB/s}]"
	for text, want := range map[string]string{
		"params: 3\ndevices: [{name: g}]" + rest:                                                                              "m.yaml:1: params: want a mapping",
		"params: {n: {default: 3}}\ndevices: [{name: g}]" + rest:                                                              `m.yaml:1: param "n": type is missing`,
		"params: {n: {type: int}}\ndevices: [{name: g}]" + rest:                                                               `m.yaml:1: param "n": type "int": want one of`,
		"params: {n: {type: integer}}\ndevices: [{name: g}]" + rest:                                                           `m.yaml:1: param "n": it has no default; add --set n=INTEGER`,
		"params: {n: {type: bandwidth, default: 3 s}}\ndevices: [{name: g}]" + rest:                                           `m.yaml:1: param "n": default "3 s": want a number, not a duration`,
		"params: {n: {type: integer, default: 3, max: 2}}\ndevices: [{name: g}]" + rest:                                       `m.yaml:1: param "n": default: 3 is above the most, 2`,
		"params: {n: {type: integer, default: 3, of: size}}\ndevices: [{name: g}]" + rest:                                     `m.yaml:1: param "n": of: it is for lists`,
		"params: {n: {type: integer, default: 3}}\nlet: {n: 4}\ndevices: [{name: g}]" + rest:                                  `m.yaml:2: let "n": the name is taken`,
		"let: {n: 1 / 0}\ndevices: [{name: g, count: n}]" + rest:                                                              `m.yaml:1: let n "1 / 0": division by zero`,
		"devices: [{name: g, count: 1 + x}]" + rest:                                                                           `m.yaml:1: device "g": count "1 + x": want a whole number, or what comes to that: no number is named "x"`,
		"devices: [{name: g, rate: 3 us}]" + rest:                                                                             `device "g": rate "3 us": want operations a second such as 60 Top/s`,
		"devices: [{name: g, rate: 3 us + 1 us}]" + rest:                                                                      `device "g": rate "3 us + 1 us": want operations a second such as 60 Top/s, or what comes to that: want a number, not a duration`,
		"devices: [{name: g, memory: 1 - 2}]" + rest:                                                                          `device "g": memory "1 - 2": want from 1 B to`,
		"devices: [{name: \"g{x}\"}]" + rest:                                                                                  `m.yaml:1: device: name: "g{x}": no number is named "x"`,
		"devices: [{name: g}]\ngroups: [{as: i, switches: [{name: s}]}]" + rest:                                               "m.yaml:2: group: repeat is missing",
		"devices: [{name: g}]\ngroups: [{repeat: 2, switches: [{name: s}]}]" + rest:                                           `switch "s": the name is taken`,
		"devices: [{name: g}]\nlet: {i: 1}\ngroups: [{repeat: 2, as: i}]" + rest:                                              `m.yaml:3: group: as "i": the name is taken`,
		"devices: [{name: g}]\ngroups: [{repeat: 2, as: 1i}]" + rest:                                                          `group: as "1i": a name is letters`,
		"devices: [{name: g, count: any}]\ngroups: [{repeat: 1}]" + rest:                                                      `device "g": count any: the file has groups`,
		"devices: [{name: g}]\nlinks: [{between: [host, \"x*\"], bandwidth: 1 GB/s}]":                                         `m.yaml:2: link: between: no device or switch has a name such as "x*"`,
		"devices: [{name: g}]\ngroups: [{repeat: 1000000, groups: [{repeat: 1000000}]}]" + rest:                               "m.yaml: machine: too much to read: groups make it more than 5000000 steps",
		"devices: [{name: g}]\ngroups: [" + strings.Repeat("{repeat: 1, groups: [", 9) + strings.Repeat("]}", 9) + "]" + rest: "group: nested more than 8 deep",
	} {
		_, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
		require.ErrorContains(t, err, want, text)
	}
	_, err := machine.Parse("m.yaml", []byte(boxes), machine.Options{Set: map[string]string{"nics": "1 GB/s"}})
	require.ErrorContains(t, err, `m.yaml:4: --set machine.nics=...: the machine has no such parameter; it has boxes, nic, far, speed, kind, sizes; did you mean "nic"?`)
	_, err = machine.Parse("m.yaml", []byte(boxes), machine.Options{Set: map[string]string{"nic": "1 us"}})
	require.ErrorContains(t, err, `m.yaml:5: param "nic": --set nic=1 us: want a number, not a duration`)
	text := "devices: [{name: g}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}]\ngroups: [{repeat: 100, as: i, links: [{between: [g, none], bandwidth: 1 GB/s}]}]"
	_, err = machine.Parse("m.yaml", []byte(text), machine.Options{})
	require.Equal(t, 1, strings.Count(err.Error(), "none"), "what is repeated is at fault once: %v", err)
}
