package history

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Faults. A device that is wrapped here gets every call that the runtime makes of
// its queues and its memory, also those that the runtime makes on its own account,
// and any of them may be refused, or be accepted and fail: before it has done
// anything, or when it has done all. Faults come alone and in a row, so that who
// tries again may fail again.
//
// What was struck is kept, since the verdict must know it: which points of the
// user's commands, and which bytes of which buffer the copies were to carry that the
// runtime submitted by itself. Both are seen where the driver is called, so that
// they do not rest on what the planner says.

// errFault is why a struck call fails.
var errFault = errors.New("injected fault")

// fault is what becomes of a call.
type fault uint8

const (
	none   fault = iota
	refuse       // nothing is accepted
	undone       // accepted, and fails when its waits have ended
	done         // accepted, done, and failed then
)

// Faults strike the devices that it wraps, about one call in Every. It serves one run.
type Faults struct {
	seed  uint64 // immutable
	every int    // immutable

	mu      sync.Mutex
	on      bool                        // protected by mu
	dice    *rand.Rand                  // protected by mu
	again   fault                       // protected by mu: what becomes of the next call, too
	devs    map[devices.Device]int      // protected by mu: memories of the wrapped devices, from 1
	blocks  map[placed]mem.BufferID     // protected by mu
	own     map[mem.Point]bool          // protected by mu: user's commands that were struck and accepted
	hits    []hit                       // protected by mu: copies that were struck and accepted
	at      int                         // protected by mu: the place in the log
	epoch   int                         // protected by mu: how often all was calm
	strikes map[string]int              // protected by mu: how often, by what was struck
	last    map[*mem.Timeline]mem.Point // protected by mu: of hidden queues
}

// placed is a block on a memory.
type placed struct {
	memory int
	block  mem.Block
}

// hit is a copy that fails for itself: whoever reads these bytes, as written up to
// that place in the log, may fail with it.
type hit struct {
	at     int
	epoch  int
	buffer mem.BufferID
	bytes  mem.Range
}

func newFaults(seed uint64, every int) *Faults {
	return &Faults{
		seed: seed, every: every, dice: rand.New(rand.NewPCG(seed, 77)), devs: make(map[devices.Device]int), blocks: make(map[placed]mem.BufferID),
		own: make(map[mem.Point]bool), strikes: make(map[string]int), last: make(map[*mem.Timeline]mem.Point),
	}
}

// begin says which operation is next, where it is in the log, and how often all was
// calm before. Each operation has dice of its own, so that a history strikes alike when
// others are left out.
func (f *Faults) begin(op, at, epoch int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on, f.at, f.epoch, f.again = true, at, epoch, none
	f.dice = rand.New(rand.NewPCG(f.seed, uint64(op)))
}

// resume takes end back.
func (f *Faults) resume() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = true
}

// end ends the faults, until the next operation.
func (f *Faults) end() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = false
}

// draw says what becomes of a call.
func (f *Faults) draw(what string) (x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.on:
		return none
	case f.again != none:
		x, f.again = f.again, none
	case f.dice.IntN(f.every) != 0:
		return none
	default:
		x = refuse + fault(f.dice.IntN(3))
		if f.dice.IntN(3) == 0 {
			f.again = refuse + fault(f.dice.IntN(3))
		}
	}
	f.strikes[what+[]string{"", " refused", " failed undone", " failed when done"}[x]]++
	return x
}

// pause is how long a struck command lies before it fails: mostly not at all.
func (f *Faults) pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dice.IntN(4) != 0 {
		return 0
	}
	return time.Duration(f.dice.IntN(300)) * time.Microsecond
}

// add makes a wrapped device known.
func (f *Faults) add(d, plain devices.Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.devs)/2 + 1
	f.devs[d], f.devs[plain] = n, n
}

// took notes a command that was accepted.
func (f *Faults) took(q *faultyQueue, cmd *devices.Command, p mem.Point, struck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.user {
		if struck {
			f.own[p] = true
		}
		return
	}
	f.last[p.Line] = p
	if struck {
		f.hitLocked(cmd)
	}
}

// hit notes a copy that was struck.
func (f *Faults) hit(cmd *devices.Command) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hitLocked(cmd)
}

func (f *Faults) hitLocked(cmd *devices.Command) {
	for _, end := range []devices.Loc{cmd.Dst, cmd.Src} {
		if id, ok := f.blocks[placed{f.devs[end.Device], end.Block}]; end.Device != nil && ok {
			f.hits = append(f.hits, hit{f.at, f.epoch, id, mem.Range{Start: end.Off, End: end.Off + cmd.Size}})
			return
		}
	}
}

// struck reports whether a user's command was struck.
func (f *Faults) struck(p mem.Point) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own[p]
}

// taken are the hits so far.
func (f *Faults) taken() []hit {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// settle waits for what the runtime has submitted.
func (f *Faults) settle(ctx context.Context) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	var points []mem.Point
	for _, p := range f.last {
		points = append(points, p)
	}
	f.mu.Unlock()
	for _, p := range points {
		if err := p.WaitPassed(ctx); err != nil {
			return err
		}
	}
	return nil
}
