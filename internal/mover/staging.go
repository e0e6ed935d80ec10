package mover

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
)

// Staging memory.
//
// Memories that one driver's queues can tie together (devices.Batcher: a family) and
// that are near the same NUMA node share staging: its home is the first of them.
// Where it is short, that of the family's other homes will do: homes that share so are a
// pool. Memories that are not discrete use the host's.
//
// Staging is taken from the home in arenas, page-locked where it can, and a ring takes
// one extent of an arena for as long as anything may touch it. There is one budget for
// all homes. Where locking fails, an arena is ordinary host memory, which is slower and
// right; it goes back as soon as nothing uses it, so that the next ring tries again.
//
// Arenas come while the mover is opened and measured, and then come and go in the pump
// only, without locks held: to lock one takes tens of milliseconds.
const (
	mostArena   = 64 << 20 // bytes
	leastShare  = 8 << 20  // bytes of a ring that is wanted at least, if the range has as many
	leastBudget = 64 << 10 // bytes: an arena holds four pages
	pageSize    = 4096
)

// arena is a block of staging memory: of the host's, or in windows of a device, which count for no budget.
type arena struct {
	home   int
	memory storage.Allocation // immutable; without Bytes on a device
	device devices.Device     // immutable: in whose windows it is; nil on the host
	locked bool               // immutable
	stays  bool               // immutable once open: it stays until the end, as locked ones of families do, since to lock memory takes longer than many copies
	region *bufalloc.Region   // protected by Mover.mu
}

// used is how many bytes of an arena are in extents. Mover.mu is held.
func (a *arena) used() uint64 { return a.region.Stats().Live }

// extent is a ring's part of an arena; the zero extent is none.
type extent struct {
	arena *arena
	chunk bufalloc.Chunk
	off   uint64 // bytes into the arena
	size  uint64 // bytes
	bytes []byte // of the host's
}

// loc is size bytes at off of an extent.
func (e *extent) loc(off, size uint64) devices.Loc {
	if e.bytes != nil {
		return devices.Loc{Bytes: e.bytes[off : off+size]}
	}
	return devices.Loc{Device: e.arena.device, Block: e.arena.memory.Block, Off: e.off + off}
}

// findFamilies finds which memories one driver takes batches between, and whose staging
// each uses. Whoever has families has one arena at least, always, and a discrete one a
// locked one: so a batch never needs memory that cannot be had, since its points are its
// driver's, and the mover could not fail it. Where there is none to be had now, there is no
// family.
func (m *Mover) findFamilies() {
	for i := range m.mems {
		x := &m.mems[i]
		if x.home = i; !x.discrete {
			x.home = 0
		}
		b, ok := x.in.(devices.Batcher)
		for j := 0; ok && j < i; j++ {
			y := &m.mems[j]
			if y.discrete != x.discrete || !b.Joins(y.in) {
				continue
			}
			if y.family < 0 {
				y.family = j
			}
			x.family = y.family
			if !x.discrete || y.locker.NUMANode() == x.locker.NUMANode() {
				x.home = y.home
				break
			}
		}
	}
	for i := range m.mems {
		x := &m.mems[i]
		if x.family < 0 || slices.ContainsFunc(m.arenas, func(a *arena) bool { return a.home == x.home }) {
			continue
		}
		switch grown, err := m.growIdle(x.home, x.discrete); {
		case grown:
			m.arenas[len(m.arenas)-1].stays = true
		case err != nil || !x.discrete:
			if err != nil {
				m.count(func(s *Stats) { s.Why = err.Error() })
			}
			m.disband(x.family)
		}
	}
}

// disband makes a family none.
func (m *Mover) disband(family int) {
	for i := range m.mems {
		if m.mems[i].family == family {
			m.mems[i].family = -1
		}
	}
}

// homeOf is the home of the staging for a ring: a discrete end's, the source's first.
func (m *Mover) homeOf(x *ring) int {
	if m.mems[x.src.Memory].discrete {
		return m.mems[x.src.Memory].home
	}
	return m.mems[x.dsts[0].dst.Memory].home
}

// pool is the memory that names those whose rings share staging: its family, or its home.
func (m *Mover) pool(home int) int {
	if f := m.mems[home].family; f >= 0 {
		return f
	}
	return home
}

// windowPool names the pool of all windows.
const windowPool = -2

func (x *ring) pool() int {
	if x.way != mem.Ring {
		return windowPool
	}
	return x.m.pool(x.home)
}

