package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"godwit/devices"
	"godwit/mem"
)

// Faults. A device that is wrapped here gets every call that the runtime makes of
// its queues and its memory, also those that the runtime makes on its own account,
// and any of them may be refused, or be accepted and fail: before it has done
// anything, or when it has done all. Faults come alone and in a row, so that who
// tries again may fail again; or one call is struck, the n-th of its kind (strike).
//
// What was struck is kept, since the verdict must know it: which points of the
// user's commands, and which bytes of which buffer the copies were to carry that the
// runtime submitted by itself. Both are seen where the driver is called, so that
// they do not rest on what the planner says.

// errFault is why a struck call fails.
var errFault = errors.New("injected fault")

// fault is what becomes of a call.
type fault uint8

// The faults.
const (
	faultNone    fault = iota
	faultRefused       // nothing is accepted
	faultUndone        // accepted, and fails when its waits have ended
	faultDone          // accepted, done, and failed then
)

// String says what became of the call.
func (f fault) String() string {
	return [...]string{"", "refused", "failed undone", "failed when done"}[f]
}

// callKind is a kind of call that a driver gets.
type callKind string

// The kinds of calls that may be struck.
const (
	callCommand     callKind = "user's command" // Queue.Submit
	callCopy        callKind = "runtime's copy" // Queue.Submit, of legs too
	callBatch       callKind = "batch"          // Batcher.SubmitBatch
	callLane        callKind = "lane's copy"    // Shuttle.Start, Shuttle.Finish
	callAlloc       callKind = "allocation"     // Resource.AllocAll
	callStaging     callKind = "staging"        // Resource.AllocAll of page-locked memory
	callView        callKind = "view"           // Viewer.View
	callLend        callKind = "lend"           // SVMSpace.Lend, which the driver calls
	callFree        callKind = "free"           // Resource.FreeAfter
	callFlush       callKind = "flush"          // Queue.Flush
	callNewQueue    callKind = "new queue"      // Device.NewQueue
	callBuild       callKind = "build"          // Device.Build
	callPin         callKind = "pinned memory"  // PageLocker.PinnedMemory
	callReserve     callKind = "reserve svm"    // Device.ReserveSVM
	callCloseModule callKind = "close module"   // Module.Close
	callCloseQueue  callKind = "close queue"    // Queue.Close
	callCloseDevice callKind = "close device"   // Device.Close
)

// calls says of each kind when it is struck: at random while the history runs, or only as the one
// call that is, which may also come while the context opens, or closes.
var calls = map[callKind]phase{
	callCommand: running, callCopy: running, callBatch: running, callLane: running,
	callAlloc: running, callStaging: running, callView: running, callLend: running,
	callNewQueue: opening, callBuild: opening, callPin: opening, callReserve: opening,
	callFree: closing, callCloseModule: closing, callCloseQueue: closing, callCloseDevice: closing, callFlush: quiet,
}

// strike is the one call that is struck.
type strike struct {
	call  callKind
	nth   int // of its kind, from 1
	fault fault
}

// drawStrike draws one of a call that a history is likely to make.
func drawStrike(seed uint64) *strike {
	dice := rand.New(rand.NewPCG(seed, 5))
	often := []callKind{callFree, callCopy, callBatch, callAlloc, callStaging, callCommand}
	return &strike{often[dice.IntN(len(often))], 1 + dice.IntN(40), faultRefused + fault(dice.IntN(3))}
}

// phase is where a run is.
type phase uint8

const (
	quiet phase = iota // nothing is struck
	opening
	running
	closing
)

// strikes reports whether a call may be struck in a phase: while the context opens,
// what fails it; while it closes, what leaves it nothing to do about it.
func (p phase) strikes(c callKind) bool { return p == running || p != quiet && calls[c] == p }

// Faults strike the devices that it wraps, about one call in Every, or one. It serves
// one run.
type Faults struct {
	seed  uint64  // immutable
	every int     // immutable
	only  *strike // immutable; nil strikes at random
	// pieces says that the runtime may submit what it has accepted long before. Immutable.
	pieces bool

	mu      sync.Mutex
	phase   phase                       // protected by mu
	dice    *rand.Rand                  // protected by mu
	again   fault                       // protected by mu: what becomes of the next call, too
	devs    map[devices.Device]int      // protected by mu: memories of the wrapped devices, from 1
	blocks  map[placed]owned            // protected by mu
	own     map[mem.Point]bool          // protected by mu: user's commands that were struck and accepted
	parts   []*part                     // protected by mu: of user's commands, what else was called for them
	hits    []hit                       // protected by mu: copies that were struck and accepted
	at      int                         // protected by mu: the place in the log
	epoch   int                         // protected by mu: how often all was calm
	strikes map[string]int              // protected by mu: how often, by what was struck
	calls   map[callKind]int            // protected by mu: how many were made that could be struck
	last    map[*mem.Timeline]mem.Point // protected by mu: of hidden queues
}

