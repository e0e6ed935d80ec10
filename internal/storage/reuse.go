package storage

import (
	"slices"

	"godwit/mem"
)

// Bytes in stream order: what was freed after points that have not been reached is
// given again together with them (mem.Reuse).
//
// The entry of the pending free stays as it is until its points are reached, since
// commands that have not started look their blocks up by its handle. Only what
// becomes of its bytes changes:
//
//   - handed: a request of the same size gets the place itself. That works for every
//     store, and what a driver keeps with a place, such as the buffers of a library,
//     goes on in use.
//   - yielded: a Yielder takes the bytes back early, to be placed anew in any size.
//     What overlaps them until the points are reached is busy.
//
// Free places come first, then those of the same size, then what is yielded, in the
// order in which frees are listed.

// Yielder is a Store whose bytes may be given again while commands still use them.
type Yielder interface {
	Store
	// Yield makes the bytes at a place free, for Take to give again, and reports
	// whether it has. What else belongs to the place is kept until Ended.
	Yield(p Place, size uint64) bool
	// Ended says that nothing uses a place any more that was yielded.
	Ended(p Place, size uint64)
	// Span says which bytes those of a place are: places of one space overlap where
	// their ranges do.
	Span(p Place, size uint64) (space uint64, r mem.Range)
}

// Grower is a Yielder that takes more of another resource where its places do not do, to carve
// them from that.
type Grower interface {
	Yielder
	// Grow gets room for the requests, of which busy is to list what is in use still, and
	// reports whether there is some more. With a reuse that may be in use.
	Grow(reqs []mem.Request, reuse *mem.Reuse, busy *BusyRanges) bool
	// Refused is why the last Grow got nothing.
	Refused() (mem.Outcome, error)
}

// again says whose a pending entry's bytes are.
type again uint8

const (
	no      again = iota // its own
	handed               // another entry's
	yielded              // the store's
)

// taking is the state of one AllocAll.
type taking struct {
	reqs   []mem.Request
	places []Place // of reqs
	picked []int   // by request: the waiting free whose place it gets, or -1
	rest   []mem.Request
	found  []Place // of rest
	at     []int   // which request each of rest is
	aside  []Place // taken, and not usable now
	gone   []Gone
}

func (t *taking) begin(reqs []mem.Request, align uint64) {
	t.reqs = append(t.reqs[:0], reqs...)
	for i := range t.reqs {
		t.reqs[i].Align = max(t.reqs[i].Align, align)
	}
	t.places = slices.Grow(t.places[:0], len(reqs))[:len(reqs)]
	t.picked = t.picked[:0]
	for range reqs {
		t.picked = append(t.picked, -1)
	}
}

// take finds a place for every request, or for none. mu is held.
func (m *Blocks) take(reuse *mem.Reuse) bool {
	if m.takeRest(reuse) || m.grow(nil) && m.takeRest(reuse) {
		return true
	}
	return reuse != nil && (m.takeUsed(reuse) || m.grow(reuse) && m.takeRest(reuse))
}

// grow has a Grower take more for the requests. mu is held.
func (m *Blocks) grow(reuse *mem.Reuse) bool {
	g, ok := m.store.(Grower)
	return ok && g.Grow(m.taking.reqs, reuse, &m.busy)
}

// takeUsed finds places for the requests among those of pending frees. mu is held.
func (m *Blocks) takeUsed(reuse *mem.Reuse) bool {
	if len(m.waiting) == 0 {
		return false
	}
	if m.pick(reuse) && m.takeRest(reuse) {
		m.handOver(reuse)
		return true
	}
	for i := range m.taking.picked {
		m.taking.picked[i] = -1
	}
	return m.yield(reuse)
}

// mayYield is the store, where it is a Yielder.
func (m *Blocks) mayYield() Yielder {
	y, _ := m.store.(Yielder)
	return y
}

// takeRest has the store find places for the requests that were not picked for.
// mu is held.
func (m *Blocks) takeRest(reuse *mem.Reuse) bool {
	t := &m.taking
	t.rest, t.at = t.rest[:0], t.at[:0]
	for i, r := range t.reqs {
		if t.picked[i] < 0 {
			t.rest, t.at = append(t.rest, r), append(t.at, i)
		}
	}
	if len(t.rest) == 0 {
		return true
	}
	t.found = slices.Grow(t.found[:0], len(t.rest))[:len(t.rest)]
	if m.busy.Empty() {
		if !m.store.Take(t.rest, t.found) {
			return false
		}
	} else if m.busy.Reap(); !m.takeUnused(reuse) {
		return false
	}
	for k, i := range t.at {
		t.places[i] = t.found[k]
		if !m.busy.Empty() {
			space, r := m.mayYield().Span(t.found[k], t.rest[k].Size)
			m.busy.Tell(reuse, i, space, r)
		}
	}
	return true
}

