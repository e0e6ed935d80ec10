package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/study/machine"
)

func boxesOf(t *testing.T) *machine.Machine {
	return parse(t, `
host: {enqueue: 2 us, memory: 1 GiB, bandwidth: 100 GB/s, threads: {dispatcher: 1, program: 2}}
groups:
- repeat: 2
  as: b
  hosts: [{name: "box{b}", enqueue: (b + 1) * 1 us}]
  devices: [{name: "g{b}_", count: 3, copy: 1 us}]
  links: [{between: ["box{b}", "g{b}_"], latency: 1 us, bandwidth: 20 GB/s}]
links: [{between: [box0, box1], latency: 5 us, bandwidth: 10 GB/s}]
`)
}

func TestHostsHaveTheirDevicesMemoriesAndThreads(t *testing.T) {
	m := boxesOf(t)
	require.Equal(t, []int{0, 0, 0, 0, 1, 1, 1}, []int{m.HostOf(0), m.HostOf(1), m.HostOf(2), m.HostOf(3), m.HostOf(4), m.HostOf(5), m.HostOf(6)})
	require.Equal(t, uint64(2<<30), m.Info(0).GlobalMemory)
	require.Equal(t, []uint64{1000, 2000}, []uint64{m.Call(0, devices.Enqueue), m.Call(1, devices.Enqueue)})
	all, of := m.Ranks()
	require.Equal(t, []machine.Rank{{Host: 0, Name: "box0"}, {Host: 0, Name: "box0"}, {Host: 1, Name: "box1"}, {Host: 1, Name: "box1"}}, all)
	require.Equal(t, []int{0, 0, 1, 0, 2, 3, 2}, of, "dealt out")

	require.Equal(t, []string{"box0 → g0_0", "box0 memory"}, names(m, m.Copy(0, 1, 1).Path))
	require.Equal(t, []string{"g1_2 → box1", "box1 memory"}, names(m, m.Copy(6, 0, 1).Path), "its own host's")
	require.Equal(t, []string{"box0 → g0_1", "box0 memory"}, names(m, m.RingUp(1, 2, 1).Path))
	up := m.RingUp(1, 4, 1)
	require.Equal(t, []string{"box0 → box1", "box0 memory", "box1 memory", "box1 → g1_0", "box1 memory"}, names(m, up.Path))
	require.Equal(t, uint64(6000), up.Latency)
	require.Equal(t, uint64(10e9), m.Link(1, 4).Ring.Bandwidth, "between the boxes")
	require.Equal(t, uint64(20e9), m.Link(1, 2).Ring.Bandwidth)

	c := m.Carriage()
	require.NotEqual(t, c.Devices[1].Threads[virtual.Dispatcher], c.Devices[4].Threads[virtual.Dispatcher])
	require.Equal(t, "box1 dispatcher", m.EngineList()[c.Devices[4].Threads[virtual.Dispatcher]].Name)
}

func TestFaultsOfHosts(t *testing.T) {
	for text, want := range map[string]string{
		"hosts: [{name: a}, {name: b}]\ndevices: [{name: g, host: c}]\nlinks: [{between: [a, g], bandwidth: 1 GB/s}]":                              `m.yaml:2: device "g": host "c": there is none of this name above; there are a, b`,
		"hosts: [{name: a}, {name: b}]\ndevices: [{name: g, host: a}]\nlinks: [{between: [a, g], bandwidth: 1 GB/s}]":                              `host "b": no link or switch leads there from host "a"`,
		"hosts: [{name: a}, {name: b}]\ndevices: [{name: g}]\nlinks: [{between: [a, g], bandwidth: 1 GB/s}, {between: [a, b], bandwidth: 1 GB/s}]": `device "g": no link or switch leads there from the host`,
		"hosts: [{name: a}]\ndevices: [{name: g}]\nlinks: [{between: [host, g], bandwidth: 1 GB/s}]":                                               `no device, group or switch is named "host"`,
		"hosts: [{name: a, count: any}]\ndevices: [{name: g}]\nlinks: [{between: [a, g], bandwidth: 1 GB/s}]":                                      `host "a": count "any": want a whole number`,
		"hosts: [{name: a, count: 5000}]\ndevices: [{name: g}]\nlinks: [{between: [a0, g], bandwidth: 1 GB/s}]":                                    `host "a": count "5000": want from 1 to 4096`,
	} {
		_, err := machine.Parse("m.yaml", []byte(text), machine.Options{})
		require.ErrorContains(t, err, want, text)
	}
}
