package machine

// Distances in a torus. Each of its devices is a gate of its own, so trees would be as many as devices, of as many
// switches each: 16,384 take seconds for each thousand copies. How far its switches are from each other can be told by
// their places, as long as there are no other links between switches.

// grid is a torus among the switches.
type grid struct {
	first, switches int
	sides           []int
	wrap            bool
	latency         uint64 // of its links
	plain           bool   // its switches have links to their neighbours alone, and to what hangs there
}

// hops is how many links are between two places.
func (g *grid) hops(a, b int) (n int) {
	for _, side := range g.sides {
		d := a%side - b%side
		if d = max(d, -d); g.wrap {
			d = min(d, side-d)
		}
		n, a, b = n+d, a/side, b/side
	}
	return n
}

// look finds out whether a grid is plain.
func (g *grid) look(m *Machine) {
	for s := range g.switches {
		neighbours := 0
		for i := range m.edges[len(m.memory)+g.first+s] {
			e := &m.edges[len(m.memory)+g.first+s][i]
			to := e.to - len(m.memory)
			if to < 0 || to >= len(m.Switches) {
				continue
			}
			if neighbours++; to < g.first || to >= g.first+g.switches || g.hops(s, to-g.first) != 1 || e.latency != g.latency {
				return
			}
		}
		if neighbours != g.neighbours(s) {
			return
		}
	}
	g.plain = true
}

// neighbours is how many a place has.
func (g *grid) neighbours(at int) (n int) {
	for _, side := range g.sides {
		switch x := at % side; {
		case side == 1:
		case g.wrap && side > 2, x > 0 && x < side-1:
			n += 2
		default:
			n++
		}
		at /= side
	}
	return n
}

// place is one of a grid: distances from there.
type place struct {
	*grid
	s int
}

// at implements distances.
func (p *place) at(m *Machine, node int) reached {
	s := node - len(m.memory) - p.first
	if s < 0 || s >= p.switches {
		return reached{}
	}
	n := p.hops(p.s, s)
	return reached{latency: uint64(n) * p.latency, hops: int32(n), known: true}
}

// reach implements distances.
func (p *place) reach(m *Machine, to int) reached { return nearest(m, p, to) }
