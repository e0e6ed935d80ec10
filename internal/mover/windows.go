package mover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"godwit/bufalloc"
	"godwit/mem"
)

// Links between devices (devices.Windowed), and the windows that are staging for them.
//
// Measure, which is a step of opening a context, asks which memories have links, so that
// blocks are made in windows from then on. What is dear comes with the first ring between
// two such memories: then a goroutine, beside the work, has the devices connected, takes an arena
// of each device's own memory that lies in a window, and measures both ways over each
// link. When it is done, Options.OnWays is called, and whoever plans calls Adopt between two plans.
//
// A link that is lost is noticed by the next Move over it, which fails with
// ErrLinkLost: then Adopt takes its ways back. Windows stay until Close: what lies in them is
// memory as any.
//
// States: none -> idle (there are links) -> opening -> open, or failed.
const (
	mostWindow  = 256 << 20 // bytes of staging on each device, at most
	leastWindow = 64 << 10  // bytes: with smaller ones there is no way by window
	windowPart  = 64        // of a device's memory, which staging takes at most one of
	windowSlots = 4         // of a ring: one is read into, one left, one under way, one free
	windowTries = 64        // blocks that are made until one lies in a window
	leastHop    = 64 << 10  // bytes of a chunk
)

// ErrLinkLost is why a transfer was refused that goes over a link which is there no more.
var ErrLinkLost = mem.Sentinel("the link between the devices is lost", mem.OutOfResources)

type linkState int32

const (
	noLinks linkState = iota
	linksIdle
	linksOpening
	linksOpen
	linksFailed
)

// links are a mover's.
type links struct {
	state  atomic.Int32    // a linkState
	there  []bool          // immutable once measured: from*len(mems)+to
	costs  []linkCost      // as there; immutable once open
	arenas []*arena        // by memory, nil where there is none; immutable once open, until Close; regions: Mover.mu
	share  uint64          // bytes of an extent; immutable once open
	why    error           // immutable once failed
	done   chan struct{}   // closed when open or failed
	ctx    context.Context // ends with the mover
	stop   context.CancelFunc
}

// linkCost is what is known of the ways over a link.
type linkCost struct {
	linked, windows cost
}

// Costs between two H200s (docs/measured.md), where a link could not be measured.
var (
	linkedCost  = cost{bandwidth: 395e9, gap: 4e-6, base: 10e-6}
	windowsCost = cost{bandwidth: 390e9, gap: 10e-6, base: 60e-6}
)

func (l *links) init(n int) {
	l.there, l.costs, l.arenas = make([]bool, n*n), make([]linkCost, n*n), make([]*arena, n)
	l.done = make(chan struct{})
	l.ctx, l.stop = context.WithCancel(context.Background())
}

func (l *links) is(s linkState) bool { return linkState(l.state.Load()) == s }

// findLinks asks the drivers which memories have links.
func (m *Mover) findLinks(ctx context.Context, t *mem.Topology) {
	n := len(m.mems)
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
			m.links.there[i*n+j], m.links.there[j*n+i] = true, true
			m.links.state.Store(int32(linksIdle))
		}
	}
}

// pairs are the links, each once.
func (m *Mover) pairs() (all [][2]int) {
	for i := range m.mems {
		for j := range i {
			if m.links.there[i*len(m.mems)+j] {
				all = append(all, [2]int{j, i})
			}
		}
	}
	return all
}

// wantLinks has links opened with the first transfer that would have gone over one.
func (m *Mover) wantLinks(t *Transfer) {
	l := &m.links
	if !l.is(linksIdle) {
		return
	}
	over := func(e End) bool { return l.there[int(t.From.Memory)*len(m.mems)+int(e.Memory)] }
	if slices.ContainsFunc(t.To, over) {
		m.startLinks()
	}
}

// Leaves says that blocks leave a memory: to where it has a link, once that is open. So it has
// links opened, as a transfer does that would have gone over one.
func (m *Mover) Leaves(from mem.MemoryID) {
	n := len(m.mems)
	if l := &m.links; l.is(linksIdle) && slices.Contains(l.there[int(from)*n:int(from)*n+n], true) {
		m.startLinks()
	}
}

// startLinks has links opened, once.
func (m *Mover) startLinks() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.links.state.CompareAndSwap(int32(linksIdle), int32(linksOpening)) {
		m.beside.Go(m.openLinks)
	}
}

