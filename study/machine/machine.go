// Package machine describes machines that are modelled: their devices, what copies and
// kernels cost there, and the links between memories with what these share. A machine
// is a YAML file (Load; docs/machines.md) or one of those built in (Named). It
// implements virtual.Machine, which turns commands into work: engines that are held,
// bytes that flow over channels (package network), and times.
//
// What a file says is what somebody measured or read in a data sheet; nothing here is
// measured on the computer that the model runs on.
//
// Memory 0 is the host's, memory i device i-1's. A path from memory to memory leads
// over links and switches, never through a third memory: what has to is a ring
// through the host's, and two paths. Of several paths the one with the least latency
// is taken, of these the shortest, of these one that a hash of both ends draws.
//
// A Machine does not change. All methods are safe for use from many goroutines.
package machine

import (
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/expr"
	"godwit/internal/network"
	"godwit/internal/pairs"
)

// Machine is a machine as its file describes it, with all names resolved. What the file
// says is in exported fields, all of it: two machines of which these are equal are the
// same, and package sweep knows a machine by them.
type Machine struct {
	Name, About string
	Source      string       // the file
	Params      []expr.Param // that it was given, which show in all that follows
	Host        Host         // the figures of hosts that say no others
	Hosts       []boxed      // where there are several, or one that is named
	Devices     []Device
	Switches    []switchNode
	Links       []Link
	Rings       rings
	Seed        uint64 // draws among paths that are as good
	Stamps      bool   // devices keep no bytes, but who wrote them (virtual.Options.Stamps)

	// What build makes of the above.
	channels []channel
	boxes    []boxed             // Hosts, or the one that there is
	hostMem  []network.Channel   // by host
	cores    [][]network.Channel // by host: the cores that its devices share
	lanes    []int32             // by host: the engine of those that copy pageable memory; -1 is none
	engines  []engine
	carriage *virtual.Carriage // nil where the file says nothing of carriers
	memory   []network.Channel // by memory; -1 where its bandwidth is no limit
	through  []network.Channel // by switch; likewise
	edges    [][]edge          // by node: memories, then switches
	into     [][]incoming      // by node: the edges that lead there
	routes   pairs.Table[atomic.Pointer[route]]
	across   pairs.Table[atomic.Pointer[route]] // from host to host

	grids   []*grid // tori among the switches
	treesMu sync.Mutex
	trees   map[gate]*tree // protected by treesMu
}

// Host is the processor that programs run on, and its memory.
type Host struct {
	Memory    uint64 `json:"memory_bytes" yaml:"memory" unit:"bytes"`                 // 0 is without limit
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" yaml:"bandwidth" unit:"bandwidth"` // of its memory; 0 is without limit
	Enqueue   uint64 `json:"enqueue_ns" yaml:"enqueue" unit:"time"`                   // of a host thread for each command that it enqueues
	Poll      uint64 `json:"poll_ns" yaml:"poll" unit:"time"`                         // for each question whether something has ended, and each wait
	Other     uint64 `json:"other_ns" yaml:"other" unit:"time"`                       // for each other call
	Call      uint64 `json:"host_call_ns" yaml:"call" unit:"time"`                    // for each host call and callback

	Copy     uint64  `json:"copy_bytes_per_s,omitempty" yaml:"copy" unit:"bandwidth"` // of one copy inside its memory; 0 is Bandwidth's half
	Threads  threads `json:"threads,omitzero" yaml:"threads"`
	Wake     *uint64 `json:"wake_ns,omitempty" yaml:"wake" unit:"time"`       // from an end until who waits for it goes on; absent it is Poll
	Crowded  uint64  `json:"crowded_ns,omitempty" yaml:"crowded" unit:"time"` // of a thread that enqueues for the library, for each command more while the context's own threads are at work
	First    first   `json:"first,omitzero" yaml:"first"`
	Pageable uint64  `json:"pageable_bytes_per_s,omitempty" yaml:"pageable" unit:"bandwidth"` // of a copy from or to pageable memory; 0 is without limit
	Staged   staged  `json:"staged,omitzero" yaml:"staged"`
}

// boxed is a host of several: a box of a cluster.
type boxed struct {
	Name string
	Host
}

