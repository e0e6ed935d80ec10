package scenario

import (
	"maps"
	"slices"

	"godwit/mem"
	"godwit/runtime"
)

// What a scenario may not do though every command of it is right by itself: use
// bytes that the host has mapped, use what was freed, and wait for what only
// happens later. It is followed command by command, as they are read.

// use is what a command does to a range of a root.
type use struct {
	buffer int
	r      mem.Range
	mode   mem.Mode
	rect   *rectangle // where only rows of r are meant; nil is all of it
	second bool       // the rows are those of the rectangle's other end
}

// maxExactRows is how many rows of a rectangle are looked at one by one; of more,
// what lies between them counts too.
const maxExactRows = 4096

// meets returns the bytes, or some of them, that two uses share where one of them
// writes. Of o all of its range counts.
func (u use) meets(o use) mem.Range {
	if u.buffer != o.buffer || !(u.mode.Writes() || o.mode.Writes()) || !u.r.Overlaps(o.r) {
		return mem.Range{}
	}
	if u.rect == nil || u.rect.Region[1]*u.rect.Region[2] > maxExactRows {
		return u.r.Intersect(o.r)
	}
	var out mem.Range
	u.rect.rows(func(at, other uint64) {
		if u.second {
			at = other - u.rect.HostOffset
		}
		row := mem.Range{Start: u.r.Start + at, End: u.r.Start + at + u.rect.Region[0]}
		if out.Empty() && row.Overlaps(o.r) {
			out = row.Intersect(o.r)
		}
	})
	return out
}

// cost is how many steps meets takes.
func (u use) cost() int {
	if u.rect == nil {
		return 1
	}
	return int(min(u.rect.Region[1]*u.rect.Region[2], maxExactRows))
}

// uses lists what a command does to which bytes.
func (s *Scenario) uses(c *command) []use { return c.kind().uses(s, c) }

// useOfPlace is the use of a command's place, or of its rows there.
func (c *command) useOfPlace(mode mem.Mode) []use {
	return []use{{c.Place.Buffer, c.Place.Range, mode, c.Rect, false}}
}

// tracker is what is known of the commands read so far.
type tracker struct {
	gates   map[int][]int // by command: the user events, not set yet, that hold it back
	pending map[int][]use // what such commands do
	queue   map[int][]int // by queue: the gates of its commands
	barrier map[int][]int // by queue: those of its barriers
	failed  int           // line of the first set that fails its event; 0 is none
	fine    []fineUse     // uses of fine-grained memory that later ones may have to wait for
}

// fineUse is a use of fine-grained shared virtual memory, which no planner
// orders where the host is one of the parties.
type fineUse struct {
	use
	command int
	host    bool
}

// follow checks a command against those before it.
func (l *loader) follow(m *mapping, c *command) {
	uses := l.out.uses(c)
	if l.track.failed > 0 && (c.queued() || c.Now) {
		l.errorf(m.Node, "%s: below the failing event of line %d: whether it would be refused depends on the time; set the event after all commands", m.What, l.track.failed)
		return
	}
	if !l.checkFreed(m, c) || !l.checkMaps(m, c, uses) || !l.checkHost(m, c) {
		return
	}
	l.orderFine(c, uses)
	l.orderFree(c)
	l.gate(m, c, uses)
}

// checkFreed reports uses of shared virtual memory that is gone.
func (l *loader) checkFreed(m *mapping, c *command) bool {
	bad := func(p place) bool {
		if p.Name == "" || !l.isSVM(p) {
			return false
		}
		b := &l.out.Buffers[p.Buffer]
		if b.SVM.Freed < 0 || b.SVM.Freed >= len(l.out.Commands) {
			return false
		}
		l.errorf(m.Node, "%s: %s: %s", m.What, b.Name, l.freedText(b))
		return true
	}
	places := append([]place{c.Place, c.To}, c.Places...)
	for a := range c.buffers {
		places = append(places, a.Place)
	}
	return !slices.ContainsFunc(places, bad)
}

