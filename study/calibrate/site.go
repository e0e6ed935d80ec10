package calibrate

import (
	"fmt"
	"reflect"

	"godwit/devices"
	"godwit/mem"
)

// site is what there is to measure: devices, those alike together, and which of them reach
// each other.
type site struct {
	host   devices.Info
	groups []group
	pairs  []pair
}

// group are devices that are alike and follow each other.
type group struct {
	name string
	info devices.Info
	devs []int // in the context's order
}

// pair are two groups, or one, between whose devices bytes move; measured are from and
// to, and links of others of these groups are taken to be alike.
type pair struct {
	a, b     int // groups
	from, to int // devices
	direct   bool
}

// look finds out what there is.
func look(b *bench) *site {
	s := &site{host: b.host.Info()}
	names := make(map[string]int)
	for i, d := range b.devs {
		info := d.Info()
		if n := len(s.groups); n > 0 && alike(s.groups[n-1].info, info) {
			s.groups[n-1].devs = append(s.groups[n-1].devs, i)
			continue
		}
		name := string(info.Type)
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s_%d", name, names[name])
		}
		s.groups = append(s.groups, group{name, info, []int{i}})
	}
	for i := range s.groups {
		for j := i; j < len(s.groups); j++ {
			x, y := s.groups[i].devs, s.groups[j].devs
			p := pair{a: i, b: j, from: x[0], to: y[0]}
			if i == j {
				if len(x) == 1 {
					continue
				}
				p.to = x[1]
			}
			l := b.rt.Topology().Link(mem.MemoryID(p.from+1), mem.MemoryID(p.to+1))
			p.direct = l.Direct.There || l.Linked.There || l.Windows.There
			s.pairs = append(s.pairs, p)
		}
	}
	return s
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
func (s *site) name(p *pair) string { return s.groups[p.a].name + "-" + s.groups[p.b].name }
