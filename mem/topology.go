package mem

import (
	"fmt"
	"sync/atomic"
	"time"

	"godwit/internal/pairs"
)

// Way is how bytes get from one memory to another.
type Way uint8

// Same: one store, nothing to move. Direct: one copy by one queue that reaches
// both memories. Ring: in pieces through staging memory of the host's, which both
// sides reach. Linked: one copy over the link between two devices (NVLink), from
// a window into a window. Windows: in pieces, over that link too, between windows
// that are the staging on both sides.
const (
	Same Way = iota
	Direct
	Ring
	Linked
	Windows
)

// String is "same", "direct", "ring", "linked" or "windows".
func (w Way) String() string {
	return [...]string{"same", "direct", "ring", "linked", "windows", "unknown"}[min(w, Windows+1)]
}

// Phrase is the way in a sentence: "directly", "through staging".
func (w Way) Phrase() string {
	return [...]string{"by nothing", "directly", "through staging", "over NVLink, directly", "over NVLink, by window", "by nothing"}[min(w, Windows+1)]
}

// Class is what storage is made of, as far as ways tell it apart.
type Class uint8

// Plain is any storage. Locked is page-locked host memory, which devices reach
// by themselves. Window is memory of a device's that the link to other devices
// reaches too.
const (
	Plain Class = iota
	Locked
	Window
)

// ClassOf is the class of a copy from storage of one class to storage of another:
// one end is enough for Locked, and both have to be windows for Window.
func ClassOf(from, to Class) Class {
	switch {
	case from == Locked || to == Locked:
		return Locked
	case from == Window && to == Window:
		return Window
	}
	return Plain
}

// Path is one way between two memories, and what is known of its cost. In the
// zero Path there is no such way.
type Path struct {
	There     bool
	Latency   time.Duration // before the first byte arrives
	Bandwidth uint64        // bytes a second; 0 is unknown
}

// Time is how long a copy of size bytes is expected to take, in seconds. It is
// not known where the bandwidth is not.
func (p *Path) Time(size uint64) (seconds float64, known bool) {
	if !p.There || p.Bandwidth == 0 {
		return 0, false
	}
	return p.Latency.Seconds() + float64(size)/float64(p.Bandwidth), true
}

// Link describes the ways from one memory to another.
type Link struct {
	Direct  Path
	Locked  Path // Direct, where one end is page-locked host memory; as Direct where it is not there
	Ring    Path
	Linked  Path   // of class Window
	Windows Path   // of any class
	Align   uint64 // bytes, a power of two: offsets at which copies should begin and end; 0 is any
}

// DirectLink is a link by which one queue copies directly.
func DirectLink(latency time.Duration, bandwidth uint64) Link {
	return Link{Direct: Path{true, latency, bandwidth}}
}

// RingLink is a link through staging memory.
func RingLink(latency time.Duration, bandwidth uint64) Link {
	return Link{Ring: Path{true, latency, bandwidth}}
}

// Choose is the way of a copy of size bytes between storage of a class (ClassOf). Between
// windows it is Linked: the GPUs' copy engines, beside whatever else they do. Else it is
// the fastest one of those whose costs are known. Where that of a direct copy is not,
// it is that; where a ring's is not, any other whose is. A link without ways is Same.
func (l *Link) Choose(size uint64, class Class) (Way, *Path) {
	if class == Window && l.Linked.There {
		return Linked, &l.Linked
	}
	direct := &l.Direct
	if class == Locked && l.Locked.There {
		direct = &l.Locked
	}
	way, best := Same, direct
	var least float64
	timed := false
	for i, p := range [...]*Path{Direct: direct, Ring: &l.Ring, Windows: &l.Windows} {
		if p == nil || !p.There {
			continue
		}
		t, ok := p.Time(size)
		if way == Same || ok && (timed && t < least || !timed && way == Ring) {
			way, best, least, timed = Way(i), p, t, ok
		}
	}
	return way, best
}

// noLink is a link without any way.
var noLink link

// link is a Link with what is asked of it most.
type link struct {
	Link
	only Way // see Topology.OnlyWay
}

func newLink(l Link) *link {
	out := &link{Link: l}
	others := l.Linked.There || l.Windows.There
	switch {
	case l.Direct.There && (l.Direct.Bandwidth == 0 && !l.Locked.There && !l.Linked.There || !others && !l.Ring.There):
		out.only = Direct // what is known of others does not count against an unknown cost
	case l.Ring.There && !others && !l.Direct.There && !l.Locked.There:
		out.only = Ring
	}
	return out
}

// ways is whether there is any.
func (l *Link) ways() bool {
	return l.Direct.There || l.Ring.There || l.Linked.There || l.Windows.There
}

// Topology says which memories there are and how bytes get from one to
// another. The zero value is not usable; build one with NewTopology. Reading it
// is safe from anywhere, links may change meanwhile, and one goroutine at a time
// may change them; what shares a store, and who is asked, is declared before the topology
// is shared.
type Topology struct {
	names   []string
	ask     func(from, to MemoryID) Link      // of links that nobody has set, when they are used first
	links   pairs.Table[atomic.Pointer[link]] // set or asked for; what is pointed to never changes
	last    atomic.Pointer[link]              // the last one of these: few differ
	stores  []MemoryID                        // by memory: the smallest one that it shares its bytes with, itself included
	aligned bool                              // see Aligned
}