// checkMaps reports uses of what the host has mapped: nothing may write it, and
// where the host may write it nothing may read it.
func (l *loader) checkMaps(m *mapping, c *command, uses []use) bool {
	if c.Kind == opUnmap {
		return true
	}
	l.spend(len(l.maps))
	live := slices.Sorted(maps.Values(l.maps)) // each index + 1
	for _, i := range live {
		if i--; i < 0 || i == c.Mapping {
			continue
		}
		mp := &l.out.Mappings[i]
		mapped := use{buffer: mp.Place.Buffer, r: mp.Place.Range, mode: mp.mode()}
		for _, u := range uses {
			l.spend(u.cost())
			shared := u.meets(mapped)
			if shared.Empty() || l.out.Buffers[u.buffer].fine() {
				continue
			}
			how := "reading"
			if mp.writes {
				how = "writing"
			}
			if c.Kind == opMap && !l.onSVM(mp.Place) && !(u.mode.Writes() && mp.writes) {
				continue // OpenCL allows a map for reading beside one for writing
			}
			l.errorf(m.Node, "%s: %s of %s is mapped for %s, as %s in line %d: unmap it first", m.What, shared, l.out.Buffers[u.buffer].Name, how, mp.Name, mp.Line)
			return false
		}
	}
	return true
}

// checkHost reports uses by the host that a buffer's flags deny it.
func (l *loader) checkHost(m *mapping, c *command) bool {
	reads, writes := c.Kind == opRead, c.Kind == opWrite
	if c.Kind == opMap {
		mp := &l.out.Mappings[c.Mapping]
		reads, writes = mp.Flags&runtime.MapRead != 0, mp.writes
	}
	if !reads && !writes {
		return true
	}
	flags := l.out.access(c.Place) & hostAccessFlags
	what := ""
	switch {
	case reads && flags.HostReads() != nil:
		what = "read"
	case writes && flags.HostWrites() != nil:
		what = "write"
	default:
		return true
	}
	l.errorf(m.Node, "%s: %s is %s: the host does not %s it", m.What, l.placeName(c), flagText(uint64(flags), bufferFlags), what)
	return false
}

// placeName names a command's place; of a map, what it maps.
func (l *loader) placeName(c *command) string {
	if c.Place.View >= 0 {
		return l.out.Views[c.Place.View].Name
	}
	return l.out.Buffers[c.Place.Buffer].Name
}

// orderFine makes uses of fine-grained memory by the host, and others that meet
// them, keep the order of the file.
func (l *loader) orderFine(c *command, uses []use) {
	t := &l.track
	host := c.Kind == opHostRead || c.Kind == opHostWrite
	for _, u := range uses {
		if !l.out.Buffers[u.buffer].fine() {
			continue
		}
		l.spend(len(t.fine) * u.cost())
		t.fine = slices.DeleteFunc(t.fine, func(f fineUse) bool {
			if (host || f.host) && !u.meets(f.use).Empty() {
				c.Order = append(c.Order, f.command)
			}
			return u.mode.Writes() && host && u.buffer == f.buffer && u.r.Contains(f.r) // ordered by way of this
		})
		t.fine = append(t.fine, fineUse{u, len(l.out.Commands), host})
	}
}

// orderFree makes a free wait for what the host does with the block, which the
// runtime knows nothing of.
func (l *loader) orderFree(c *command) {
	if c.Kind != opFree {
		return
	}
	for _, p := range c.Places {
		l.spend(len(l.out.Mappings) + len(l.track.fine))
		for i := range l.out.Mappings {
			if mp := &l.out.Mappings[i]; mp.Place.Buffer == p.Buffer {
				c.Order = append(c.Order, mp.Unmap)
			}
		}
		for _, f := range l.track.fine {
			if f.host && f.buffer == p.Buffer {
				c.Order = append(c.Order, f.command)
			}
		}
	}
}

