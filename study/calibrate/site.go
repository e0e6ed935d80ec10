package calibrate

import (
	"fmt"
	"reflect"
	"slices"
	"sort"

	"godwit/devices"
	"godwit/internal/mover"
	"godwit/mem"
)

// MaxDevices is how many devices are measured at most: the machine's file joins each pair of those alike.
const MaxDevices = 512

// site is what there is to measure: devices, those alike together, and which of them reach
// each other.
type site struct {
	host   devices.Info
	groups []group
	pairs  []pair
	staged staging
	await  map[string]bool // by group: its writes of pageable memory wait until the host has seen what is before them end; without one it is not known
}

// staging is from how many bytes on copies from and to pageable memory go by lanes of the host, and how many there are.
type staging struct {
	From  uint64 `json:"from"` // 0 is never
	Lanes int    `json:"lanes"`
}

// group are devices that are alike and follow each other.
type group struct {
	Name   string       `json:"name"`
	Info   devices.Info `json:"info"`
	Driver string       `json:"driver"`
	Devs   []int        `json:"devices"` // in the context's order
}

// pair are two groups, or one, between whose devices bytes move; measured are From and
// To, and links of others of these groups are taken to be alike.
type pair struct {
	A      int  `json:"a"` // groups
	B      int  `json:"b"`
	From   int  `json:"from"` // devices
	To     int  `json:"to"`
	Direct bool `json:"direct"`
}

// look finds out what there is.
func look(b *bench) *site {
	s := &site{host: b.host.Info()}
	names := make(map[string]int)
	for i, d := range b.devs {
		info := d.Info()
		if n := len(s.groups); n > 0 && alike(s.groups[n-1].Info, info) {
			s.groups[n-1].Devs = append(s.groups[n-1].Devs, i)
			continue
		}
		name := string(info.Type)
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, names[name])
		}
		s.groups = append(s.groups, group{name, info, info.Driver, []int{i}})
	}
	s.staged = staging{stagedFrom(b.rt.Topology().Link(mem.Host, mem.MemoryID(s.groups[0].Devs[0]+1))), mover.DefaultLanes()}
	for i := range s.groups {
		for j := i; j < len(s.groups); j++ {
			x, y := s.groups[i].Devs, s.groups[j].Devs
			p := pair{A: i, B: j, From: x[0], To: y[0]}
			if i == j {
				if len(x) == 1 {
					continue
				}
				p.To = x[1]
			}
			l := b.rt.Topology().Link(mem.MemoryID(p.From+1), mem.MemoryID(p.To+1))
			p.Direct = l.Direct.There || l.Linked.There || l.Windows.There
			s.pairs = append(s.pairs, p)
		}
	}
	return s
}

// stages is from how many bytes on the runtime has lanes copy pageable memory, and how many. Readings that do not say are taken
// to be as those of a computer with at least 16 processors.
func (s *site) stages() (from uint64, lanes int) {
	if s.staged.Lanes == 0 && s.assumes() {
		return 2<<20 + 1, 8
	}
	return s.staged.From, s.staged.Lanes
}

// assumes reports whether devices are behind a bus, and readings are of a version that did not measure how pageable memory goes.
func (s *site) assumes() bool {
	return s.staged.Lanes == 0 && slices.ContainsFunc(s.groups, func(g group) bool { return g.Driver == "opencl" && !g.Info.SharesHost })
}

// awaits reports whether writes of pageable memory to a group's devices wait for the host.
func (s *site) awaits(group int) bool {
	await, known := s.await[s.groups[group].Name]
	return await || !known && s.assumes()
}

// stagedFrom is from how many bytes on copies of pageable memory to a device are staged; 0 is never.
func stagedFrom(l mem.Link) uint64 {
	const most = 64 << 20
	if n := sort.Search(most, func(n int) bool { way, _ := l.Choose(uint64(n), mem.Plain); return way == mem.Ring }); n < most {
		return uint64(n)
	}
	return 0
}

// alike reports whether two devices differ in nothing but their names' ends.
func alike(a, b devices.Info) bool {
	a.Name, b.Name = stem(a.Name), stem(b.Name)
	a.Spaces, b.Spaces = nil, nil
	return reflect.DeepEqual(a, b)
}

// stem is a name without a number at its end, which machines and drivers give devices that are alike.
func stem(name string) string {
	for len(name) > 1 && name[len(name)-1] >= '0' && name[len(name)-1] <= '9' {
		name = name[:len(name)-1]
	}
	return name
}

// name is how the file calls what lies between two groups.
func (s *site) name(p *pair) string { return s.groups[p.A].Name + "-" + s.groups[p.B].Name }
