package machine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/network"
	"godwit/mem"
)

// What commands cost, as package devices/virtual asks.

// Bandwidths implements virtual.Machine.
func (m *Machine) Bandwidths() []uint64 {
	out := make([]uint64, len(m.channels))
	for i, c := range m.channels {
		out[i] = c.Bandwidth
	}
	return out
}

// Engines implements virtual.Machine: the slots of each.
func (m *Machine) Engines() []int {
	out := make([]int, len(m.engines))
	for i, e := range m.engines {
		out[i] = e.Slots
	}
	return out
}

// Memories implements virtual.Machine.
func (m *Machine) Memories() int { return len(m.memory) }

// Info implements virtual.Machine.
func (m *Machine) Info(memory int) devices.Info {
	info := devices.Info{Driver: "model", Platform: m.Name, Vendor: "Godwit", BaseAlign: 128, FP16: true, FP64: true}
	if memory == 0 {
		info.Name, info.Type, info.GlobalMemory, info.SharesHost = "host", devices.CPU, m.hostMemory(), true
		return info
	}
	d := &m.Devices[memory-1]
	info.Name, info.Type, info.ComputeUnits = d.Name, d.Type, d.ComputeUnits
	info.GlobalMemory, info.LocalMemory = d.Memory, d.Local
	return info
}

// hostMemory is that of all hosts; 0 is without limit.
func (m *Machine) hostMemory() (sum uint64) {
	for i := range m.boxes {
		if m.boxes[i].Memory == 0 {
			return 0
		}
		sum += m.boxes[i].Memory
	}
	return sum
}

// RingUp implements virtual.Machine. Between two hosts the bytes are read in the first's memory, and written in the second's.
func (m *Machine) RingUp(from, to int, size uint64) virtual.Work {
	w := m.Copy(0, to, size)
	if a, b := m.HostOf(from), m.HostOf(to); a != b {
		r := m.between(a, b)
		w.Path, w.Latency, w.Bytes = slices.Concat(r.path, w.Path), w.Latency+r.latency, size
	}
	return flowing(w)
}

// Copy implements virtual.Machine: one copy of one engine. It is done by the destination,
// or out of a device by the device.
func (m *Machine) Copy(from, to int, size uint64) virtual.Work {
	r := m.route(from, to)
	w := virtual.Work{Engine: -1, Bytes: size, Path: r.path, Latency: r.latency}
	var d *Device
	switch {
	case to > 0:
		d = &m.Devices[to-1]
		w.Engine = d.in
	case from > 0:
		d = &m.Devices[from-1]
		w.Engine = d.out
	default:
		if most := m.boxes[0].Copy; most > 0 {
			w.Least = scale(size, 1e9, most)
		}
		return flowing(w)
	}
	class := virtual.ClassOf(from, to)
	if w.Setup, w.Row, w.Grain = said(d.Classes.list()[class].Setup, d.Copy), d.Row, d.RowBytes; from == 0 || to == 0 {
		table := d.PageableUp
		if class == virtual.Down {
			table = d.PageableDown
		}
		w.Pageable, w.Programs, w.OwnTimes = m.boxes[d.host].Pageable, lookup(table, size), len(table) > 0
		w.Lanes = -1
		if s := &m.boxes[d.host].Staged; s.Lanes > 0 && size >= s.From {
			w.Lanes, w.Slots = m.lanes[d.host], int(min(max(size/max(s.Each, 1), 1), uint64(s.Lanes)))
		} else {
			w.Awaits = slices.Contains(d.Awaits, classNames[class])
		}
	}
	if slices.Contains(d.ByKernels, classNames[class]) {
		w.Engine = d.kernels
	}
	return flowing(m.onCores(w, d, 1, r.bandwidth))
}

// coreSecond is how much of a channel of cores one takes in a second.
const coreSecond = 1e9

// onCores is w where d's work is done by cores of the host, of which it takes so many; alone its bytes go at a bandwidth.
func (m *Machine) onCores(w virtual.Work, d *Device, width, bandwidth uint64) virtual.Work {
	if d.Cores > 0 {
		w.Cores, w.Width = m.cores[d.host], min(width, d.Cores)
		w.Least = max(w.Least, scale(w.Bytes, 1e9, max(bandwidth, 1)))
	}
	return w
}

