package migration_test

import (
	"errors"
	"slices"

	"godwit/mem"
	"godwit/migration"
)

// machine runs tasks in any order that their waits and queues allow: each
// starts, takes a while, and ends well or badly. What a byte holds is the
// version of its content.
type machine struct {
	choices
	faults bool
	copies *mem.Timeline
	host   []*hostMap // that the host uses
	tasks  []*task    // not ended, in order of submission
	faulty []*task    // ended badly, and the planner does not know
	fail   func(format string, args ...any)
	note   func(format string, args ...any)
	open   func() bool     // opens what the program keeps closed, where nothing else may start; nil is nothing
	held   []*mem.Timeline // scratch of advance
	moved  uint64          // bytes, by steps that ended well
	saved  uint64          // bytes that these did not move, since they did not count or were there
}

// garbage is in fresh blocks and behind failed writes.
const garbage = ^mem.Version(0)

type block struct{ bytes []mem.Version }

func newBlock(size uint64, v mem.Version) *block {
	b := &block{make([]mem.Version, size)}
	b.fill(mem.Range{End: size}, v)
	return b
}

func (b *block) fill(r mem.Range, v mem.Version) {
	for i := r.Start; i < r.End; i++ {
		b.bytes[i] = v
	}
}

// span is a range of a block, and what it must hold where that is known.
type span struct {
	b      *block
	r      mem.Range
	expect []mem.Version // 0: anything
}

type task struct {
	at            mem.Point
	waits         []mem.Wait
	reads, writes []span
	step          bool
	version       mem.Version // what a command writes
	late          *migration.Late
	count         uint64    // what a late step has read
	part          mem.Range // of what a step moves, since it started
	running       bool
	seen          [][]mem.Version // by read, when it started
	failed        func()          // tells the oracle
	maps, unmaps  *hostMap        // what the task begins or ends the use of
}

var errInjected = errors.New("injected failure")

// advance starts or ends one task.
func (m *machine) advance() {
	var ready []*task
	held := m.held[:0] // in-order queues that an earlier task holds up
	for _, t := range m.tasks {
		inOrder := t.at.Line.InOrder()
		if t.running || (!inOrder || !slices.Contains(held, t.at.Line)) && t.unblocked() {
			ready = append(ready, t)
		}
		if inOrder {
			held = append(held, t.at.Line)
		}
	}
	m.held = held
	if len(ready) == 0 {
		if len(m.tasks) > 0 && (m.open == nil || !m.open()) {
			m.fail("deadlock: %d tasks and none may start", len(m.tasks))
		}
		return
	}
	t := ready[m.n(len(ready))]
	if !t.running {
		for _, w := range t.waits {
			if w.Kind == mem.Data && w.Point.Err() != nil {
				m.end(t, errors.Join(mem.ErrDependency, w.Point.Err()))
				return
			}
		}
		m.start(t)
		return
	}
	m.finish(t)
}

// unblocked reports whether all that t waits for has ended.
func (t *task) unblocked() bool {
	for _, w := range t.waits {
		if !w.Point.Reached() {
			return false
		}
	}
	return true
}

func (m *machine) start(t *task) {
	m.note("start %v", t.at)
	for _, e := range m.tasks {
		if e.running && (clash(t.writes, e.reads) || clash(t.writes, e.writes) || clash(t.reads, e.writes)) {
			m.fail("%v runs while %v does and one writes what the other uses", t.at, e.at)
		}
	}
	t.running = true
	m.host = slices.DeleteFunc(m.host, func(h *hostMap) bool { return h == t.unmaps })
	for _, h := range m.host {
		if clash(t.writes, []span{h.bytes}) {
			m.fail("%v writes what the host has mapped", t.at)
		}
	}
	for _, u := range t.reads {
		seen := slices.Clone(u.b.bytes[u.r.Start:u.r.End])
		for i, want := range u.expect {
			if want != 0 && seen[i] != want {
				m.fail("%v reads version %d at byte %d, not %d", t.at, seen[i], u.r.Start+uint64(i), want)
			}
		}
		t.seen = append(t.seen, seen)
	}
	if t.step {
		t.part = t.writes[0].r
	}
	if t.late != nil {
		if t.late.Count != 0 {
			t.count = countIn(t.seen[1])
		}
		t.part = t.late.Resolve(t.count)
		m.note("%v moves %v, its count is %d", t.at, t.part, t.count)
	}
}

// countIn is the count that the bytes of a size buffer hold: since bytes are
// versions here, a number made of them.
func countIn(bytes []mem.Version) (n uint64) {
	for _, v := range bytes[:migration.CountSize] {
		n = 31*n + uint64(v)
	}
	return n % 36
}

func clash(a, b []span) bool {
	return slices.ContainsFunc(a, func(x span) bool {
		return slices.ContainsFunc(b, func(y span) bool { return x.b == y.b && x.r.Overlaps(y.r) })
	})
}

// finish ends a running task; a failed one leaves garbage where it wrote.
func (m *machine) finish(t *task) {
	if m.faults && m.n(8) == 0 {
		for _, u := range t.writes {
			if t.step {
				u.r = t.part
			}
			u.b.fill(u.r, garbage)
		}
		m.end(t, errInjected)
		return
	}
	for _, u := range t.writes {
		if t.step {
			copy(u.b.bytes[t.part.Start:t.part.End], t.seen[0][t.part.Start-u.r.Start:])
			m.moved += t.part.Size()
			m.saved += u.r.Size() - t.part.Size()
			if t.late != nil {
				t.late.Landed(t.count)
			}
			continue
		}
		u.b.fill(u.r, t.version)
	}
	if t.maps != nil {
		t.maps.bytes.b.fill(t.maps.bytes.r, garbage) // while the host is at it
		m.host = append(m.host, t.maps)
	}
	m.end(t, nil)
}

func (m *machine) end(t *task, err error) {
	m.note("end %v: %v", t.at, err)
	m.tasks = slices.DeleteFunc(m.tasks, func(e *task) bool { return e == t })
	if err != nil {
		m.faulty = append(m.faulty, t)
	}
	t.at.Line.End(t.at, err)
}

// usersKnown checks that whoever still uses a block is among the points, or is
// waited for, however indirectly, by one of them.
func (m *machine) usersKnown(b *block, points []mem.Point) {
	covered := map[*task]bool{}
	mark := func(p mem.Point) {
		for _, t := range m.tasks {
			if t.at.Before(p) {
				covered[t] = true
			}
		}
	}
	for _, p := range points {
		mark(p)
	}
	uses := func(us []span) bool { return slices.ContainsFunc(us, func(u span) bool { return u.b == b }) }
	for _, t := range slices.Backward(m.tasks) { // waits lead to earlier tasks only
		if covered[t] {
			for _, w := range t.waits {
				mark(w.Point)
			}
		}
		if (uses(t.reads) || uses(t.writes)) && !covered[t] {
			m.fail("a block may be freed after %v, but %v uses it", points, t.at)
		}
	}
}
