package mover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit/internal/storage"
	"godwit/mem"
)

// Links between devices (devices.Windowed), and the windows that are staging for them.
//
// Measure, which is a step of opening a context, asks which memories have links, so that
// blocks are made in windows from then on. What is dear comes with the first ring through the host
// that lacks it (Wants): the links, with the first one between two such memories; and, with the first one of
// blocks that lie in no windows, an arena of each device's own memory that does. A goroutine opens it,
// beside the work, then Options.OnWays is called, and whoever plans calls Adopt between two plans. A
// large ring is worth waiting for that (AwaitLinks), mostWait in all: so a program of a second goes by them.
//
// A link that is lost is noticed by the next Move over it, which fails with
// ErrLinkLost: then Adopt takes its ways back. Windows stay until Close: what lies in them is
// memory as any.
//
// What is opened is idle -> begun -> open, or failed: the links first, of which one is enough, and then the
// arenas, of those devices that have room.
const (
	mostWindow     = 256 << 20 // bytes of staging on each device, at most
	leastWindow    = 64 << 10  // bytes: with smaller ones there is no way by window
	windowPart     = 64        // of a device's memory, which staging takes at most one of
	windowSlots    = 4         // of a ring: one is read into, one left, one under way, one free
	leastHop       = 64 << 10  // bytes of a chunk
	leastForArenas = 4 << 20   // bytes of a transfer that opens them: smaller ones gain nothing by window
	leastRelay     = 32 << 20  // bytes: what is smaller goes to each destination by itself

	// Two H200s take 1.4 ms for 64 MiB through the host and 0.19 over their link; to open it takes them
	// 0.13 to 0.3 s (docs/measured.md).
	leastToWait = 64 << 20 // bytes of a transfer that waits for links
	mostWait    = 200 * time.Millisecond
)

// ErrLinkLost is why a transfer was refused that goes over a link which is there no more.
var ErrLinkLost = mem.Sentinel("the link between the devices is lost", mem.OutOfResources)

// opening is something that is opened once, beside the work.
type opening struct {
	begun atomic.Bool
	open  atomic.Bool
	done  chan struct{} // closed when it is open or has failed
}

// links are a mover's.
type links struct {
	there   map[[2]mem.MemoryID]bool // immutable once measured: by both memories
	some    []bool                   // immutable once measured: by memory, it has one
	pairs   opening                  // the links
	windows opening                  // arenas
	arenas  []*arena                 // by memory, nil where there is none; immutable once windows are open, until Close; regions: Mover.mu
	share   uint64                   // bytes of an extent; immutable once windows are open
	why     error                    // why there is none; immutable once pairs are done
	ctx     context.Context          // ends with the mover
	stop    context.CancelFunc
	until   uint64 // protected by Mover.mu: when nobody waits any more, by the executor's clock; 0 before anybody has
}

// The costs of both ways are those of two H200s (docs/measured.md), whatever the link: between windows
// there is nothing to choose, and by window only from some MiB on.
var (
	linkedCost  = cost{bandwidth: 395e9, gap: 2e-6, base: 10e-6}
	windowsCost = cost{bandwidth: 365e9, gap: 10e-6, base: 60e-6}
)

func (l *links) init(n int) {
	l.there, l.some, l.arenas = make(map[[2]mem.MemoryID]bool), make([]bool, n), make([]*arena, n)
	l.pairs.done, l.windows.done = make(chan struct{}), make(chan struct{})
	l.ctx, l.stop = context.WithCancel(context.Background())
}

// between reports whether two memories have a link.
func (l *links) between(from, to mem.MemoryID) bool { return l.there[[2]mem.MemoryID{from, to}] }

// by reports whether rings by window can go between two memories.
func (l *links) by(from, to mem.MemoryID) bool {
	return l.windows.open.Load() && l.arenas[from] != nil && l.arenas[to] != nil
}

// findLinks asks the drivers which memories have links.
func (m *Mover) findLinks(ctx context.Context, t *mem.Topology) {
	for i := range m.mems {
		for j := range i {
			x, y := &m.mems[i], &m.mems[j]
			from, to := mem.MemoryID(j), mem.MemoryID(i)
			if m.opts.NoWindows || x.window == nil || y.window == nil || t.Store(from) == t.Store(to) || t.Link(from, to).Direct.There {
				continue
			}
			if err := x.window.Windows(ctx, y.Device); err != nil {
				m.links.why = err
				continue
			}
			m.links.there[[2]mem.MemoryID{from, to}], m.links.there[[2]mem.MemoryID{to, from}] = true, true
			m.links.some[i], m.links.some[j] = true, true
		}
	}
}