// ByWindow implements virtual.Machine: the receiver's file says how.
func (m *Machine) ByWindow(from, to int, block, size uint64) (virtual.Work, bool) {
	if from == 0 || to == 0 || from == to {
		return virtual.Work{}, false
	}
	win := &m.Devices[to-1].Windows
	r := m.route(from, to)
	if win.From == 0 || block < win.From || !r.there {
		return virtual.Work{}, false
	}
	w := m.Copy(from, to, size)
	w.Path, w.Limit, w.Latency = r.windows, win.Bandwidth, w.Latency+win.Latency
	out, in := m.route(from, 0), m.route(0, to)
	host := w
	between := m.between(m.HostOf(from), m.HostOf(to))
	host.Path, host.Limit, host.Latency = r.hosted, 0, out.latency+between.latency+in.latency
	host.Setup += m.Copy(from, 0, 0).Setup
	if alone(&host, min(out.bandwidth, between.bandwidth, in.bandwidth)) < alone(&w, min(win.Bandwidth, r.bandwidth)) {
		w = host
	}
	return flowing(w), true
}

// alone is how long a copy takes with so much bandwidth to itself, in nanoseconds.
func alone(w *virtual.Work, bandwidth uint64) uint64 {
	return w.Setup + w.Latency + scale(w.Bytes, 1e9, bandwidth)
}

// flowing is w, or one without bytes where nothing says how fast they go.
func flowing(w virtual.Work) virtual.Work {
	if len(w.Path) == 0 {
		w.Bytes = 0
	}
	return w
}

// Fill implements virtual.Machine.
func (m *Machine) Fill(memory int, size uint64) virtual.Work {
	w := virtual.Work{Engine: -1, Bytes: size, Path: m.own(memory)}
	if memory > 0 {
		d := &m.Devices[memory-1]
		w.Engine, w.Setup = d.kernels, said(d.Classes.Fill.Setup, d.Launch)
		w = m.onCores(w, d, 1, d.bandwidth())
	}
	return flowing(w)
}

// own is the path of what only one memory is concerned with.
func (m *Machine) own(memory int) []network.Channel {
	if r := m.route(memory, memory); len(r.path) > 0 {
		return r.path[:1]
	}
	return nil
}

// Launch implements virtual.Machine. What the scenario says comes first, then a kernel's
// time or table in the file; else it is the roofline: the bytes of its buffers, or those that
// the scenario says, at the memory's bandwidth, and its operations at the device's rate, whichever
// takes longer (Williams, Waterman and Patterson, 2009).
func (m *Machine) Launch(memory int, k *virtual.Kernel) virtual.Work {
	d := &m.Devices[memory-1]
	w := virtual.Work{Engine: d.kernels, Setup: said(d.Classes.Launch.Setup, d.Launch)}
	known := d.kernel(k.Name)
	switch {
	case k.Takes > 0:
		w.Setup, w.Least = 0, k.Takes
	case k.Roofline:
		w.Bytes, w.Path, w.Least = k.Bytes, m.own(memory), operations(known, k.Items, d.Rate)
		if k.Operations > 0 {
			w.Least = duration(k.Operations, 1e9, d.Rate)
		}
	case known != nil && known.Time > 0:
		w.Setup, w.Least = 0, known.Time
	case known != nil && len(known.Table)+len(known.Tables) > 0:
		w.Setup, w.Least = 0, known.took(k.Items, k.Largest)
	default:
		w.Bytes, w.Path = k.Bytes, m.own(memory)
		w.Least = operations(known, k.Items, d.Rate)
	}
	return flowing(m.onCores(w, d, uint64(d.ComputeUnits), d.bandwidth()))
}

// bandwidth is that of the device's memory.
func (d *Device) bandwidth() uint64 { return cmp.Or(d.Bandwidth, math.MaxUint64) }

// kernel is what is known of one, or nil.
func (d *Device) kernel(name string) *kernel {
	for i := range d.Kernels {
		if d.Kernels[i].Name == name {
			return &d.Kernels[i]
		}
	}
	return nil
}

// operations is how long the operations of so many work-items take, in nanoseconds: one
// for each where nothing else is known.
func operations(k *kernel, items, rate uint64) uint64 {
	if rate == 0 {
		return 0
	}
	ops, halves := uint64(1000), uint8(2)
	if k != nil {
		ops, halves = k.Ops, k.Halves
	}
	root := uint64(math.Sqrt(float64(items)))
	n := [...]uint64{1, root, items, product(items, root), product(items, items)}[halves]
	return duration(product(n, ops), 1e6, rate) // thousandths of operations x nanoseconds
}

// duration is operations * unit / rate, rounded up, at most MaxInt64; without a rate they take nothing.
func duration(operations, unit, rate uint64) uint64 {
	hi, lo := bits.Mul64(operations, unit)
	if rate == 0 {
		return 0
	}
	if hi >= rate {
		return math.MaxInt64
	}
	t, rest := bits.Div64(hi, lo, rate)
	if rest > 0 {
		t++
	}
	return min(t, math.MaxInt64)
}

// product is a * b, or the largest number.
func product(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return math.MaxUint64
	}
	return lo
}