// first is what the first use of a block costs who gets it.
type first struct {
	Each      uint64 `json:"each_ns,omitempty" yaml:"each" unit:"time"`
	Bandwidth uint64 `json:"bandwidth_bytes_per_s,omitempty" yaml:"bandwidth" unit:"bandwidth"` // 0 is without limit
}

// staged says which copies from and to pageable memory threads of the host do, its lanes, by way of page-locked memory. All devices
// share them: a copy takes one for each so many bytes, and waits until it has them.
type staged struct {
	From  uint64 `json:"from_bytes" yaml:"from" unit:"bytes" need:"true"` // of these on
	Lanes int    `json:"lanes" yaml:"lanes" from:"1" to:"1024" need:"true"`
	Each  uint64 `json:"each_bytes" yaml:"each" unit:"bytes" need:"true"`
}

// Device is a device.
type Device struct {
	Name         string       `json:"name" show:"device"`
	Type         devices.Type `json:"type" show:"type" yaml:"type" oneof:"gpu cpu accelerator custom"`
	Memory       uint64       `json:"memory_bytes" show:"memory|bytes|no limit" yaml:"memory" unit:"bytes"` // 0 is without limit
	Local        uint64       `json:"local_bytes" yaml:"local" unit:"bytes" to:"1 TiB"`                     // for a work-group
	ComputeUnits int          `json:"compute_units" yaml:"compute_units" from:"1" to:"1048576"`
	Bandwidth    uint64       `json:"bandwidth_bytes_per_s" show:"bandwidth|rate|no limit" yaml:"bandwidth" unit:"bandwidth"` // of its memory; 0 is without limit
	Rate         uint64       `json:"operations_per_s" show:"op/s|SI|no limit" yaml:"rate" unit:"rate"`                       // 0 is without limit
	Launch       uint64       `json:"launch_ns" show:"launch|span" yaml:"launch" unit:"time"`                                 // of a launch, beside its work-items
	Copy         uint64       `json:"copy_ns" show:"copy|span" yaml:"copy" unit:"time"`                                       // of an engine for each copy, beside its bytes
	AtOnce       int          `json:"kernels" show:"at once: kernels" yaml:"kernels_at_once" from:"1" to:"1024"`              // launches that run at the same time
	In           int          `json:"copies_in" show:"in"`                                                                    // copies into it at once
	Out          int          `json:"copies_out" show:"out||with in"`                                                         // copies out of it at once; 0 where those in do both
	Windows      windows      `json:"windows" yaml:"windows"`
	Kernels      []kernel     `json:"known_kernels,omitempty"`
	Classes      classes      `json:"classes,omitzero" yaml:"classes"`
	HandOver     handOvers    `json:"handover,omitzero" yaml:"handover"`
	Row          uint64       `json:"row_ns,omitempty" yaml:"rows" unit:"time"`          // of a copy of rows, for each beside its bytes
	RowBytes     uint64       `json:"row_bytes,omitempty" yaml:"row_bytes" unit:"bytes"` // of a copy of rows: each moves a multiple of so many; 0 is what it has
	ByKernels    []string     `json:"copies_wait_for_kernels,omitempty" yaml:"copies_wait_for_kernels"`
	Cores        uint64       `json:"cores,omitempty" yaml:"cores" from:"1" to:"1024"` // of the host, which its kernels and copies share with others'
	// Of copies up from memory of the program's own and down to it, by size, in place of what others cost.
	PageableUp   []tablePoint `json:"pageable_up,omitempty"`
	PageableDown []tablePoint `json:"pageable_down,omitempty"`
	Awaits       []string     `json:"pageable_awaits_host,omitempty" yaml:"pageable_awaits_host"` // classes of which such copies are given to the library once the host has seen all end that they wait for

	HostName string `json:"host,omitempty" yaml:"host"` // that it is of; "" is the first

	kernels, in, out int32 // engines
	host             int
}

// windows says how copies between devices go of blocks that links do not reach: by
// windows, which they do, from block to window, over the link, from window to block, chunk by
// chunk. Or by the host, where that takes less.
type windows struct {
	From      uint64 `json:"from_bytes" yaml:"from" unit:"bytes" need:"true"`                     // of a block from which on it is so; 0 is never
	Latency   uint64 `json:"latency_ns" yaml:"latency" unit:"time"`                               // more than over the link alone
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" yaml:"bandwidth" unit:"bandwidth" need:"true"` // at most
}

