package bound

import (
	"fmt"

	"godwit/internal/rangemap"
	"godwit/mem"
)

// Account is told a run, command by command, in the order of enqueueing. It is
// its own: it asks no planner, and is told nothing of copies and evictions, so
// that what it finds holds for any that the run could have made. Not for
// concurrent use.
type Account struct {
	topo    *mem.Topology
	mems    []*memory // by store; nil where there is no limit
	buffers map[mem.BufferID]*buffer
	version uint32
	total   uint64 // bytes of the buffers that take room
	window  int    // commands of one memory after which a new window begins
	epoch   int32  // of the window under way
	closed  []*memory
	sum     Bound
}

// Bound is what a run had to move, in bytes.
type Bound struct {
	// Compulsory is what had to move with memory without limits: bytes that a
	// command reads where their latest content had not been.
	Compulsory uint64
	// Capacity is what had to move besides, since memory was limited.
	Capacity uint64
	// ByMemory is Capacity by the memory that was short, by MemoryID.
	ByMemory []uint64
}

// defaultWindow is how many commands of one memory are looked at together, and
// maxWindows how many windows in which a memory was short are kept: some MiB each.
const (
	defaultWindow = 1 << 14
	maxWindows    = 16
)

// buffer is what is known of a root buffer.
type buffer struct {
	size    uint64
	free    bool // its bytes are charged to nobody
	parts   bool // it takes no room that is known of, and no move is charged to room
	latest  rangemap.Map[content]
	held    map[mem.MemoryID]*rangemap.Map[use] // by store; nil is nothing
	last    *rangemap.Map[use]                  // of held, that which was looked for last
	lastOn  mem.MemoryID                        // and its store
	touched map[mem.MemoryID]uint32             // by store: the version counter when last used there
}

// content is what the latest content of bytes is.
type content struct {
	version uint32       // 0: never written
	writer  mem.MemoryID // the store where it was written
	shared  bool         // another store has read it: bytes of it that leave the writer need not be moved for that
	since   mark         // the point of the writer's block from which on it is there only
}

// use says that a store was left with a version of bytes at a point of its block.
type use struct {
	version uint32
	at      mark
}

// mark is a point of a block's life, in an epoch.
type mark struct{ epoch, point int32 }

// New returns an empty account of memories with these capacities in bytes, by
// MemoryID; 0, or none given, is no limit. Stores that several memories share
// have the capacity of the one that the topology names. After window commands
// of a memory a new window begins; 0 is defaultWindow.
func New(topo *mem.Topology, capacity []uint64, window int) *Account {
	if window <= 0 {
		window = defaultWindow
	}
	a := &Account{topo: topo, mems: make([]*memory, topo.Len()), buffers: make(map[mem.BufferID]*buffer), window: window, epoch: 1}
	a.sum.ByMemory = make([]uint64, topo.Len())
	for m := range a.mems {
		if m < len(capacity) && capacity[m] > 0 && topo.Store(mem.MemoryID(m)) == mem.MemoryID(m) {
			a.mems[m] = newMemory(mem.MemoryID(m), capacity[m])
		}
	}
	return a
}

// Create opens a buffer of size bytes, whose content is on the host where
// initialised. It fails with mem.ErrInvalidBuffer where the ID is in use, and with
// mem.ErrInvalidSize.
func (a *Account) Create(id mem.BufferID, size uint64, initialised bool) error {
	if a.buffers[id] != nil {
		return fmt.Errorf("bound: buffer %d exists: %w", id, mem.ErrInvalidBuffer)
	}
	if size == 0 || size > 1<<48 {
		return fmt.Errorf("bound: buffer of %d bytes: %w", size, mem.ErrInvalidSize)
	}
	b := &buffer{size: size, held: make(map[mem.MemoryID]*rangemap.Map[use]), touched: make(map[mem.MemoryID]uint32)}
	c := content{}
	if initialised {
		a.version++
		c = content{version: a.version, writer: a.topo.Store(mem.Host)}
		held := rangemap.Make(size, use{version: a.version})
		b.held[c.writer] = &held
	}
	b.latest = rangemap.Make(size, c)
	a.buffers[id] = b
	a.total += size
	return nil
}

// Free says that how many bytes of a buffer matter is not known: it takes its
// room, and nothing is charged for moving it.
func (a *Account) Free(id mem.BufferID) {
	if b := a.buffers[id]; b != nil {
		b.free = true
	}
}

// Parts says that a buffer is stored by range from now on: how much room it takes is for who
// stores it to say. It takes none, and no capacity is charged for moving it.
func (a *Account) Parts(id mem.BufferID) {
	if b := a.buffers[id]; b != nil && !b.parts {
		b.parts = true
		a.total -= b.size
	}
}

// Compulsory is what had to move so far with memory without limits, in bytes.
func (a *Account) Compulsory() uint64 { return a.sum.Compulsory }

// Release ends a buffer: its content is needed no more.
func (a *Account) Release(id mem.BufferID) {
	if b := a.buffers[id]; b != nil {
		a.dies(id, b, mem.Range{End: b.size}, 0)
		if !b.parts {
			a.total -= b.size
		}
		delete(a.buffers, id)
		for _, m := range a.mems {
			if m != nil {
				delete(m.current, id)
			}
		}
	}
}