// poolOf is the pool of an arena.
func (m *Mover) poolOf(a *arena) int {
	if a.device != nil {
		return windowPool
	}
	return m.pool(a.home)
}

// poolHeld is how much staging a pool has. mu is held.
func (m *Mover) poolHeld(pool int) (held uint64) {
	for _, a := range m.arenas {
		if m.poolOf(a) == pool {
			held += a.memory.Size
		}
	}
	return held
}

// arenaSize is how large arenas are: so that each home can have one.
func (m *Mover) arenaSize() uint64 {
	homes := uint64(1)
	for i := range m.mems {
		if i > 0 && m.mems[i].home == i {
			homes++
		}
	}
	return min(m.opts.Budget/max(homes, 4), mostArena) &^ (pageSize - 1)
}

// share is how much staging one ring should take where there is enough: so much that
// all devices could have one in each direction.
func (m *Mover) share() uint64 {
	n := uint64(0)
	for i := range m.mems {
		if m.mems[i].discrete || m.mems[i].family >= 0 {
			n++
		}
	}
	share := m.opts.Budget / (2 * max(n, 2))
	return min(max(share, leastShare), m.arenaSize()) &^ (pageSize - 1)
}

// arenaFor is the arena that serves a ring on the host best, which wants so many bytes; nil where none does.
// mu is held.
func (m *Mover) arenaFor(x *ring, want uint64) (best *arena) {
	score := uint64(0)
	for _, a := range m.arenas {
		if m.poolOf(a) != x.pool() || x.form == inBatch && !a.locked && m.mems[a.home].discrete {
			continue
		}
		v := 2 * min(a.region.Stats().LargestFree, want) // enough is better than near, and near than more
		if a.home == x.home {
			v++
		}
		if best == nil || v > score {
			best, score = a, v
		}
	}
	return best
}

// take gives x an extent of want bytes of an arena, or of as many as there are together but not fewer
// than least. mu is held.
func (m *Mover) take(x *ring, a *arena, want, least uint64) bool {
	size := min(want, a.region.Stats().LargestFree&^(pageSize-1))
	if size == 0 || size < least {
		return false
	}
	c, err := a.region.Alloc(size, pageSize)
	if err != nil {
		return false
	}
	at, err := a.region.Addr(c)
	if err != nil {
		panic(fmt.Sprintf("mover: staging that was just given: %v", err))
	}
	e := extent{arena: a, chunk: c, off: at, size: size}
	if a.device == nil {
		e.bytes = a.memory.Bytes[at : at+size]
		m.stats.InFlight += size
	}
	x.staging = append(x.staging, e)
	return true
}

// checkStaging tests what is known of arenas, whose figures the mover's are. mu is held.
func (m *Mover) checkStaging() error {
	var held, used uint64
	for _, a := range m.arenas {
		if err := a.region.Check(); err != nil {
			return fmt.Errorf("staging: %w", err)
		}
		if a.used() != 0 && m.stats.Flying == 0 {
			return fmt.Errorf("staging: nothing under way, but %d bytes of an arena are in use", a.used())
		}
		if a.device == nil {
			held, used = held+a.memory.Size, used+a.used()
		}
	}
	if held != m.stats.Staging || used != m.stats.InFlight || held > m.opts.Budget {
		return fmt.Errorf("staging: %d bytes and %d in use, but counted %d and %d; the budget is %d", held, used, m.stats.Staging, m.stats.InFlight, m.opts.Budget)
	}
	return nil
}

// takeStaging gives x the staging that it wants: of windows an extent on each memory that its chunks
// pass. mu is held.
func (m *Mover) takeStaging(x *ring) bool {
	if x.way == mem.Linked {
		return true
	}
	want, least := x.wants()
	if x.way == mem.Windows {
		ok := m.take(x, m.links.arenas[x.src.Memory], want, least)
		for i := 0; i < x.n && ok; i++ {
			ok = m.take(x, m.links.arenas[x.dsts[i].dst.Memory], want, least)
		}
		if !ok {
			m.giveStaging(x)
		}
		return ok
	}
	a := m.arenaFor(x, want)
	if a == nil || !m.take(x, a, want, least) {
		return false
	}
	x.fit()
	return true
}