// kernel is what is known of the launches of one kernel.
type kernel struct {
	Name   string       `json:"name" yaml:"name" names:"true"`
	Time   uint64       `json:"time_ns" yaml:"time" unit:"time" from:"1 ns"`                    // of each launch; 0 is not said
	Ops    uint64       `json:"thousandths_of_operations" yaml:"operations" unit:"thousandths"` // for each work-item to the power of half of Halves
	Halves uint8        `json:"half_powers"`                                                    // of work-items, see Ops
	Table  []tablePoint `json:"table,omitempty"`
	Tables []itemsTable `json:"tables,omitempty"` // by work-items, which ascend
}

// itemsTable is a table of launches of so many work-items.
type itemsTable struct {
	Items uint64       `json:"work_items"`
	Table []tablePoint `json:"table"`
}

// tablePoint is a line of a kernel's table.
type tablePoint struct {
	Bytes uint64 `json:"bytes"` // of the largest buffer that the launch is given
	Time  uint64 `json:"time_ns"`
}

// switchNode is a node of the links that is no memory.
type switchNode struct {
	Name      string
	Bandwidth uint64 `yaml:"bandwidth" unit:"bandwidth"` // bytes a second through it in all; 0 is without limit
	Peers     bool   `yaml:"peers"`                      // devices reach each other through it
}

// Link joins two nodes.
type Link struct {
	From      string `json:"from" show:"from"`
	To        string `json:"to" show:"to"`
	Latency   uint64 `json:"latency_ns" show:"latency|span" yaml:"latency" unit:"time"`
	Bandwidth uint64 `json:"bandwidth_bytes_per_s" show:"one way|rate" yaml:"bandwidth" unit:"bandwidth" need:"true"` // each way
	Both      uint64 `json:"both_bytes_per_s" show:"both ways|rate" yaml:"both" unit:"bandwidth"`                     // both ways together; 0 is twice as much as one way
	OneWay    bool   `json:"one_way"`                                                                                 // only from From to To
}

// rings says how copies go that lead through the host's memory.
type rings struct {
	Chunk   uint64 `yaml:"chunk" unit:"bytes" from:"4 KiB" to:"1 TiB"`   // bytes of a chunk; 0 follows from the links
	Staging uint64 `yaml:"staging" unit:"bytes" from:"1 MiB" to:"1 TiB"` // bytes of page-locked memory that they may use; 0 is the mover's own bound
	Exact   bool   `yaml:"exact"`                                        // every chunk on its own (virtual.Options.Exact)
}

// channel is what copies share: a direction of a link, both of one, a switch, a memory.
type channel struct {
	Name      string
	Bandwidth uint64 // bytes a second
}

// engine runs commands of a device, Slots at a time.
type engine struct {
	Name   string // "gpu0 kernels", "gpu0 in", "gpu0 out", "gpu0 copies", "host pilot"
	Memory int    // of the device
	Slots  int
}

// edge is one direction of a link.
type edge struct {
	to       int
	latency  uint64
	channels [2]network.Channel // the direction's, and both directions' or -1
}

// incoming is an edge that leads to a node, and from where.
type incoming struct {
	node int
	edge *edge
}

// Channels are what copies share. A network.Channel is an index.
func (m *Machine) Channels() []channel { return m.channels }

// EngineList are the engines, by index.
func (m *Machine) EngineList() []engine { return m.engines }

// Rank is a thread of the program on a host.
type Rank struct {
	Host int
	Name string // of the host
}

// Ranks are all threads of the program, host by host, and by memory the one that a device's commands are enqueued by.
func (m *Machine) Ranks() (all []Rank, of []int) {
	first, devices := make([]int, len(m.boxes)), make([]int, len(m.boxes))
	for h := range m.boxes {
		first[h] = len(all)
		for range max(m.boxes[h].Threads.Program, 1) {
			all = append(all, Rank{h, m.boxes[h].Name})
		}
	}
	of = make([]int, len(m.memory))
	for i := range m.Devices {
		h := m.Devices[i].host
		of[i+1] = first[h] + devices[h]%max(m.boxes[h].Threads.Program, 1)
		devices[h]++
	}
	return all, of
}

