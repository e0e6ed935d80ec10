package svm

import (
	"fmt"
	"iter"
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
		return fmt.Sprintf("[%#x, +%d) of it was unmapped by %s", e.r.Start, e.r.Size(), e.by)
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
	for e := range h.youngest() {
		if e.kind == kind && uint64(p) >= e.r.Start && uint64(p) < e.r.End {
			return *e, true
		}
	}
	return entry{}, false
}

// youngest lists the entries, the youngest first.
func (h *history) youngest() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range h.ring {
			if !yield(&h.ring[(h.next+len(h.ring)-1-i)%len(h.ring)]) {
				return
			}
		}
	}
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
	a.table.guard(1)
	defer a.table.guard(-1)
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
	if a.closed {
		return fmt.Sprintf("arena %s was closed", a.name)
	}
	switch n, kind, text := a.explain(p); kind {
	case slotInto:
		return fmt.Sprintf("byte %d of %s", n, text)
	case slotAfter:
		return fmt.Sprintf("%d bytes past the end of %s", n, text)
	}
	return "nothing is allocated there"
}

// explain is Explain of an address of the arena, in parts: the number in the
// sentence, its kind, and what follows the number. mu is held.
func (a *Arena) explain(p Pointer) (n uint64, kind int, text string) {
	b := a.at(p)
	if b == nil || b.freed {
		return a.explainNone(p)
	}
	n, kind = uint64(p-b.Start), slotInto
	if b.Flags&FineGrain != 0 {
		return n, kind, b.label() + ", which is fine-grained: the host may touch it at any time"
	}
	for _, m := range b.maps {
		if uint64(p) < m.r.Start || uint64(p) >= m.r.End {
			continue
		}
		switch {
		case !m.granted:
			return n, kind, b.label() + ", which is to be mapped, but the map has not ended"
		case m.flags.Writes():
			return n, kind, b.label() + ", which is mapped for writing"
		}
		return n, kind, b.label() + ", which is mapped for reading only"
	}
	if e, ok := a.past.at(p, unmappedEntry); ok && e.gen == b.Gen {
		return n, kind, fmt.Sprintf("%s, which is not mapped: %v", b.label(), e)
	}
	return n, kind, b.label() + ", which is not mapped"
}

// explainNone is explain of an address where nothing is. mu is held.
func (a *Arena) explainNone(p Pointer) (n uint64, kind int, text string) {
	if c, ok := a.region.Lookup(uint64(p)); ok {
		if b := a.blocks[c]; b != nil && !b.Contains(p, 1) {
			return uint64(p-b.Start) - b.Size, slotAfter, b.label()
		}
	}
	if e, ok := a.past.at(p, freedEntry); ok {
		return uint64(p) - e.r.Start, slotInto, fmt.Sprintf("a block that is gone: %v", e)
	}
	return 0, slotFree, ""
}