// Wants has opened what a ring of size bytes lacks to go over a link, if anything, and reports whether
// it is to wait for that (AwaitLinks) and to be planned again. It does not block.
func (m *Mover) Wants(from, to *End, size uint64) bool {
	l := &m.links
	if !l.between(from.Memory, to.Memory) {
		return false
	}
	switch {
	case !l.pairs.open.Load():
		if m.begin(&l.pairs, m.openLinks); l.pairs.failed() {
			return false
		}
	case !l.windows.open.Load() && size >= leastForArenas && !(m.inWindow(from) && m.inWindow(to)):
		m.begin(&l.windows, m.openArenas)
	default:
		return false
	}
	return size >= leastToWait && m.patience() > 0
}

// patience is for how long transfers wait for links yet.
func (m *Mover) patience() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.by.Now()
	if m.links.until == 0 {
		m.links.until = now + uint64(mostWait)
	}
	return time.Duration(m.links.until - now)
}

// AwaitLinks waits until what is being opened is open, or has failed, while transfers are to wait, and
// the mover is open. It fails as ctx ends.
func (m *Mover) AwaitLinks(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	for _, o := range []*opening{&m.links.pairs, &m.links.windows} {
		if o.begun.Load() {
			_ = m.awaitLinks(within, o) // who is planned again finds out what there is
		}
	}
	return ctx.Err()
}

// inWindow reports whether an end of a transfer between devices with links is a window.
func (m *Mover) inWindow(e *End) bool { return m.mems[e.Memory].window.InWindow(e.Block) }

// Leaves says that blocks leave a memory: to where it has a link, once that is open. So it has
// links opened, as a transfer does that would have gone over one.
func (m *Mover) Leaves(from mem.MemoryID) {
	if l := &m.links; l.some[from] {
		m.begin(&l.pairs, m.openLinks)
	}
}

// begin has a goroutine open something, once; open reports whether it could.
func (m *Mover) begin(o *opening, open func() bool) {
	if o.begun.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !o.begun.CompareAndSwap(false, true) {
		return
	}
	m.beside.Go(func() {
		defer close(o.done)
		if o.open.Store(open()); o.open.Load() && m.links.ctx.Err() == nil && m.opts.OnWays != nil {
			m.opts.OnWays()
		}
	})
}

// failed reports whether it could not be opened.
func (o *opening) failed() bool {
	select {
	case <-o.done:
		return !o.open.Load()
	default:
		return false
	}
}

// openLinks is a goroutine's.
func (m *Mover) openLinks() bool {
	l := &m.links
	var pairs sync.WaitGroup
	var mu sync.Mutex
	var errs error
	open := false
	for i := range m.mems {
		for j := range i {
			if !l.between(mem.MemoryID(i), mem.MemoryID(j)) {
				continue
			}
			pairs.Go(func() {
				err := m.mems[i].window.Connect(l.ctx, m.mems[j].Device)
				mu.Lock()
				defer mu.Unlock()
				errs, open = errors.Join(errs, err), open || err == nil
			})
		}
	}
	pairs.Wait()
	if !open {
		l.why = errs
	}
	return open
}

// openArenas is a goroutine's.
func (m *Mover) openArenas() bool {
	l := &m.links
	for i, some := range l.some {
		if !some {
			continue
		}
		a := m.newWindow(i)
		if a != nil && (l.share == 0 || a.memory.Size/2 < l.share) {
			l.share = a.memory.Size / 2 // one ring in each direction
		}
		if l.arenas[i] = a; a != nil {
			m.mu.Lock()
			m.arenas = append(m.arenas, a)
			m.mu.Unlock()
		}
	}
	return true
}

// newWindow takes an arena in a window of a device's own memory, or nil.
func (m *Mover) newWindow(i int) *arena {
	x := &m.mems[i]
	size := uint64(mostWindow)
	if g := x.Device.Info().GlobalMemory; g != 0 {
		size = min(size, g/windowPart)
	}
	if size = size &^ (leastWindow - 1); size < leastWindow {
		return nil
	}
	memory, err := storage.Allocate(x.Device.Memory(), nil, size, pageSize)
	if err != nil {
		return nil
	}
	if !x.window.InWindow(memory.Block) {
		_ = memory.Free() // live by construction
		return nil
	}
	a, _ := arenaOf(arena{home: i, memory: memory, device: x.Device, stays: true})
	return a
}

// OpenLinks opens the links between memories and their arenas, which the first copies that want
// them do otherwise, and waits until that is done. It says why there are none where that is so:
// of mem.ErrInvalidOperation where no two devices have one.
func (m *Mover) OpenLinks(ctx context.Context) error {
	l := &m.links
	if len(l.there) == 0 {
		return errors.Join(fmt.Errorf("mover %s: no two devices have a link: %w", m.opts.Name, mem.ErrInvalidOperation), l.why)
	}
	m.begin(&l.pairs, m.openLinks)
	if err := m.awaitLinks(ctx, &l.pairs); err != nil {
		return err // they are being opened yet, and may fail
	}
	if !l.pairs.open.Load() {
		return l.why
	}
	m.begin(&l.windows, m.openArenas)
	return m.awaitLinks(ctx, &l.windows)
}

