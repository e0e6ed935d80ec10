package history

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"godwit/internal/ledger"
	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/mem/trace"
)

// account says how many bytes each command needed that were not where it needed
// them, twice: the oracle from what the history says that a command uses, byte by
// byte; the ledger, which explanations and their lower bounds rest on, from what the
// trace says, in ranges. They must agree.
type account struct {
	mu     *sync.Mutex // held to create: the histories of a crowd do so at once
	oracle *oracle.Oracle
	ledger *ledger.Ledger[uint64] // writers are commands
	counts map[mem.BufferID]uint64
	// transient are the buffers in which graphs have transients. Their content ends with a round: it may be
	// lost. What uses them is taken from the trace, since only the graph knows where in them its transients are.
	transient map[mem.BufferID]bool
}

// created stands for the command that gave a buffer its first content.
const created = math.MaxUint64

func newAccount(topo *mem.Topology) account {
	return account{new(sync.Mutex), oracle.New(topo), ledger.New[uint64](topo.Store), make(map[mem.BufferID]uint64), make(map[mem.BufferID]bool)}
}

// create opens the account of a buffer, with content or without.
func (a *account) create(id mem.BufferID, size uint64, content bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if content {
		a.ledger.Create(id, size, created)
		return a.oracle.Create(id, size, mem.SetOf(mem.Host))
	}
	a.ledger.Create(id, size, 0)
	return a.oracle.Create(id, size, mem.MemorySet{})
}

// arenas opens the accounts of what graphs have made of late for their transients, all at once or one by one.
func (a *account) arenas(made []trace.BufferRecord) error {
	for i := len(made) - 1; i >= 0; i-- {
		b := &made[i]
		if !strings.HasPrefix(b.Name, "transient") || b.Released || a.transient[b.Buffer] {
			continue
		}
		a.transient[b.Buffer] = true
		if err := a.create(b.Buffer, b.Size, false); err != nil {
			return err
		}
	}
	return nil
}

// byTransient are the uses of transients by a command.
func (a *account) byTransient(c *trace.CommandRecord) (accs []mem.Access) {
	for _, u := range c.Accesses {
		if a.transient[u.Buffer] {
			accs = append(accs, u)
		}
	}
	return accs
}

// countBy makes size the size buffer of a buffer, or takes it away where size is 0.
func (a *account) countBy(id, size mem.BufferID) error {
	a.ledger.CountBy(id, size)
	return a.oracle.SetContentSize(id, size)
}

func (a *account) setCount(size mem.BufferID, n uint64) {
	a.counts[size] = n
	a.oracle.SetCount(size, n)
}

func (a *account) mapped(u mem.Access) {
	a.ledger.Mapped(u.Buffer, u.Range)
	a.oracle.Mapped(u.Buffer, u.Range)
}

func (a *account) unmapped(u mem.Access) {
	a.ledger.Unmapped(u.Buffer, u.Range)
	a.oracle.Unmapped(u.Buffer, u.Range)
}

// evicted replays what left memories for a command, and returns how many bytes were
// written back first.
func (a *account) evicted(c *trace.CommandRecord) (back uint64, err error) {
	for i := range c.Evictions {
		for k := range c.Evictions[i].Backs {
			s := &c.Evictions[i].Backs[k]
			if s.Point.IsZero() {
				continue // refused
			}
			a.oracle.Along(s.Buffer, s.Range, s.From, s.To)
			back += s.Range.Size()
			a.ledger.Brought(s, 0, false)
		}
	}
	for i := range c.Evictions {
		v := &c.Evictions[i]
		booked, lost := a.ledger.Evicted(v.Buffer, v.Memory, v.Range), a.oracle.Evicted(v.Buffer, v.Memory, v.Range)
		if booked+lost > 0 && !a.transient[v.Buffer] {
			return back, fmt.Errorf("%d leaves memory %d with %d bytes (of the ledger %d) that are nowhere else", v.Buffer, v.Memory, lost, booked)
		}
	}
	return back, nil
}

// command replays a command that uses accs, and returns how many bytes had to move for
// it, and how many came along.
func (a *account) command(c *trace.CommandRecord, accs []mem.Access) (bytes, along uint64, err error) {
	counted := func(s *trace.StepRecord) (uint64, bool) { n, known := a.counts[s.Count]; return n, known }
	booked := a.ledger.Needed(c, counted)
	bytes, err = a.oracle.Prefetch(accs)
	if err != nil {
		return 0, 0, err
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		n, known := counted(s)
		a.ledger.Brought(s, n, known)
		if s.RideAlong > 0 {
			a.oracle.Along(s.Buffer, s.Range, s.From, s.To)
			along += s.RideAlong
		}
	}
	a.ledger.Wrote(c.ID, c.Accesses, false)
	rest, err := a.oracle.Enqueue(accs)
	if bytes += rest; err == nil && booked != bytes {
		err = fmt.Errorf("the ledger says that %d bytes had to move, the oracle %d", booked, bytes)
	}
	return bytes, along, err
}