// Command is the next command, with the accesses that the planner was given. It
// fails, changing nothing, where one is of an unknown buffer or beyond its end.
func (a *Account) Command(accs []mem.Access) error {
	for _, u := range accs {
		b := a.buffers[u.Buffer]
		if b == nil {
			return fmt.Errorf("bound: no buffer %d: %w", u.Buffer, mem.ErrInvalidBuffer)
		}
		if u.Range.End > b.size || u.Range.Empty() || int(u.Memory) >= a.topo.Len() {
			return fmt.Errorf("bound: %v of buffer %d on memory %d: %w", u.Range, u.Buffer, u.Memory, mem.ErrInvalidValue)
		}
	}
	a.version++
	a.enter(accs)
	for _, u := range accs {
		if u.Mode.Reads() {
			a.read(u)
		}
	}
	for _, u := range accs {
		if u.Mode.Writes() {
			a.write(u)
		}
	}
	for _, u := range accs {
		if m := a.short(a.topo.Store(u.Memory)); m != nil && len(m.working) >= a.window {
			a.flush()
			break
		}
	}
	return nil
}

// short is what is collected of a store; nil where it has room for all buffers that there are, so that nothing has to leave it.
func (a *Account) short(s mem.MemoryID) *memory {
	if m := a.mems[s]; m != nil && a.total > m.capacity {
		return m
	}
	return nil
}

// enter notes which blocks the command needs where.
func (a *Account) enter(accs []mem.Access) {
	for _, u := range accs {
		s := a.topo.Store(u.Memory)
		m := a.short(s)
		if m == nil {
			continue
		}
		b := a.buffers[u.Buffer]
		if b.parts || b.touched[s] == a.version {
			continue
		}
		b.touched[s] = a.version
		if m.last != a.version {
			m.working, m.last = append(m.working, 0), a.version
		}
		at := m.before(a.version)
		m.working[at] += b.size
		m.touch(u.Buffer, b.size, at)
	}
}

// here is the point of a buffer's block on a store that the command under way
// has made; nothing where the store is not short.
func (a *Account) here(id mem.BufferID, s mem.MemoryID) mark {
	if m := a.short(s); m != nil {
		if b := m.block(id); b != nil {
			return mark{a.epoch, int32(len(b.points) - 1)}
		}
	}
	return mark{}
}

// read replays that a command reads. Content that was there before stays as long
// as its block does; other content arrives, and that is compulsory.
func (a *Account) read(u mem.Access) {
	s, b := a.topo.Store(u.Memory), a.buffers[u.Buffer]
	held, here := b.on(s), a.here(u.Buffer, s)
	for part, c := range b.latest.In(u.Range) {
		if c.version == 0 {
			continue // never written: nothing to move
		}
		held.Update(part, func(piece mem.Range, had use) use {
			if had.version != c.version && !b.free {
				a.sum.Compulsory += piece.Size()
			}
			if had.version == c.version && had.at.epoch == a.epoch && here.epoch == a.epoch && !b.free && !b.parts {
				a.mems[s].charge(u.Buffer, had.at.point, here.point, piece.Size())
			}
			return use{c.version, here}
		})
	}
	b.latest.Update(u.Range, func(_ mem.Range, c content) content {
		c.shared = c.shared || c.version != 0 && c.writer != s
		return c
	})
}

// Along replays that a copy for the last command brought r of a buffer to a memory
// though nobody needed it, and not counted: it is there from then on.
func (a *Account) Along(id mem.BufferID, r mem.Range, to mem.MemoryID) {
	s, b := a.topo.Store(to), a.buffers[id]
	if b == nil || r.End > b.size {
		return
	}
	here := a.here(id, s)
	held := b.on(s)
	b.latest.Update(r, func(part mem.Range, c content) content {
		held.Set(part, use{c.version, here})
		c.shared = c.shared || c.version != 0 && c.writer != s
		return c
	})
}

// write replays that a command writes: what was there before is needed no more.
func (a *Account) write(u mem.Access) {
	s, b := a.topo.Store(u.Memory), a.buffers[u.Buffer]
	a.dies(u.Buffer, b, u.Range, a.version)
	here := a.here(u.Buffer, s)
	b.latest.Set(u.Range, content{version: a.version, writer: s, since: here})
	b.on(s).Set(u.Range, use{a.version, here})
}

// on is what a store was left with of the buffer.
func (b *buffer) on(s mem.MemoryID) *rangemap.Map[use] {
	if b.last != nil && b.lastOn == s {
		return b.last
	}
	if b.held[s] == nil {
		held := rangemap.Make(b.size, use{})
		b.held[s] = &held
	}
	b.last, b.lastOn = b.held[s], s
	return b.last
}

// dies charges what had been only where it was written, and is needed no more.
// Until then its block stayed, or the bytes had to be moved elsewhere: to a store
// that never read them. command is the one that needs them no more; 0 is none.
func (a *Account) dies(id mem.BufferID, b *buffer, r mem.Range, command uint32) {
	for part, c := range b.latest.In(r) {
		m := a.short(c.writer)
		if c.version == 0 || c.version == a.version || c.shared || b.free || b.parts || m == nil || c.since.epoch != a.epoch {
			continue
		}
		m.charge(id, c.since.point, m.block(id).end(m.before(command)), part.Size())
	}
}

// flush begins a new window.
func (a *Account) flush() {
	for i, m := range a.mems {
		switch {
		case m == nil || m.roomForAll():
		case len(a.closed) < maxWindows: // of those left out nothing is counted
			a.closed = append(a.closed, m)
		}
		if m != nil {
			a.mems[i] = newMemory(m.id, m.capacity)
		}
	}
	a.epoch++
}

// Bound ends the run, whose content has to be there still, and returns what it had
// to move. It takes some seconds at most, and is called once, and last.
func (a *Account) Bound() Bound {
	for id, b := range a.buffers {
		a.dies(id, b, mem.Range{End: b.size}, 0)
	}
	a.flush()
	for left := pivots; len(a.closed) > 0; a.closed = a.closed[1:] {
		m := a.closed[0]
		n, took := m.least(left / len(a.closed))
		left = max(0, left-took)
		a.sum.ByMemory[m.id] += n
		a.sum.Capacity += n
	}
	return a.sum
}