// gate finds out which user events, not set yet, hold a command back, and reports
// a wait for what comes later in the file.
func (l *loader) gate(m *mapping, c *command, uses []use) {
	t := &l.track
	if len(l.out.Events) == 0 {
		return
	}
	if t.gates == nil {
		t.gates, t.pending = make(map[int][]int), make(map[int][]use)
		t.queue, t.barrier = make(map[int][]int), make(map[int][]int)
	}
	if c.Kind == opSet {
		for _, g := range t.gates {
			l.spend(len(g))
		}
		t.open(c.Event)
		return
	}
	if !c.queued() && !c.Now {
		return
	}
	gates := l.gatesOf(c, uses)
	if len(gates) == 0 {
		return
	}
	if c.Blocking {
		l.errorf(m.Node, "%s: blocking, and maybe held back by the user event %q, which is not set above: it could wait for ever", c.Kind, l.out.Events[gates[0]].Name)
		return
	}
	if c.Graph > 0 && (c.Kind == opRead || c.Kind == opWrite) {
		l.errorf(m.Node, "%s: in a graph, whose next round uses its memory again, and maybe held back by the user event %q, which is not set above: it could wait for ever", c.Kind, l.out.Events[gates[0]].Name)
		return
	}
	if c.Now {
		l.errorf(m.Node, "free: now, and the host's use of it maybe held back by the user event %q, which is not set above: it could wait for ever", l.out.Events[gates[0]].Name)
		return
	}
	i := len(l.out.Commands)
	t.gates[i], t.pending[i] = gates, uses
	t.queue[c.Queue] = union(t.queue[c.Queue], gates)
	if c.Kind == opBarrier {
		t.barrier[c.Queue] = union(t.barrier[c.Queue], gates)
	}
}

// gatesOf are those of all that the command waits for, and its own.
func (l *loader) gatesOf(c *command, uses []use) []int {
	t := &l.track
	var gates []int
	for _, e := range c.Events {
		if l.out.Events[e].Set < 0 {
			gates = union(gates, []int{e})
		}
	}
	for _, list := range [][]int{c.After, c.Order} {
		for _, a := range list {
			l.spend(len(gates) + len(t.gates[a]))
			gates = union(gates, t.gates[a])
		}
	}
	if c.Kind == opUnmap {
		gates = union(gates, t.gates[l.out.Mappings[c.Mapping].Map])
	}
	if c.Now {
		return gates
	}
	all := (c.Kind == opBarrier || c.Kind == opMarker) && len(c.After)+len(c.Events) == 0
	if all || !l.out.Queues[c.Queue].OutOfOrder {
		gates = union(gates, t.queue[c.Queue])
	}
	gates = union(gates, t.barrier[c.Queue])
	for i, pending := range t.pending {
		for _, p := range pending {
			for _, u := range uses {
				l.spend(u.cost())
			}
			p.mode = mem.Write // a read, too, may have to wait for one: for storage, or a copy
			if slices.ContainsFunc(uses, func(u use) bool { return !u.meets(p).Empty() }) {
				gates = union(gates, t.gates[i])
				break
			}
		}
	}
	return gates
}

// open takes an event that was set from all that it held back.
func (t *tracker) open(event int) {
	without := func(gates []int) []int {
		return slices.DeleteFunc(slices.Clone(gates), func(e int) bool { return e == event })
	}
	for i, g := range t.gates {
		if t.gates[i] = without(g); len(t.gates[i]) == 0 {
			delete(t.gates, i)
			delete(t.pending, i)
		}
	}
	for _, m := range []map[int][]int{t.queue, t.barrier} {
		for q, g := range m {
			m[q] = without(g)
		}
	}
}

// union is the ascending union of two ascending lists.
func union(a, b []int) []int {
	if len(b) == 0 {
		return a
	}
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// checkEnds reports what was begun and not ended.
func (l *loader) checkEnds() {
	for i := range l.out.Mappings {
		if mp := &l.out.Mappings[i]; mp.Unmap < 0 {
			l.errorAt(mp.Line, "map: %s is never unmapped", mp.Name)
		}
	}
	l.checkTransients()
	for _, e := range l.out.Events {
		if e.Set < 0 {
			l.errorAt(e.Line, "event %q: no command sets it: what waits for it would wait for ever", e.Name)
		}
	}
}
