package migration

import "godwit/mem"

// Hazard is a row of Planner.Hazards.
type Hazard = hazardRow

// Choices that tests name.
const (
	ByWay    = byWay
	ByTime   = byTime
	ByLoad   = byLoad
	ByNumber = byNumber
	ByRelay  = byRelay
)

// Retire forgets every point of every buffer that has been reached, which commits do little
// by little: so tests see that nothing of them is left.
func (p *Planner) Retire() {
	for _, b := range p.buffers {
		for i := range b.stores {
			s := &b.stores[i]
			s.hazards.Update(mem.Range{End: s.hazards.Size()}, s.retired)
		}
	}
}