// asides is how many places are held aside in the search for others that are not in
// use, for requests that may not wait for those who use them.
const asides = 8

// takeUnused has the store find places that reuse takes, for all of the rest. mu is
// held.
func (m *Blocks) takeUnused(reuse *mem.Reuse) bool {
	t := &m.taking
	t.aside = t.aside[:0]
	ok := m.store.Take(t.rest, t.found)
	for ok && !m.usable(reuse) && len(t.aside) < asides*len(t.rest) {
		t.aside = append(t.aside, t.found...)
		ok = m.store.Take(t.rest, t.found)
	}
	if ok && !m.usable(reuse) {
		t.aside, ok = append(t.aside, t.found...), false
	}
	for i, p := range t.aside {
		m.store.Give(p, t.rest[i%len(t.rest)].Size)
	}
	return ok
}

// usable reports whether reuse takes what is busy of the places found. mu is held.
func (m *Blocks) usable(reuse *mem.Reuse) bool {
	t := &m.taking
	for k, p := range t.found {
		if space, r := m.mayYield().Span(p, t.rest[k].Size); !m.busy.Takes(reuse, space, r) {
			return false
		}
	}
	return true
}

// pick finds waiting frees of the sizes of requests, and reports whether there were
// any. mu is held.
func (m *Blocks) pick(reuse *mem.Reuse) (any bool) {
	t := &m.taking
	for i, r := range t.reqs {
		for k, d := range m.waiting {
			e := &m.entries[d.entry]
			if e.gen != d.gen || e.again != no || e.size != r.Size || e.user != nil || e.Addr&(r.Align-1) != 0 ||
				slices.Contains(t.picked[:i], k) || !reuse.Takes(d.points) {
				continue
			}
			t.picked[i], any = k, true
			break
		}
	}
	return any
}

// handOver gives the places that were picked to their requests. mu is held.
func (m *Blocks) handOver(reuse *mem.Reuse) {
	t := &m.taking
	for i, k := range t.picked {
		if k < 0 {
			continue
		}
		d := m.waiting[k]
		e := &m.entries[d.entry]
		t.places[i] = e.Place
		e.again = handed
		m.stats.Pending -= e.size
		reuse.Add(i, d.points)
	}
}

// yield has the store take pending places back, one after the other, until all
// requests find theirs. mu is held.
func (m *Blocks) yield(reuse *mem.Reuse) bool {
	store := m.mayYield()
	if store == nil {
		return false
	}
	for _, d := range m.waiting {
		e := &m.entries[d.entry]
		if e.gen != d.gen || e.again != no || e.user != nil || !reuse.Takes(d.points) {
			continue
		}
		space, r := store.Span(e.Place, e.size)
		if !store.Yield(e.Place, e.size) {
			continue
		}
		e.again = yielded
		m.stats.Pending -= e.size
		m.busy.Add(space, r, d.points)
		if m.takeRest(reuse) {
			return true
		}
	}
	return false
}

// Fits implements mem.Resource.
func (m *Blocks) Fits(reqs []mem.Request, gone []mem.Block, reuse *mem.Reuse) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != nil {
		return false
	}
	t := &m.taking
	t.begin(reqs, m.align)
	t.gone = m.freeable(t.gone[:0], gone, reuse)
	return m.store.Fits(t.reqs, t.gone)
}

// Freeable appends the places that would be free if gone were freed and reuse took every
// free that is pending.
func (m *Blocks) Freeable(dst []Gone, gone []mem.Block, reuse *mem.Reuse) []Gone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.freeable(dst, gone, reuse)
}

func (m *Blocks) freeable(dst []Gone, gone []mem.Block, reuse *mem.Reuse) []Gone {
	for _, b := range gone {
		if i, err := m.find(b); err == nil {
			e := &m.entries[i]
			dst = append(dst, Gone{e.Place, e.size})
		}
	}
	for _, d := range m.waiting {
		if e := &m.entries[d.entry]; e.gen == d.gen && e.again == no && e.user == nil && reuse.Takes(d.points) {
			dst = append(dst, Gone{e.Place, e.size})
		}
	}
	return dst
}
