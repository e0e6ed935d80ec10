package mem

import (
	"fmt"
	"time"
)

// Route is the way by which a copy between two memories goes.
type Route uint8

// RouteSame: one store, nothing to move. RoutePeer: a driver copies from the
// one to the other directly. RouteHost: out of the one into host staging
// memory and from there into the other (where one end is the host itself, that
// end needs no staging).
const (
	RouteSame Route = iota
	RoutePeer
	RouteHost
)

// String is "same", "peer" or "host".
func (r Route) String() string {
	switch r {
	case RouteSame:
		return "same"
	case RoutePeer:
		return "peer"
	case RouteHost:
		return "host"
	}
	return fmt.Sprintf("Route(%d)", uint8(r))
}

// Link describes the way from one memory to another.
type Link struct {
	Route     Route
	Latency   time.Duration // before the first byte arrives
	Bandwidth uint64        // bytes a second; 0 is unknown
	Align     uint64        // bytes, a power of two: offsets at which copies should begin and end; 0 is any
}

// Topology says which memories there are and how bytes get from one to
// another. The zero value is not usable; build one with NewTopology. Build it
// first, then share it: reading it is safe from anywhere, changing it is not.
type Topology struct {
	names  []string
	links  []Link     // n*n, from*n+to
	stores []MemoryID // by memory: the smallest one that it shares its bytes with, itself included
}

// NewTopology returns a topology of the host and the named further memories
// (MemoryID 1, 2, ...), in which any two of them are linked through the host:
// a device and the host directly.
func NewTopology(devices ...string) *Topology {
	n := len(devices) + 1
	t := &Topology{names: append([]string{"host"}, devices...), links: make([]Link, n*n), stores: make([]MemoryID, n)}
	for from := range n {
		t.stores[from] = MemoryID(from)
		for to := range n {
			if from != to {
				t.links[from*n+to].Route = RouteHost
			}
		}
	}
	return t
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
func (t *Topology) Link(from, to MemoryID) Link { return t.links[int(from)*len(t.names)+int(to)] }

// Store names the bytes behind a memory: memories that share theirs have the
// same store, the smallest of their IDs. Others are their own. id must exist.
func (t *Topology) Store(id MemoryID) MemoryID { return t.stores[id] }

// SetLink declares the link from one memory to another, in that direction
// only; a link of RouteSame is Share. It fails with ErrInvalidValue where a
// memory does not exist, is linked to itself, or shares its bytes with the
// other, and where the alignment is no power of two.
func (t *Topology) SetLink(from, to MemoryID, l Link) error {
	if l.Route == RouteSame {
		return t.Share(from, to)
	}
	if err := t.pair(from, to); err != nil {
		return err
	}
	if l.Align != 0 && !IsPow2(l.Align) {
		return fmt.Errorf("link %d -> %d: alignment %d: it must be a power of two: %w", from, to, l.Align, ErrInvalidValue)
	}
	if t.stores[from] == t.stores[to] {
		return fmt.Errorf("link %d -> %d by route %v: the two share one store: %w", from, to, l.Route, ErrInvalidValue)
	}
	t.links[int(from)*t.Len()+int(to)] = l
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
	for i, s := range t.stores {
		for j, u := range t.stores {
			if s == u && i != j {
				t.links[i*t.Len()+j] = Link{Route: RouteSame}
			}
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