// openLinks is a goroutine's.
func (m *Mover) openLinks() {
	l := &m.links
	defer close(l.done)
	var errs error
	open := false
	for _, p := range m.pairs() {
		if err := m.mems[p[0]].window.Connect(l.ctx, m.mems[p[1]].Device); err != nil {
			errs = errors.Join(errs, err)
		} else {
			open = true
		}
	}
	if !open {
		l.why = errs
		l.state.Store(int32(linksFailed))
		return
	}
	for _, p := range m.pairs() {
		for _, i := range p {
			if l.arenas[i] == nil {
				l.arenas[i] = m.newWindow(i)
			}
		}
	}
	for _, a := range l.arenas {
		if a != nil && (l.share == 0 || a.block.Size/2 < l.share) {
			l.share = a.block.Size / 2 // one ring in each direction
		}
	}
	l.state.Store(int32(linksOpen))
	m.measureLinks(l.ctx)
	if l.ctx.Err() == nil && m.opts.OnWays != nil {
		m.opts.OnWays()
	}
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
	r, err := bufalloc.NewRegion(0, size, bufalloc.Options{Granularity: pageSize})
	if err != nil {
		return nil
	}
	b, ok := x.newWindow(size)
	if !ok {
		return nil
	}
	return &arena{home: i, from: x.Device.Memory(), block: b, device: x.Device, region: r}
}

// newWindow makes a block that lies in a window. What is made may lie in memory from before the links,
// where that has room: such blocks are kept until there is one that does not.
func (x *memory) newWindow(size uint64) (mem.Block, bool) {
	res := x.Device.Memory()
	var tried []mem.Block
	defer func() {
		for _, b := range tried {
			_ = res.FreeAfter(b, nil) // live by construction
		}
	}()
	for range windowTries {
		var b [1]mem.Block
		if out, err := res.AllocAll([]mem.Request{{Size: size, Align: pageSize}}, b[:], nil); err != nil || out != mem.Ready {
			break
		}
		if x.window.InWindow(b[0]) {
			return b[0], true
		}
		tried = append(tried, b[0])
	}
	return mem.Block{}, false
}