// NewTopology returns a topology of the host and the named further memories
// (MemoryID 1, 2, ...), in which two of them are linked by a ring through the
// host's memory, and each directly with the host.
func NewTopology(devices ...string) *Topology {
	n := len(devices) + 1
	t := &Topology{names: append([]string{"host"}, devices...), links: pairs.Make[atomic.Pointer[link]](n), stores: make([]MemoryID, n)}
	t.ask = func(from, to MemoryID) Link {
		if from == Host || to == Host {
			return DirectLink(0, 0)
		}
		return RingLink(0, 0)
	}
	for id := range t.stores {
		t.stores[id] = MemoryID(id)
	}
	return t
}

// Ask has links that nobody sets be those that f returns, which is asked when a link is
// used first, from anywhere, and always says the same. aligned is whether any of them has an alignment.
func (t *Topology) Ask(f func(from, to MemoryID) Link, aligned bool) {
	t.ask, t.aligned = f, t.aligned || aligned
}

// at is the link from one memory to another.
func (t *Topology) at(from, to MemoryID) *link {
	if x := t.links.Peek(int(from), int(to)); x != nil {
		if l := x.Load(); l != nil {
			return l
		}
	}
	if t.stores[from] == t.stores[to] {
		return &noLink
	}
	x := t.links.At(int(from), int(to))
	x.CompareAndSwap(nil, t.kept(t.ask(from, to)))
	return x.Load()
}

// kept is a link as the topology keeps it.
func (t *Topology) kept(l Link) *link {
	last := t.last.Load()
	if last == nil || last.Link != l {
		last = newLink(l)
		t.last.Store(last)
	}
	return last
}

// Len is the number of memories, the host included.
func (t *Topology) Len() int { return len(t.names) }

// Name is the name of a memory, or "memory N" for an unknown one.
func (t *Topology) Name(id MemoryID) string {
	if int(id) >= len(t.names) {
		return fmt.Sprintf("memory %d", id)
	}
	return t.names[id]
}

// Link returns how bytes get from one memory to another. Both must exist.
func (t *Topology) Link(from, to MemoryID) Link {
	return t.at(from, to).Link
}

// OnlyWay is how all copies from one memory to another go (Choose), whatever their size and
// class; Same where there is no way, or that decides. Both must exist.
func (t *Topology) OnlyWay(from, to MemoryID) Way {
	return t.at(from, to).only
}

// Direct reports whether the link from one memory to another has the way Direct. Both must exist.
func (t *Topology) Direct(from, to MemoryID) bool {
	return t.at(from, to).Direct.There
}

// Aligned reports whether there may be links with an alignment.
func (t *Topology) Aligned() bool { return t.aligned }

// Store names the bytes behind a memory: memories that share theirs have the
// same store, the smallest of their IDs. Others are their own. id must exist.
func (t *Topology) Store(id MemoryID) MemoryID { return t.stores[id] }

// SetLink declares the link from one memory to another, in that direction
// only. It fails with ErrInvalidValue where a memory does not exist, is linked to
// itself, or shares its bytes with the other, where the link has no way, and where
// the alignment is no power of two.
func (t *Topology) SetLink(from, to MemoryID, l Link) error {
	if err := t.pair(from, to); err != nil {
		return err
	}
	if l.Align != 0 && !IsPow2(l.Align) {
		return fmt.Errorf("link %d -> %d: alignment %d: it must be a power of two: %w", from, to, l.Align, ErrInvalidValue)
	}
	if !l.ways() {
		return fmt.Errorf("link %d -> %d: it has no way, neither direct nor ring: %w", from, to, ErrInvalidValue)
	}
	if t.stores[from] == t.stores[to] {
		return fmt.Errorf("link %d -> %d: the two share one store: %w", from, to, ErrInvalidValue)
	}
	t.aligned = t.aligned || l.Align > 1
	t.links.At(int(from), int(to)).Store(t.kept(l))
	return nil
}

// Share declares that two memories, and all that either shares with already,
// are one store: nothing ever moves between them. It fails with
// ErrInvalidValue where a memory does not exist or both are the same.
func (t *Topology) Share(a, b MemoryID) error {
	if err := t.pair(a, b); err != nil {
		return err
	}
	keep, gone := min(t.stores[a], t.stores[b]), max(t.stores[a], t.stores[b])
	for i, s := range t.stores {
		if s == gone {
			t.stores[i] = keep
		}
	}
	for pair, l := range t.links.All() { // that were set before
		if t.stores[pair[0]] == t.stores[pair[1]] {
			l.Store(nil)
		}
	}
	return nil
}

// pair checks that two memories exist and are not the same.
func (t *Topology) pair(a, b MemoryID) error {
	if n := t.Len(); int(a) >= n || int(b) >= n {
		return fmt.Errorf("link %d -> %d: this topology has memories 0 to %d: %w", a, b, n-1, ErrInvalidValue)
	}
	if a == b {
		return fmt.Errorf("link %d -> %d: a memory needs no link to itself: %w", a, b, ErrInvalidValue)
	}
	return nil
}