// part is what a driver called, or was called for, to carry out a user's command: if
// it is struck, the command may fail. Protected by Faults.mu.
type part struct {
	point  mem.Point // zero until it is accepted
	memory int       // of a copy that a Carrier does: the device's end
	block  mem.Block
	bytes  mem.Range
	struck bool
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
	any    bool // nobody knows which bytes
}

func newFaults(seed uint64, every int, only *strike) *Faults {
	f := &Faults{
		seed: seed, every: every, only: only, calls: make(map[callKind]int), dice: rand.New(rand.NewPCG(seed, 77)), devs: make(map[devices.Device]int), blocks: make(map[placed]owned),
		own: make(map[mem.Point]bool), strikes: make(map[string]int), last: make(map[*mem.Timeline]mem.Point),
	}
	for c := range calls {
		f.calls[c] = 0
	}
	return f
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
	f.phase, f.at, f.epoch, f.again = running, at, epoch, faultNone
	f.dice = rand.New(rand.NewPCG(f.seed, uint64(op)))
}

// enter says where the run is.
func (f *Faults) enter(p phase) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = p
}

// draw says what becomes of a call, which what describes.
func (f *Faults) draw(c callKind, what string) (x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.drawLocked(c, what)
}

func (f *Faults) drawLocked(c callKind, what string) (x fault) {
	if !f.phase.strikes(c) {
		return faultNone
	}
	f.calls[c]++
	switch {
	case f.only != nil:
		if f.only.call != c || f.only.nth != f.calls[c] {
			return faultNone
		}
		x = f.only.fault
	case calls[c] != running || f.phase != running:
		return faultNone
	case f.again != faultNone:
		x, f.again = f.again, faultNone
	case f.dice.IntN(f.every) != 0:
		return faultNone
	default:
		x = faultRefused + fault(f.dice.IntN(3))
		if f.dice.IntN(3) == 0 {
			f.again = faultRefused + fault(f.dice.IntN(3))
		}
	}
	f.strikes[what+" "+x.String()]++
	return x
}

// fails is draw for calls that are refused, or not.
func (f *Faults) fails(c callKind) error {
	if f != nil && f.draw(c, string(c)) != faultNone {
		return fmt.Errorf("%s: %w", c, errFault)
	}
	return nil
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

// owned says whose bytes a block holds, from which of them on.
type owned struct {
	buffer mem.BufferID
	off    uint64
}

func (f *Faults) hitLocked(cmd *devices.Command) {
	for _, end := range []devices.Loc{cmd.Dst, cmd.Src} {
		memory, bytes := f.devs[end.Device], mem.Range{Start: end.Off, End: end.Off + cmd.Size}
		of, ok := f.blocks[placed{memory, end.Block}]
		if end.Device == nil || !ok {
			continue // not a buffer's
		}
		f.hits = append(f.hits, hit{at: f.at, epoch: f.epoch, buffer: of.buffer, bytes: bytes.Shift(of.off)})
		for _, p := range f.parts { // or a part of what a Carrier does
			if p.memory == memory && p.block == end.Block && p.bytes.Contains(bytes) {
				p.struck = true
			}
		}
		return
	}
	f.hitAnyLocked() // from window to window
}

// hitAny notes that what was struck may have been for any bytes, and any command.
func (f *Faults) hitAny() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hitAnyLocked()
}

func (f *Faults) hitAnyLocked() {
	f.hits = append(f.hits, hit{at: f.at, epoch: f.epoch, any: true})
	for _, p := range f.parts {
		p.struck = true
	}
}

// carries notes a copy that a Carrier is to do for a user's command, before the command
// is submitted.
func (f *Faults) carries(cmd *devices.Command) *part {
	end := cmd.Dst
	if end.Device == nil {
		end = cmd.Src
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &part{memory: f.devs[end.Device], block: end.Block, bytes: mem.Range{Start: end.Off, End: end.Off + cmd.Size}}
	f.parts = append(f.parts, p)
	return p
}

// of notes the point of the command that it is a part of.
func (p *part) of(f *Faults, point mem.Point) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.point = point
}

// partly reports whether what was to be done for a user's command was struck, so that it
// may have failed.
func (f *Faults) partly(p mem.Point) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.parts, func(x *part) bool { return x.struck && x.point == p })
}

// was reports whether a call of that kind was struck.
func (f *Faults) was(kinds ...callKind) bool {
	if f == nil || f.only == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(kinds, f.only.call) && f.calls[f.only.call] >= f.only.nth
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
