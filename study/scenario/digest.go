package scenario

import (
	"cmp"
	"slices"
)

// Digest is a Result in totals, whose size does not follow the number of commands: what
// a summary shows, what a sweep keeps of each of its points, and what is compared.
// Lists are sorted, most bytes first.
type Digest struct {
	OK    bool   `json:"ok"`    // finished, verified, and as expected
	Error string `json:"error"` // why the run was not finished, "" where it was

	Interrupted *interruption `json:"interrupted,omitempty"` // where the run was

	Commands  int `json:"commands" show:"commands|count"`
	Copies    int `json:"copies" show:"copies|count"` // write-backs among them
	Evictions int `json:"evictions" show:"evictions|count"`

	BytesMoved         uint64 `json:"bytes_moved" show:"moved|bytes"`
	BytesLowerBound    uint64 `json:"bytes_lower_bound" show:"lower bound|bytes"`
	BytesCompulsory    uint64 `json:"bytes_compulsory"`
	BytesCapacity      uint64 `json:"bytes_capacity" show:"since memory was short|bytes"`
	BytesCapacityBound uint64 `json:"bytes_capacity_bound"`
	BytesWrittenBack   uint64 `json:"bytes_written_back" show:"written back|bytes"` // to make room
	BytesRideAlong     uint64 `json:"bytes_ride_along"`
	BytesHost          uint64 `json:"bytes_host"`                   // between the host's memory and devices' by reads and writes; not in bytes_moved
	BytesHostBound     uint64 `json:"bytes_host_bound"`             // of that, what had to cross, whoever serves them
	BytesPeak          uint64 `json:"bytes_peak" show:"peak|bytes"` // on the device that held most at once

	// Of the graphs together: a period of steady rounds, and how long a round takes by the run's clock.
	BytesSteady      uint64 `json:"bytes_steady,omitempty" show:"steady rounds moved|bytes"`
	BytesSteadyBound uint64 `json:"bytes_steady_bound,omitempty" show:"  lower bound|bytes"`
	Steady           uint64 `json:"steady_ns,omitempty" show:"a steady round|span"`

	// Of a run in virtual time; reasons of one on real devices, too.
	Machine  string          `json:"machine,omitempty"`
	Makespan uint64          `json:"makespan_ns,omitempty" show:"makespan, on the machine|span"`
	Reasons  *Reasons        `json:"critical_path_by_reason,omitempty" show:"  "`
	Failures []failureResult `json:"failures,omitempty"` // of devices at a time

	Kinds   []kindTotal   `json:"kinds"`
	Links   []LinkTotal   `json:"links"`
	Buffers []bufferTotal `json:"buffers"` // those that moved
	Peaks   []DevicePeak  `json:"peaks"`   // in the order of the devices
}

// kindTotal is all commands of one kind; launches by kernel.
type kindTotal struct {
	Kind     string `json:"kind"`
	Commands int    `json:"commands"`
	copyTotal
}

// LinkTotal is all copies from one memory to another in one way.
type LinkTotal struct {
	From string `json:"from"`
	To   string `json:"to"`
	Way  string `json:"way"`
	copyTotal
}

// bufferTotal is all copies of one buffer's bytes.
type bufferTotal struct {
	Buffer string `json:"buffer"`
	copyTotal
}

// copyTotal counts copies.
type copyTotal struct {
	Copies int    `json:"copies"`
	Bytes  uint64 `json:"bytes"` // that arrived, without those that rode along
}

// DevicePeak is the most that a device held at once.
type DevicePeak struct {
	Device string `json:"device"`
	Bytes  uint64 `json:"bytes"`
}

func (t *copyTotal) add(bytes uint64) {
	t.Copies++
	t.Bytes += bytes
}

// Digest adds a run up.
func (r *Result) Digest() *Digest {
	d := &Digest{
		OK: r.OK(), Error: r.Error, Interrupted: r.Interrupted, Commands: len(r.Commands), Copies: len(r.Copies), Evictions: len(r.Evictions),
		BytesMoved: r.BytesMoved, BytesLowerBound: r.BytesLowerBound, BytesCompulsory: r.BytesCompulsory, BytesCapacity: r.BytesCapacity,
		BytesCapacityBound: r.BytesCapacityBound, BytesRideAlong: r.BytesRideAlong, BytesHost: r.BytesHost, BytesHostBound: r.BytesHostBound, Failures: r.Failures, Peaks: []DevicePeak{},
	}
	d.Reasons = r.Reasons()
	if r.Model != nil {
		d.Machine, d.Makespan = r.Model.Machine, r.Model.Makespan
	}
	for _, g := range r.Graphs {
		d.BytesSteady, d.BytesSteadyBound, d.Steady = d.BytesSteady+g.BytesSteady, d.BytesSteadyBound+g.BytesBound, d.Steady+g.Steady
	}
	for i := range r.Evictions {
		d.BytesWrittenBack += r.Evictions[i].WrittenBack
	}
	for i := range r.Devices {
		d.Peaks = append(d.Peaks, DevicePeak{r.Devices[i].Name, r.Devices[i].PeakUse})
		d.BytesPeak = max(d.BytesPeak, r.Devices[i].PeakUse)
	}
	kinds, links, buffers := make(map[string]*kindTotal), make(map[[3]string]*LinkTotal), make(map[string]*bufferTotal)
	for i := range r.Commands {
		verb := r.s.Commands[i].verb()
		entry(kinds, verb, kindTotal{Kind: verb}).Commands++
	}
	for i := range r.Copies {
		c := &r.Copies[i]
		moved := c.Bytes - c.RideAlong
		entry(links, [3]string{c.From, c.To, c.Way}, LinkTotal{From: c.From, To: c.To, Way: c.Way}).add(moved)
		entry(buffers, c.Buffer, bufferTotal{Buffer: c.Buffer}).add(moved)
		kinds[r.s.Commands[c.Command-1].verb()].add(moved)
	}
	d.Kinds, d.Links, d.Buffers = entries(kinds), entries(links), entries(buffers)
	slices.SortFunc(d.Kinds, func(a, b kindTotal) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Commands, a.Commands), cmp.Compare(a.Kind, b.Kind))
	})
	slices.SortFunc(d.Links, func(a, b LinkTotal) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Way, b.Way))
	})
	slices.SortFunc(d.Buffers, func(a, b bufferTotal) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Buffer, b.Buffer))
	})
	return d
}

// entry is what a map has under a key: as it begins, where nothing is there yet.
func entry[K comparable, T any](of map[K]*T, key K, begin T) *T {
	if of[key] == nil {
		of[key] = &begin
	}
	return of[key]
}

// entries are all of a map's, in no order.
func entries[K comparable, T any](of map[K]*T) []T {
	out := []T{}
	for _, x := range of {
		out = append(out, *x)
	}
	return out
}

// Effects is what command i, from 0, needed: its evictions, its copies, why it failed,
// as reports write them.
func (r *Result) Effects(i int) (out []string) {
	c := &r.Commands[i]
	for _, n := range c.Evictions {
		e := &r.Evictions[n]
		out = append(out, evictionText(e)+", "+evictionWay(e))
	}
	for _, n := range c.Copies {
		cp := &r.Copies[n]
		out = append(out, copyText(cp)+", "+cp.From+" → "+cp.To+", "+wayText(cp))
	}
	if c.Failed != "" {
		out = append(out, "failed: "+c.Failed)
	}
	return out
}
