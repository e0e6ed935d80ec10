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
}

// Topology says which memories there are and how bytes get from one to
// another. The zero value is not usable; build one with NewTopology. Build it
// first, then share it: reading it is safe from anywhere, changing it is not.
type Topology struct {
	names []string
	links []Link // n*n, from*n+to
}

// NewTopology returns a topology of the host and the named further memories
// (MemoryID 1, 2, ...), in which any two of them are linked through the host:
// a device and the host directly.
func NewTopology(devices ...string) *Topology {
	n := len(devices) + 1
	t := &Topology{names: append([]string{"host"}, devices...), links: make([]Link, n*n)}
	for from := range n {
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

// SetLink declares the link from one memory to another, in that direction
// only. It fails with ErrInvalidValue where a memory does not exist or is
// linked to itself.
func (t *Topology) SetLink(from, to MemoryID, l Link) error {
	n := len(t.names)
	if int(from) >= n || int(to) >= n {
		return fmt.Errorf("link %d -> %d: this topology has memories 0 to %d: %w", from, to, n-1, ErrInvalidValue)
	}
	if from == to {
		return fmt.Errorf("link %d -> %d: a memory needs no link to itself: %w", from, to, ErrInvalidValue)
	}
	t.links[int(from)*n+int(to)] = l
	return nil
}