func (m *Mover) awaitLinks(ctx context.Context, o *opening) error {
	select {
	case <-o.done:
		return nil
	case <-m.links.ctx.Done():
		return fmt.Errorf("mover %s: %w", m.opts.Name, mem.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Adopt tells a topology which ways there are over links, and which are no more; but of
// the pairs that keep says are the user's. It reports whether anything changed.
func (m *Mover) Adopt(t *mem.Topology, keep func(from, to mem.MemoryID) bool) (changed bool) {
	if !m.links.pairs.open.Load() {
		return false
	}
	for i := range m.mems {
		for j := range m.mems {
			from, to := mem.MemoryID(i), mem.MemoryID(j)
			if !m.links.between(from, to) || keep(from, to) {
				continue
			}
			l := t.Link(from, to)
			linked, windows := m.linkPaths(from, to)
			if l.Linked == linked && l.Windows == windows {
				continue
			}
			l.Linked, l.Windows = linked, windows
			if err := t.SetLink(from, to, l); err == nil { // a ring is there
				changed = true
			}
		}
	}
	return changed
}

// linkPaths are the ways over a link, as they are now.
func (m *Mover) linkPaths(from, to mem.MemoryID) (linked, windows mem.Path) {
	if m.linkLost(from, to) != nil {
		return linked, windows
	}
	linked = linkedCost.path()
	if m.links.by(from, to) {
		windows = windowsCost.path()
	}
	return linked, windows
}

// linkLost is why nothing goes over a link.
func (m *Mover) linkLost(from, to mem.MemoryID) error {
	if !m.links.between(from, to) {
		return fmt.Errorf("there is no link from %s to %s: %w", m.mems[from].Name, m.mems[to].Name, mem.ErrInvalidOperation)
	}
	if err := m.mems[to].window.Connected(m.mems[from].Device); err != nil {
		return fmt.Errorf("from %s to %s: %w: %w", m.mems[from].Name, m.mems[to].Name, ErrLinkLost, err)
	}
	return nil
}

// linked accepts a transfer over links.
func (m *Mover) linked(t *Transfer) error {
	if err := m.refusesLinked(t); err != nil {
		return err
	}
	accept := m.ring
	if t.Way == mem.Linked && !m.relays(t) {
		accept = m.direct
	}
	err := accept(t)
	if err != nil { // perhaps a link was lost since
		err = errors.Join(m.linksLost(t), err)
	}
	return err
}

// refusesLinked is why a transfer over links cannot go by its way.
func (m *Mover) refusesLinked(t *Transfer) error {
	if !m.links.pairs.open.Load() {
		return fmt.Errorf("transfer by way %v, without links: %w", t.Way, mem.ErrInvalidOperation)
	}
	if err := m.linksLost(t); err != nil {
		return err
	}
	for i := range t.To {
		if t.Way == mem.Windows && !m.links.by(t.From.Memory, t.To[i].Memory) {
			return fmt.Errorf("transfer by way %v from %s to %s, of which one has none: %w", t.Way, m.mems[t.From.Memory].Name, m.mems[t.To[i].Memory].Name, mem.ErrInvalidOperation)
		}
	}
	return nil
}

// linksLost is why nothing goes over one of the links of a transfer.
func (m *Mover) linksLost(t *Transfer) error {
	for i := range t.To {
		if err := m.linkLost(t.From.Memory, t.To[i].Memory); err != nil {
			return err
		}
	}
	return nil
}

// relays reports whether what several destinations want goes from one to the next, in
// pieces: copies out of one device share what its links carry together.
func (m *Mover) relays(t *Transfer) bool {
	if len(t.To) == 1 || t.Late != nil || t.Size < leastRelay {
		return false
	}
	for i := 1; i < len(t.To); i++ {
		if !m.links.between(t.To[i-1].Memory, t.To[i].Memory) {
			return false
		}
	}
	return true
}

// shapeLinked chooses the chunk of a ring over links.
func (x *ring) shapeLinked() {
	m, c := x.m, &linkedCost
	most := pages(x.size)
	if x.way == mem.Windows {
		c, most = &windowsCost, min(most, m.links.share/windowSlots)
	}
	if c := m.opts.Chunk; c != 0 {
		most = min(most, c)
	}
	x.chunk = even(x.size, max(c.chunk(x.size), leastHop), max(most, pageSize))
}
