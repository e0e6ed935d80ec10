package svm

import (
	"fmt"
	"runtime/debug"

	"godwit/mem"
)

// keptEntries is how many frees and unmaps an arena remembers.
const keptEntries = 4096

type entryKind uint8

const (
	freedEntry entryKind = iota
	unmappedEntry
)

// entry is something that ended.
type entry struct {
	kind  entryKind
	r     mem.Range
	gen   uint64
	block string
	by    string
}

// String says what ended, and by whom.
func (e entry) String() string {
	if e.kind == unmappedEntry {
		return fmt.Sprintf("%v of %s was unmapped by %s", e.r, e.block, e.by)
	}
	return fmt.Sprintf("%s was freed by %s", e.block, e.by)
}

// history is the youngest entries, in a ring.
type history struct {
	ring []entry
	next int
}

func (h *history) add(e entry) {
	if len(h.ring) < keptEntries {
		h.ring = append(h.ring, e)
		return
	}
	h.ring[h.next] = e
	h.next = (h.next + 1) % keptEntries
}

// at is the youngest entry of a kind that concerns p.
func (h *history) at(p Pointer, kind entryKind) (entry, bool) {
	return h.last(func(e *entry) bool {
		return e.kind == kind && uint64(p) >= e.r.Start && uint64(p) < e.r.End
	})
}

func (h *history) last(ok func(e *entry) bool) (entry, bool) {
	for i := range h.ring {
		e := &h.ring[(h.next+len(h.ring)-1-i)%len(h.ring)]
		if ok(e) {
			return *e, true
		}
	}
	return entry{}, false
}

// ErrFault says that the host touched shared virtual memory that it may not.
var ErrFault = mem.Sentinel("shared virtual memory touched outside a map", mem.InvalidOperation)

// Fault is a touch that the host had no right to. It is an ErrFault.
type Fault struct {
	Addr Pointer
	Why  string // Explain of it
}

// Error names the address and says why.
func (f *Fault) Error() string { return fmt.Sprintf("touch of %v: %s: %v", f.Addr, f.Why, ErrFault) }

// Unwrap is ErrFault.
func (f *Fault) Unwrap() error { return ErrFault }

// Guard runs f, and makes a touch of the arena by f that the host has no right
// to an error: a *Fault with the address, the block, and who freed or unmapped
// it. It works for Go code on the calling goroutine only; a goroutine of f's
// must have a Guard of its own. What f panics with otherwise goes on.
func (a *Arena) Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		at, ok := v.(interface{ Addr() uintptr })
		if !ok || !a.Holds(Pointer(at.Addr())) {
			panic(v)
		}
		p := Pointer(at.Addr())
		err = &Fault{Addr: p, Why: a.Explain(p)}
	}()
	f()
	return nil
}

// Explain says in one sentence what is at an address of the arena, and whether
// the host may touch it; where not, why.
func (a *Arena) Explain(p Pointer) string {
	if !a.Holds(p) {
		return fmt.Sprintf("it is no address of arena %s, %v", a.name, a.Bounds())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.at(p)
	switch {
	case a.closed:
		return fmt.Sprintf("arena %s was closed", a.name)
	case b == nil || b.freed:
		return a.explainNone(p)
	}
	where := fmt.Sprintf("byte %d of %s", uint64(p-b.Start), b.label())
	if b.Flags&FineGrain != 0 {
		return where + ", which is fine-grained: the host may touch it at any time"
	}
	for _, m := range b.maps {
		if uint64(p) < m.r.Start || uint64(p) >= m.r.End {
			continue
		}
		switch {
		case m.state == mapWanted || (m.state == mapLeaving && !m.had):
			return where + ", which is to be mapped, but the map has not ended"
		case m.flags.Writes():
			return where + ", which is mapped for writing"
		}
		return where + ", which is mapped for reading only"
	}
	if e, ok := a.past.at(p, unmappedEntry); ok && e.gen == b.Gen {
		return where + fmt.Sprintf(", which is not mapped: %v", e)
	}
	return where + ", which is not mapped"
}

// explainNone says what was at an address where nothing is. mu is held.
func (a *Arena) explainNone(p Pointer) string {
	if e, ok := a.past.at(p, freedEntry); ok {
		return fmt.Sprintf("byte %d of a block that is gone: %v", uint64(p)-e.r.Start, e)
	}
	if c, ok := a.region.Lookup(uint64(p)); ok {
		if b := a.blocks[c]; b != nil {
			return fmt.Sprintf("%d bytes past the end of %s", uint64(p-b.Start)-b.Size, b.label())
		}
	}
	return "nothing is allocated there"
}