// giveStaging takes x's staging back. mu is held.
func (m *Mover) giveStaging(x *ring) {
	for i := range x.staging {
		e := &x.staging[i]
		if x.gated {
			m.mems[x.pool()].gated -= e.size
			x.gated = false
		}
		if err := e.arena.region.Free(e.chunk); err != nil {
			panic(fmt.Sprintf("mover: staging given back: %v", err))
		}
		if e.arena.device == nil {
			m.stats.InFlight -= e.size
		}
		if m.makeshift(e.arena) && e.arena.used() == 0 {
			m.postLocked(task{}) // nothing uses it any more
		}
	}
	clear(x.staging)
	x.staging = x.staging[:0]
}

// grow gets a home another arena. It reports false where the budget is in use, and
// fails where there is no memory. Called by the pump, without locks.
func (m *Mover) grow(home int, locked bool) (bool, error) {
	size := m.arenaSize()
	errs := m.shrink(func(a *arena) bool { return m.stats.Staging+size > m.opts.Budget && !a.stays })
	grown, err := m.growIdle(home, locked)
	return grown, errors.Join(errs, err)
}

// reserved is how much of the budget a home leaves: a family's arenas stay for good, so
// they leave one for memories of no family, until these have one. mu is held.
func (m *Mover) reserved(home int) uint64 {
	of := func(home int) bool { return m.mems[home].family >= 0 }
	outside := func(a *arena) bool { return !of(a.home) && !a.stays }
	beside := func(x memory) bool { return x.family < 0 }
	if !of(home) || !slices.ContainsFunc(m.mems[1:], beside) || slices.ContainsFunc(m.arenas, outside) {
		return 0
	}
	return m.arenaSize()
}

// growIdle is grow where no other home's staging has to go for it.
func (m *Mover) growIdle(home int, locked bool) (bool, error) {
	size := m.arenaSize()
	m.mu.Lock()
	full := m.stats.Staging+size+m.reserved(home) > m.opts.Budget
	m.mu.Unlock()
	if full {
		return false, nil
	}
	a, err := m.newArena(home, size, locked)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arenas = append(m.arenas, a)
	m.stats.Staging += size
	return true, nil
}

// makeshift reports whether an arena is ordinary memory where locked was asked for.
func (m *Mover) makeshift(a *arena) bool {
	return !a.locked && a.device == nil && m.mems[a.home].discrete
}

// shrink gives idle arenas back for as long as needed says so. mu is taken.
func (m *Mover) shrink(needed func(*arena) bool) error {
	var gone []*arena
	m.mu.Lock()
	for i := 0; i < len(m.arenas); {
		a := m.arenas[i]
		if a.used() > 0 || !needed(a) {
			i++
			continue
		}
		gone = append(gone, a)
		if a.device == nil {
			m.stats.Staging -= a.memory.Size
		}
		m.arenas = slices.Delete(m.arenas, i, i+1)
	}
	m.mu.Unlock()
	var errs []error
	for _, a := range gone {
		errs = append(errs, a.memory.Free())
	}
	return errors.Join(errs...)
}

// newArena takes an arena from a home, or where that fails, and locked memory is not a
// must, from ordinary memory.
func (m *Mover) newArena(home int, size uint64, locked bool) (*arena, error) {
	if x := &m.mems[home]; x.discrete {
		memory, err := storage.AllocateLocked(x.locker, size, pageSize)
		if err == nil {
			return arenaOf(arena{home: home, memory: memory, locked: true, stays: x.family >= 0})
		}
		if m.unlocked(x, err); locked {
			return nil, err
		}
	}
	memory, err := storage.Allocate(m.own, m.own, size, pageSize)
	if err != nil {
		return nil, err
	}
	return arenaOf(arena{home: home, memory: memory})
}

// unlocked notes, and says under GODWIT_DEBUG=staging, that an arena is not locked.
func (m *Mover) unlocked(x *memory, why error) {
	m.count(func(s *Stats) { s.Unlocked, s.Why = s.Unlocked+1, why.Error() })
	if strings.Contains(os.Getenv("GODWIT_DEBUG"), "staging") {
		fmt.Fprintf(os.Stderr, "godwit: mover: staging of %s is not page-locked: %v\n", x.Name, why)
	}
}

func arenaOf(a arena) (_ *arena, err error) {
	if a.region, err = bufalloc.NewRegion(0, a.memory.Size, bufalloc.Options{Granularity: pageSize}); err != nil {
		return nil, errors.Join(err, a.memory.Free())
	}
	return &a, nil
}

// closeStaging gives all arenas back. Nothing is under way.
func (m *Mover) closeStaging() error {
	err := m.shrink(func(*arena) bool { return true })
	return errors.Join(err, m.own.Close())
}
