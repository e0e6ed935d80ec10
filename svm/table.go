package svm

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"godwit/mem"
)

// What a signal handler can say of a touch.
//
// A touch from Go is explained by Guard. One from C, or from a kernel that runs
// in this process, kills it in a signal handler, which may take no lock, call no
// Go and allocate nothing. So an arena that is watched keeps what Explain would
// say of each of its addresses in a table outside the Go heap, ready to be
// printed: a slot for each piece of a block about which one sentence is true,
// with the text that follows the number in it. The newest slot that holds an
// address counts. Writing is under Arena.mu; the handler reads without, and looks
// again where the count of changes was odd, or another one afterwards.
//
// Nobody pays where nobody watches.

// Watch makes a table known to a signal handler until stop is called. See package
// internal/svmfault.
type Watch func(t *Table) (stop func(), err error)

// The kinds of slots.
const (
	slotFree  = iota
	slotInto  // "byte N of text"
	slotAfter // "N bytes past the end of text"
)

const (
	tableSlots = 32 << 10
	slotText   = 472 // bytes
)

// tableHead is the start of a table. internal/svmfault/table.h has it in C.
type tableHead struct {
	base, size uint64 // addresses of the arena
	changes    uint64 // atomic: odd while the table is written
	guards     int64  // atomic: Guards under way, which explain a touch of Go's
	used       uint64 // slots beyond are free
	name       [64]byte
}

// slot is 512 bytes. internal/svmfault/table.h has it in C.
type slot struct {
	start, end uint64 // addresses
	origin     uint64 // N is counted from here
	stamp      uint64 // of two, the larger one is newer
	kind, size uint32 // size of text, in bytes
	text       [slotText]byte
}

// Table is what a signal handler reads of an arena.
type Table struct {
	memory []byte
	head   *tableHead
	slots  []slot
	stop   func()

	free  []uint32   // protected by Arena.mu
	stamp uint64     // protected by Arena.mu
	past  [][]uint32 // protected by Arena.mu: slots of blocks that are gone, oldest first
}

// newTable makes an empty table for an arena and shows it to watch.
func newTable(name string, bounds mem.Range, watch Watch) (*Table, error) {
	size := int(unsafe.Sizeof(tableHead{})) + tableSlots*int(unsafe.Sizeof(slot{}))
	memory, err := mapView(nil, size, mayRead|mayWrite)
	if err != nil {
		return nil, fmt.Errorf("table of arena %s: %w: %w", name, err, mem.ErrNoHostMemory)
	}
	t := &Table{memory: memory, head: (*tableHead)(unsafe.Pointer(&memory[0]))}
	t.slots = unsafe.Slice((*slot)(unsafe.Pointer(&memory[unsafe.Sizeof(tableHead{})])), tableSlots)
	t.head.base, t.head.size = bounds.Start, bounds.Size()
	copy(t.head.name[:len(t.head.name)-1], name)
	if t.stop, err = watch(t); err != nil {
		return nil, fmt.Errorf("watch over arena %s: %w", name, unmapTable(memory, err))
	}
	return t, nil
}

func unmapTable(memory []byte, err error) error {
	if e := unmapView(memory); e != nil && err == nil {
		return e
	}
	return err
}

// Bytes is the table's memory, which stays until the arena is closed.
func (t *Table) Bytes() []byte { return t.memory }

// Sizes are those of the table's parts in bytes, for the C side to agree with.
func (t *Table) Sizes() (head, slotSize uintptr) {
	return unsafe.Sizeof(tableHead{}), unsafe.Sizeof(slot{})
}

// close takes the table away.
func (t *Table) close() error {
	if t == nil {
		return nil
	}
	t.stop()
	return unmapTable(t.memory, nil)
}

// guard counts Guards under way.
func (t *Table) guard(n int64) {
	if t != nil {
		atomic.AddInt64(&t.head.guards, n)
	}
}

// tell writes what is to be said of b's addresses. mu is held.
func (a *Arena) tell(b *block) {
	t := a.table
	if t == nil || a.closed {
		return
	}
	atomic.AddUint64(&t.head.changes, 1)
	defer atomic.AddUint64(&t.head.changes, 1)
	t.drop(b.slots)
	b.slots = b.slots[:0]
	edges := a.edges(b)
	for i, start := range edges[:len(edges)-1] {
		n, kind, text := a.explain(Pointer(start))
		b.slots = t.add(b.slots, mem.Range{Start: start, End: edges[i+1]}, n, kind, text)
	}
}

// tellGone leaves only what is said of a block once its addresses rest. mu is
// held.
func (a *Arena) tellGone(b *block) {
	t := a.table
	if t == nil || a.closed {
		return
	}
	atomic.AddUint64(&t.head.changes, 1)
	defer atomic.AddUint64(&t.head.changes, 1)
	kept := slices.DeleteFunc(b.slots, func(i uint32) bool {
		after := t.slots[i].kind != slotInto
		if after {
			t.drop([]uint32{i})
		}
		return after
	})
	t.past = append(t.past, kept)
	if len(t.past) > keptEntries {
		t.forget()
	}
}

// edges are where something else may have to be said within b, and behind it to
// the end of its pages. mu is held.
func (a *Arena) edges(b *block) []uint64 {
	r := b.whole()
	end, _ := mem.AlignUp(r.End, a.page)
	edges := []uint64{r.Start, r.End, end}
	add := func(o mem.Range) {
		o = o.Intersect(r)
		if o.Start < o.End {
			edges = append(edges, o.Start, o.End)
		}
	}
	for _, m := range b.maps {
		add(m.r)
	}
	const most = 64 // unmaps that are told apart, the youngest
	seen := 0
	for e := range a.past.youngest() {
		if e.kind == unmappedEntry && e.gen == b.Gen && !b.freed {
			add(e.r)
			if seen++; seen == most {
				break
			}
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

// add fills a slot for the addresses r. mu is held.
func (t *Table) add(to []uint32, r mem.Range, n uint64, kind int, text string) []uint32 {
	if kind == slotFree {
		return to
	}
	for len(t.free) == 0 && t.head.used == tableSlots && len(t.past) > 0 {
		t.forget()
	}
	var i uint32
	switch {
	case len(t.free) > 0:
		i, t.free = t.free[len(t.free)-1], t.free[:len(t.free)-1]
	case t.head.used < tableSlots:
		i = uint32(t.head.used)
		t.head.used++
	default:
		return to // the handler knows the address, and no more
	}
	t.stamp++
	s := &t.slots[i]
	s.start, s.end, s.origin, s.stamp, s.kind = r.Start, r.End, r.Start-n, t.stamp, uint32(kind)
	s.size = uint32(copy(s.text[:], text))
	return append(to, i)
}

// drop frees slots. mu is held.
func (t *Table) drop(slots []uint32) {
	for _, i := range slots {
		t.slots[i].kind = slotFree
		t.free = append(t.free, i)
	}
}

// forget frees the slots of the block that is gone longest. mu is held.
func (t *Table) forget() {
	t.drop(t.past[0])
	t.past = t.past[1:]
}