// OpenLinks opens the links between memories, which the first copy that would go over one
// does otherwise, and waits until that is done. It says why there are none where that is so:
// of mem.ErrInvalidOperation where no two devices have one.
func (m *Mover) OpenLinks(ctx context.Context) error {
	l := &m.links
	if l.is(noLinks) {
		return errors.Join(fmt.Errorf("mover %s: no two devices have a link: %w", m.opts.Name, mem.ErrInvalidOperation), l.why)
	}
	m.startLinks()
	select {
	case <-l.done:
		if l.is(linksOpen) {
			return nil
		}
		return l.why
	case <-l.ctx.Done():
		return fmt.Errorf("mover %s: %w", m.opts.Name, mem.ErrClosed)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Adopt tells a topology which ways there are over links, and which are no more; but of
// the pairs that keep says are the user's. It reports whether anything changed.
func (m *Mover) Adopt(t *mem.Topology, keep func(from, to mem.MemoryID) bool) (changed bool) {
	if !m.links.is(linksOpen) {
		return false
	}
	n := len(m.mems)
	for k, there := range m.links.there {
		from, to := mem.MemoryID(k/n), mem.MemoryID(k%n)
		if !there || keep(from, to) {
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
	return changed
}

// linkPaths are the ways over a link, as they are now.
func (m *Mover) linkPaths(from, to mem.MemoryID) (linked, windows mem.Path) {
	if m.linkLost(from, to) != nil {
		return linked, windows
	}
	linked = m.linkCost(from, to, mem.Linked).path()
	if m.links.arenas[from] != nil && m.links.arenas[to] != nil {
		windows = m.linkCost(from, to, mem.Windows).path()
	}
	return linked, windows
}

// linkLost is why nothing goes over a link.
func (m *Mover) linkLost(from, to mem.MemoryID) error {
	if !m.links.there[int(from)*len(m.mems)+int(to)] {
		return fmt.Errorf("there is no link from %s to %s: %w", m.mems[from].Name, m.mems[to].Name, mem.ErrInvalidOperation)
	}
	if err := m.mems[to].window.Connected(m.mems[from].Device); err != nil {
		return fmt.Errorf("from %s to %s: %w: %w", m.mems[from].Name, m.mems[to].Name, ErrLinkLost, err)
	}
	return nil
}

// linked accepts a transfer over links.
func (m *Mover) linked(t *Transfer) error {
	if !m.links.is(linksOpen) {
		return fmt.Errorf("transfer by way %v, without links: %w", t.Way, mem.ErrInvalidOperation)
	}
	for i := range t.To {
		if err := m.linkLost(t.From.Memory, t.To[i].Memory); err != nil {
			return err
		}
		if t.Way == mem.Windows && (m.links.arenas[t.From.Memory] == nil || m.links.arenas[t.To[i].Memory] == nil) {
			return fmt.Errorf("transfer by way %v from %s to %s, of which one has none: %w", t.Way, m.mems[t.From.Memory].Name, m.mems[t.To[i].Memory].Name, mem.ErrInvalidOperation)
		}
	}
	if t.Way == mem.Linked && !m.relays(t) {
		return m.direct(t)
	}
	return m.ring(t)
}

// relays reports whether what several destinations want goes from one to the next, in
// pieces: copies out of one device share what its links carry together.
func (m *Mover) relays(t *Transfer) bool {
	n := uint64(len(t.To))
	if n == 1 || t.Late != nil {
		return false
	}
	for i := 1; i < len(t.To); i++ {
		if !m.links.there[int(t.To[i-1].Memory)*len(m.mems)+int(t.To[i].Memory)] {
			return false
		}
	}
	c := m.linkCost(t.From.Memory, t.To[0].Memory, t.Way)
	piece := min(max(c.chunk(t.Size), leastHop), t.Size)
	apart := c.base + float64(n*t.Size)/c.bandwidth
	chunks := float64(t.Size / piece)
	chain := c.base + float64(n-1)*(c.base+float64(piece)/c.bandwidth) + float64(t.Size)/c.bandwidth + chunks*c.gap
	return chain < apart
}

// linkCost is what to expect of a way over a link.
func (m *Mover) linkCost(from, to mem.MemoryID, way mem.Way) *cost {
	c := &m.links.costs[int(from)*len(m.mems)+int(to)]
	known, standard := &c.linked, &linkedCost
	if way == mem.Windows {
		known, standard = &c.windows, &windowsCost
	}
	if known.bandwidth == 0 {
		return standard
	}
	return known
}

// shapeLinked chooses the chunk of a ring over links.
func (x *ring) shapeLinked() {
	m := x.m
	best := m.linkCost(x.src.Memory, x.dsts[0].dst.Memory, x.way).chunk(x.size)
	most := pages(x.size)
	if x.way == mem.Windows {
		most = min(most, m.links.share/windowSlots)
	}
	if c := m.opts.Chunk; c != 0 {
		most = min(most, c)
	}
	x.chunk = even(x.size, max(best, leastHop), max(most, pageSize))
}

// take gives x an extent on each memory that its chunks pass. mu is held.
func (l *links) take(x *ring) bool {
	slots := (x.size + x.chunk - 1) / x.chunk
	want := min(slots*x.chunk, max(l.share/x.chunk, 1)*x.chunk)
	least := uint64(0)
	take := func(id mem.MemoryID) bool {
		e, ok := l.arenas[id].take(want, x.chunk)
		if ok {
			x.windows = append(x.windows, e)
			if e.size /= x.chunk; least == 0 || e.size < least {
				least = e.size
			}
		}
		return ok
	}
	ok := take(x.src.Memory)
	for _, a := range x.dsts[:x.n] {
		ok = ok && take(a.dst.Memory)
	}
	if !ok {
		x.giveWindows()
	}
	x.windowSlots = int(least)
	return ok
}

// giveWindows takes x's windows back. mu is held.
func (x *ring) giveWindows() {
	for i := range x.windows {
		x.windows[i].give()
	}
	x.windows = x.windows[:0]
}

// lost is why x, which starves, waits for nothing: a link that it needs is lost.
func (m *Mover) lost(x *ring) error {
	for _, a := range x.dsts[:x.n] {
		if err := m.linkLost(x.src.Memory, a.dst.Memory); err != nil {
			return err
		}
	}
	return nil
}

// checkLinks tests what is known of windows. Nothing that uses them is under way where
// idle is set. mu is held.
func (m *Mover) checkLinks(idle bool) error {
	if !m.links.is(linksOpen) {
		return nil
	}
	for _, a := range m.links.arenas {
		if a == nil {
			continue
		}
		if err := a.check(); err != nil {
			return err
		}
		if idle && a.used != 0 {
			return fmt.Errorf("nothing under way, but %d bytes of the windows on %s are in use", a.used, m.mems[a.home].Name)
		}
	}
	return nil
}

// closeLinks gives windows back. Nothing is under way.
func (m *Mover) closeLinks() error {
	var errs []error
	for _, a := range m.links.arenas {
		if a != nil {
			errs = append(errs, a.from.FreeAfter(a.block, nil))
		}
	}
	return errors.Join(errs...)
}