// hostNode is the node of a host: 0 of the first; others come after the switches.
func (m *Machine) hostNode(h int) int {
	if h == 0 {
		return 0
	}
	return 1 + len(m.Devices) + len(m.Switches) + h - 1
}

// HostOf is the host, from 0, whose memory a memory is, or whose device has it.
func (m *Machine) HostOf(memory int) int {
	if memory == 0 {
		return 0
	}
	return m.Devices[memory-1].host
}

// build makes channels, engines and edges of what the file says.
func (m *Machine) build() {
	channel := func(name string, bandwidth uint64) network.Channel {
		if bandwidth == 0 {
			return -1
		}
		m.channels = append(m.channels, channel{name, bandwidth})
		return network.Channel(len(m.channels) - 1)
	}
	engine := func(name string, memory, slots int) int32 {
		m.engines = append(m.engines, engine{name, memory, slots})
		return int32(len(m.engines) - 1)
	}
	if m.boxes = m.Hosts; len(m.boxes) == 0 {
		m.boxes = []boxed{{"host", m.Host}}
	}
	nodes, numbers := make(map[string]int), make(map[string]int)
	for h := range m.boxes {
		nodes[m.boxes[h].Name], numbers[m.boxes[h].Name] = m.hostNode(h), h
	}
	for i := range m.Devices {
		m.Devices[i].host = numbers[m.Devices[i].HostName]
	}
	if m.carries() {
		m.carry(engine)
	}
	for h := range m.boxes {
		m.lanes = append(m.lanes, -1)
		if n := m.boxes[h].Staged.Lanes; n > 0 {
			m.lanes[h] = engine(m.boxes[h].Name+" lanes", 0, n)
		}
		m.hostMem = append(m.hostMem, channel(m.boxes[h].Name+" memory", m.boxes[h].Bandwidth))
	}
	m.memory = []network.Channel{m.hostMem[0]}
	m.cores = make([][]network.Channel, len(m.boxes))
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Cores > 0 && m.cores[d.host] == nil {
			m.cores[d.host] = []network.Channel{channel(m.boxes[d.host].Name+" cores", d.Cores*coreSecond)}
		}
	}
	for i := range m.Devices {
		d := &m.Devices[i]
		nodes[d.Name] = i + 1
		m.memory = append(m.memory, channel(d.Name+" memory", d.Bandwidth))
		d.kernels = engine(d.Name+" kernels", i+1, d.AtOnce)
		if d.Out == 0 {
			d.in = engine(d.Name+" copies", i+1, d.In)
			d.out = d.in
			continue
		}
		d.in = engine(d.Name+" in", i+1, d.In)
		d.out = engine(d.Name+" out", i+1, d.Out)
	}
	for i := range m.Switches {
		s := &m.Switches[i]
		nodes[s.Name] = len(m.memory) + i
		m.through = append(m.through, channel(s.Name, s.Bandwidth))
	}
	m.edges = make([][]edge, len(m.memory)+len(m.Switches)+len(m.boxes)-1)
	for _, l := range m.Links {
		a, b := nodes[l.From], nodes[l.To]
		forth := channel(l.From+" → "+l.To, l.Bandwidth)
		if l.OneWay {
			m.edges[a] = append(m.edges[a], edge{b, l.Latency, [2]network.Channel{forth, -1}})
			continue
		}
		back, both := channel(l.To+" → "+l.From, l.Bandwidth), channel(l.From+" ↔ "+l.To, l.Both)
		m.edges[a] = append(m.edges[a], edge{b, l.Latency, [2]network.Channel{forth, both}})
		m.edges[b] = append(m.edges[b], edge{a, l.Latency, [2]network.Channel{back, both}})
	}
	m.into = make([][]incoming, len(m.edges))
	for node := range m.edges {
		for i := range m.edges[node] {
			e := &m.edges[node][i]
			m.into[e.to] = append(m.into[e.to], incoming{node, e})
		}
	}
	for _, g := range m.grids {
		g.look(m)
	}
	m.routes = pairs.Make[atomic.Pointer[route]](len(m.memory))
	m.across = pairs.Make[atomic.Pointer[route]](len(m.boxes))
}