// took is the time of a launch: between two tables of so many work-items in proportion to what each does, 1/items;
// below the first the first's, beyond the last the last's.
func (k *kernel) took(items, size uint64) uint64 {
	t := k.Tables
	i := sort.Search(len(t), func(i int) bool { return t[i].Items >= items })
	switch {
	case len(t) == 0:
		return lookup(k.Table, size)
	case i == 0:
		return lookup(t[0].Table, size)
	case i == len(t):
		return lookup(t[i-1].Table, size)
	}
	few, many := lookup(t[i-1].Table, size), lookup(t[i].Table, size)
	part := scale(max(few, many)-min(few, many), product(t[i].Items, items-t[i-1].Items), product(items, t[i].Items-t[i-1].Items))
	if many < few {
		return few - part
	}
	return few + part
}

// lookup is the time for so many bytes: between two lines of a table in proportion,
// below the first the first's, beyond the last in proportion to it. Without lines it is 0.
func lookup(t []tablePoint, size uint64) uint64 {
	i := sort.Search(len(t), func(i int) bool { return t[i].Bytes >= size })
	switch {
	case len(t) == 0:
		return 0
	case i == 0:
		return t[0].Time
	case i == len(t):
		last := t[i-1]
		return scale(last.Time, size, last.Bytes)
	case t[i].Time < t[i-1].Time:
		return t[i-1].Time - scale(t[i-1].Time-t[i].Time, size-t[i-1].Bytes, t[i].Bytes-t[i-1].Bytes)
	}
	return t[i-1].Time + scale(t[i].Time-t[i-1].Time, size-t[i-1].Bytes, t[i].Bytes-t[i-1].Bytes)
}

// scale is a * b / c, at most MaxInt64.
func scale(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, math.MaxInt64)
}

// Wake implements virtual.Machine.
func (m *Machine) Wake(host int) uint64 { return said(m.boxes[host].Wake, m.boxes[host].Poll) }

// said is what the file says, or what counts where it says nothing.
func said(v *uint64, otherwise uint64) uint64 {
	if v == nil {
		return otherwise
	}
	return *v
}

// First implements virtual.Machine.
func (m *Machine) First(host int, size uint64) uint64 {
	f := &m.boxes[host].First
	return f.Each + scale(size, 1e9, cmp.Or(f.Bandwidth, math.MaxUint64))
}

// HostCall implements virtual.Machine.
func (m *Machine) HostCall(host int) uint64 { return m.boxes[host].Call }

// Call implements virtual.Machine.
func (m *Machine) Call(host int, c devices.Call) uint64 {
	b := &m.boxes[host]
	switch c {
	case devices.Enqueue:
		return b.Enqueue
	case devices.Poll:
		return b.Poll
	}
	return b.Other
}

// Link implements virtual.Machine: what the planner knows of the ways between two memories.
// Two devices have a ring also where they have a link: a context may leave that unused.
func (m *Machine) Link(from, to int) (l mem.Link) {
	if r := m.route(from, to); r.there {
		l.Direct = cost(m.Copy(from, to, 0).Setup+r.latency, r.bandwidth)
	}
	if from != 0 && to != 0 {
		out, in := m.route(from, 0), m.route(0, to)
		setup := m.Copy(from, 0, 0).Setup + m.Copy(0, to, 0).Setup
		between := m.between(m.HostOf(from), m.HostOf(to))
		l.Ring = cost(setup+out.latency+between.latency+in.latency, min(out.bandwidth, between.bandwidth, in.bandwidth))
	}
	return l
}

func cost(latency, bandwidth uint64) mem.Path {
	if bandwidth == math.MaxUint64 {
		bandwidth = 0
	}
	return mem.Path{There: true, Latency: time.Duration(min(latency, math.MaxInt64)), Bandwidth: bandwidth}
}

const (
	leastChunk = 64 << 10
	mostChunk  = 32 << 20
)

// Chunk implements virtual.Machine: the file's, or the one with which n bytes take least,
// sqrt(n g b), where g is what each chunk costs beside its bytes and b the bandwidth.
func (m *Machine) Chunk(from, to int, size uint64) uint64 {
	if m.Rings.Chunk != 0 {
		return m.Rings.Chunk
	}
	g := max(m.Copy(from, 0, 0).Setup, m.Copy(0, to, 0).Setup)
	b := min(m.route(from, 0).bandwidth, m.route(0, to).bandwidth)
	n := math.Sqrt(float64(size) * float64(g) / 1e9 * float64(b))
	return uint64(min(max(n, leastChunk), mostChunk))
}

// Staging implements virtual.Machine.
func (m *Machine) Staging() uint64 { return m.Rings.Staging }

// Exact reports whether the file asks for every chunk of a ring on its own
// (virtual.Options.Exact).
func (m *Machine) Exact() bool { return m.Rings.Exact }
