package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"godwit/bufalloc"
	"godwit/mem"
)

// Allocator is an allocator of one's own: it gives addresses in [0, size) for
// requests, and keeps its own account of what is live. It can be replayed,
// fuzzed, timed and drawn like bufalloc's strategies; a Region it cannot serve
// (see bufalloc.Placement for that).
//
// Every address is checked, times apart: one that overlaps a live chunk is a
// Fault and ends the replay. An allocator is called by one goroutine at a time.
// bufalloctest.Allocator tests one.
type Allocator interface {
	// Alloc gives the address of size bytes, not 0, at a multiple of align, a
	// power of two. ok is false where there is no room; then nothing has changed.
	Alloc(size, align uint64, hint mem.Hint) (addr uint64, ok bool)
	// Free gives back what Alloc gave at addr.
	Free(addr uint64)
}

// OpenAllocator makes an allocator of size bytes that will hold so many chunks
// at most. It fails where it cannot manage that size.
type OpenAllocator func(size uint64, chunks int) (Allocator, error)

// allocators are the registered ones, by name.
var allocators = struct {
	sync.RWMutex
	m map[string]OpenAllocator // protected by the mutex
}{m: make(map[string]OpenAllocator)}

// Register makes an allocator known by name, to whatever takes a strategy's
// name. It is for init functions, and panics where the name is taken, also by a
// strategy, or not a plain word.
func Register(name string, open OpenAllocator) {
	if name == "" || strings.ContainsAny(name, " :,\t\n") || open == nil {
		panic(fmt.Sprintf("replay: allocator %q: want a name without spaces, colons and commas, and a way to open it", name))
	}
	if _, err := bufalloc.ParseStrategy(name); err == nil {
		panic("replay: allocator " + name + " has the name of a strategy")
	}
	allocators.Lock()
	defer allocators.Unlock()
	if _, taken := allocators.m[name]; taken {
		panic("replay: allocator " + name + " registered twice")
	}
	allocators.m[name] = open
}

func registered() []Subject {
	allocators.RLock()
	defer allocators.RUnlock()
	var out []Subject
	for name, open := range allocators.m {
		out = append(out, &own{name, open})
	}
	slices.SortFunc(out, func(a, b Subject) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// OfAllocator is an allocator as a Subject without registering it.
func OfAllocator(name string, open OpenAllocator) Subject { return &own{name, open} }

// own is an Allocator as a Subject.
type own struct {
	name    string
	opening OpenAllocator
}

func (o *own) Name() string { return o.name }
func (o *own) Exact() bool  { return false }

func (o *own) open(_ context.Context, st *Stream, size uint64, _ asking) (machine, error) {
	return o.start(st, size)
}

func (o *own) contend(_ context.Context, st *Stream, size uint64) (contender, error) {
	s, err := o.start(st, size)
	return &local{st: st, x: s}, err
}

func (o *own) start(st *Stream, size uint64) (*ownState, error) {
	s := &ownState{checked: checked{name: o.name, st: st, size: size, held: make([]uint64, st.Slots)}, o: o}
	s.ask = s.answer
	return s, s.start()
}

// ownState is an Allocator as a machine.
type ownState struct {
	checked
	o *own
	a Allocator
}

func (s *ownState) start() (err error) {
	defer s.caught(&err)
	s.ledger = newLedger(s.size)
	if s.a, err = s.o.opening(s.size, s.st.Slots); err != nil {
		return fmt.Errorf("%s, %s: %w", s.st.Name, s.o.name, err)
	}
	return nil
}

// caught makes a panic of the allocator a Fault.
func (s *ownState) caught(err *error) {
	if f := s.recovered(recover()); f != nil {
		*err = f
	}
}

func (s *ownState) recovered(x any) *Fault {
	if x == nil {
		return nil
	}
	return &Fault{Subject: s.o.name, Kind: Crash, Op: -1, Detail: fmt.Sprintf("panic: %v", x)}
}

func (s *ownState) perform(op Op) bool {
	if op.Size == 0 {
		if addr := s.held[op.Slot]; addr != NoPlace {
			s.a.Free(addr)
		}
		return true
	}
	addr, ok := s.a.Alloc(roundTo(op.Size, s.st.Align), s.st.Align, op.hint())
	if !ok {
		addr = NoPlace
	}
	s.held[op.Slot] = addr
	return ok
}

// answer performs an operation for the ledger.
func (s *ownState) answer(op Op) (addr uint64, err error) {
	defer s.caught(&err)
	s.perform(op)
	return s.held[op.Slot], nil
}

// reset starts over; an allocator that opened once opens again.
func (s *ownState) reset() {
	if err := s.start(); err != nil {
		panic(err)
	}
}

func (s *ownState) bookkeeping() (used, aside uint64) { return 0, 0 }
