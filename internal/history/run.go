package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/devices"
	"godwit/eviction"
	"godwit/internal/flat"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// Config is what a history is replayed on.
type Config struct {
	Name string
	// Open is called for each run; the devices are closed by it. Where f is not nil,
	// they are wrapped by it.
	Open func(f *Faults) ([]devices.Device, error)
	// Context, where not nil, has the last word on the options of the context over devs.
	Context func(devs []devices.Device, o *runtime.Options)
	// Seen, where not nil, gives what a command over devs found, which keep no bytes: it is
	// compared in place of bytes, whose values are then anything.
	Seen       func(devs []devices.Device, command uint64) []flat.Seen
	Blind      bool    // devices keep no bytes at all: what is read is not compared
	Policy     string  // of evictions (eviction.ByName), or "belady", for which a run without Cap and faults says what is to come; "" has none
	Cap        uint64  // bytes of each device; 0 is its own memory
	Whole      bool    // no buffer is stored by range
	Every      int     // about one call in so many is struck (see Faults); 0 is none
	StrikeOne  bool    // one call is struck, which the history's seed draws
	EachCall   int     // the history is replayed again for each call that a driver gets, at most so many of a kind, which is struck
	StopAfter  int     // the context is closed after so many operations, whatever is under way; 0 is never
	strike     *strike // the one call that is struck; nil is none
	NoPeer     bool
	Figures    bool   // links with the host have a latency and a bandwidth
	Chunk      uint64 // most bytes of a chunk of a copy; 0 leaves that to its size
	Links      bool   // links between devices are open from the start
	Waits      bool   // an enqueue that finds no room waits for some, under a context that soon ends
	OutOfOrder bool
	Priorities bool          // queues differ in their priorities
	Graphs     bool          // neighbouring operations are recorded, and replayed as graphs
	Unchecked  bool          // leave Context.Check out of every step but the last
	Patience   time.Duration // after which a run that does not end counts as hung; 0 is 30 s
}

// replay is one run.
type replay struct {
	h      *History
	cfg    Config
	policy eviction.Policy // nil is none
	ctx    context.Context
	call   context.Context // of the enqueues of an operation
	by     devices.Executor
	c      *runtime.Context
	devs   []devices.Device
	queues []*queue
	views  []*runtime.Buffer
	prog   *runtime.Program
	kernel map[kind]*runtime.Kernel
	svmState
	account   account
	rec       *trace.Recorder
	last      uint64                  // the last of these commands
	seen      int                     // command records compared with the account
	needs     map[uint64][]mem.Access // by command: what the history says that it uses
	thens     map[uint64]func()       // by command: what the account is told after it
	events    map[int]runtime.Event   // by operation
	open      map[int]runtime.Event   // user events not set
	lent      []*lent                 // by root: nil where it lies over none
	due       []due
	taken     []*lent // to be ended with the context
	crowd     bool    // others use the context meanwhile
	maps      []*openMap
	graphs    []*round // for later
	recording bool     // commands are recorded
	told      bool     // somebody was told that a free was struck
	faults    *Faults  // nil where nothing is struck
	requests  []*request
	made      int // requests
	tenants   []*runtime.Tenant
	audits    int             // reads at the end
	epoch     int             // how often all was calm: everything had ended and was known to have
	firstIDs  []mem.BufferID  // of the roots, when the history begins
	owned     []runtime.Event // to be released
	log       []entry
	result    Result
}

// queue is a queue and what its device can do.
type queue struct {
	*runtime.Queue
	svm, fine bool   // commands may use such shared virtual memory
	without   *queue // any request; nil where it has none
}

// entry is an operation that was accepted: a command, or the renewal of a root.
type entry struct {
	op      *operation
	command uint64 // its place in the context's order; 0 for renewals
	event   runtime.Event
	got     []byte // by a read, once it has ended
	waits   []runtime.Event
	mapped  runtime.Event // of an unmap: the map's
	used    runtime.Event // of an unmap: of the host's use before it, if any
	void    bool          // an unmap that writes nothing, since the map is known to have failed
	epoch   int           // how often all was calm before it
	id      mem.BufferID  // of a renewal: the new root's
	freed   bool          // of an unmap: by the free of the pointer
	refused bool          // because bytes it reads were known to be lost
	round   []*operation  // of a refused graph: these may have been to read them
	after   uint64        // of a refused one: the last command before it
	around  bool          // reads nothing of what the host has mapped
	first   runtime.Event // of one by way of a transient: what brings bytes there
	of      *request      // nil is none
	gone    *entry        // because this was called off it failed
}

// Run replays h. An error is a failure of what is tested, or of the devices.
func Run(h *History, cfg Config) (Result, error) {
	res, _, err := replayed(h, cfg)
	return res, err
}

// replayed replays h, perhaps several times, and returns the configuration of the last.
func replayed(h *History, cfg Config) (Result, Config, error) {
	if cfg.EachCall > 0 {
		return eachCall(h, cfg)
	}
	res, err := once(h, cfg)
	return res, cfg, err
}

func once(h *History, cfg Config) (res Result, err error) {
	if cfg.StrikeOne {
		cfg.strike = drawStrike(h.Seed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(cfg.Patience, 30*time.Second))
	defer cancel()
	r := newReplay(ctx, h, cfg)
	if r.policy, err = policyOf(ctx, h, cfg); err != nil {
		return Result{}, err
	}
	defer func() { res = r.result }()
	err = r.setUp()
	if r.faults != nil {
		defer func() { r.result.Strikes, r.result.Calls = r.faults.strikes, r.faults.calls }()
		if errors.Is(err, errFault) {
			r.result.Unopened++
			return res, nil
		}
	}
	switch {
	case err != nil:
		return res, err
	case cfg.StopAfter > 0:
		return res, r.stop()
	case r.crowd:
		err = r.runTogether()
	default:
		err = r.run()
	}
	return res, errors.Join(err, r.tornDown())
}

// run replays all operations, and judges what came of them.
func (r *replay) run() error {
	r.faults.enter(quiet)
	if err := r.all(len(r.h.Ops)); err != nil {
		r.faults.enter(quiet)
		return err
	}
	r.faults.enter(quiet)
	return r.finish()
}

// all replays operations until so many are through, or a graph has brought it beyond.
func (r *replay) all(until int) error {
	for i, n := 0, 0; i < until; i += n {
		var err error
		if n = 0; r.cfg.Graphs {
			n, err = r.rounds(i)
		}
		if n == 0 && err == nil {
			n, err = 1, r.step(&r.h.Ops[i])
		}
		if err != nil {
			return fmt.Errorf("operation %d (%s): %w", r.h.Ops[i].ID, r.h.Ops[i].Kind, err)
		}
	}
	return nil
}

// tornDown is tearDown, of which a call may be struck: then it says so.
func (r *replay) tornDown() error {
	err := r.tearDown()
	if !r.faults.was(callFree, callCloseModule, callCloseQueue, callCloseDevice) {
		return err
	}
	if err == nil && !r.told {
		return fmt.Errorf("a %s that failed was told to nobody", r.faults.only.call)
	}
	return nil
}

func newReplay(ctx context.Context, h *History, cfg Config) *replay {
	return &replay{
		h: h, cfg: cfg, ctx: ctx, call: ctx, rec: &trace.Recorder{}, kernel: make(map[kind]*runtime.Kernel), views: make([]*runtime.Buffer, len(h.Views)),
		svmState: svmState{pointers: make([]runtime.Pointer, len(h.Roots)), stale: make([]bool, len(h.Roots)), unmaps: make([][]runtime.Event, len(h.Roots))},
		lent:     make([]*lent, len(h.Roots)),
		needs:    make(map[uint64][]mem.Access), thens: make(map[uint64]func()), events: make(map[int]runtime.Event), open: make(map[int]runtime.Event),
		result: newResult(h), crowd: h.goroutines() > 1,
	}
}

// step replays one operation on the context and the account.
func (r *replay) step(op *operation) error {
	if op.ID >= 0 {
		r.faults.begin(op.ID, len(r.log), r.epoch)
	}
	var before []runtime.TenantBytes
	if len(r.tenants) > 0 {
		before = r.c.Figures().Tenants
	}
	if err := errors.Join(r.do(op), r.floors(op, before)); err != nil {
		return errors.Join(err, r.takeBack(false))
	}
	return r.after()
}

// after checks what came of an operation.
func (r *replay) after() error {
	if err := r.takeBack(false); err != nil {
		return err
	}
	if err := r.compareMoves(); err != nil {
		return err
	}
	if r.cfg.Unchecked {
		return nil
	}
	return errors.Join(r.c.Check(), r.checkMaps())
}

// do gives the operation to the context and logs it where it was accepted.
func (r *replay) do(op *operation) error {
	at := op
	if op.Kind == opRenew || op.Kind == opFreePointer { // of a root, not of a view
		at = &operation{Queue: op.Queue, Dst: r.viewOf(op.Dst)}
	}
	return r.doOn(r.queueFor(at), op)
}

// hurry makes the context of an operation's calls, which ends soon where they may wait for room.
func (r *replay) hurry() (done func()) {
	r.call, done = r.ctx, func() {}
	if r.cfg.Waits {
		var end func()
		r.call, end = context.WithTimeout(r.ctx, 200*time.Microsecond)
		done = func() { end(); r.call = r.ctx }
	}
	return done
}

func (r *replay) doOn(q *queue, op *operation) error {
	defer r.hurry()()
	switch op.Kind {
	case opUser:
		e, err := r.c.NewUserEvent()
		if err == nil {
			r.open[op.ID], r.events[op.ID] = e, e
			r.owned = append(r.owned, e)
		}
		return err
	case opSet:
		return r.set(op.Ref, op.Fail)
	case opFinish:
		if op.Salt%2 == 0 {
			return errors.Join(r.setAll(), r.becalm(), r.takeBack(true))
		}
		return errors.Join(r.setAll(), r.finishQueue(q))
	case opRefuse:
		return r.refuse(q, op)
	case opAbort:
		return r.abort(op)
	case opRenew:
		if err := r.renew(q, op.Dst); err != nil {
			return err
		}
		r.log = append(r.log, entry{op: op, id: r.whole(r.viewOf(op.Dst)).ID()})
		return nil
	case opUnmap:
		return r.unmap(q, op)
	case opMapBriefly:
		return r.mapBriefly(q, op)
	case opFreePointer:
		return r.freePointer(q, op)
	case opCountBy:
		return r.countBy(op)
	case opCount:
		if len(r.maps) > 0 {
			return nil
		}
	}
	q, over := r.ofRequest(q, op)
	if over && !(op.Kind == opMap && r.stale[r.h.Views[op.Dst].Root]) { // else clash says what it fails with
		return r.tooLate(q, op)
	}
	if done, err := r.clash(q, op); done || err != nil {
		return err
	}
	got := []byte(nil)
	if op.reads() {
		got = make([]byte, op.bytes())
		for i := range got {
			got[i] = untouched
		}
	}
	wait := r.waits(op)
	e, err := r.enqueue(q, op, got, wait)
	if done, err := r.turnedDown(op, err); done || err != nil {
		return err
	}
	if op.Kind == opCount {
		r.account.setCount(r.views[op.Dst].ID(), op.counted())
	}
	return r.accepted(entry{op: op, event: e, got: got, waits: wait, around: r.around(op)})
}

// turnedDown settles an enqueue that failed for a reason that is allowed.
func (r *replay) turnedDown(op *operation, err error) (done bool, _ error) {
	r.hear(err)
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, mem.ErrPoisoned) && r.mayFail():
		x := entry{op: op, refused: true, epoch: r.epoch, after: r.last}
		if all := r.rec.CommandsFrom(r.seen); len(all) > 0 {
			x.after = all[len(all)-1].ID
		}
		r.log = append(r.log, x)
		r.result.Lost++
	case r.faults != nil && errors.Is(err, errFault), r.noRoom(err):
		r.result.Refused++
	default:
		return false, err
	}
	return true, nil
}

// hear notes that an error tells of a free that was struck: of a victim's block, or of one
// that a refused command needs no more.
func (r *replay) hear(err error) {
	if errors.Is(err, errFault) && r.faults.was(callFree) {
		r.told = true
	}
}

// noRoom reports whether an enqueue failed for want of memory, which devices may
// be short of.
func (r *replay) noRoom(err error) bool {
	if r.cfg.Waits && errors.Is(err, context.DeadlineExceeded) && r.ctx.Err() == nil {
		return true // hurry's, before it came to that
	}
	return errors.Is(err, mem.ErrNoMemory) || errors.Is(err, mem.ErrNoHostMemory)
}

// accepted logs a command.
func (r *replay) accepted(x entry) (err error) {
	if r.events[x.op.ID], x.epoch = x.event, r.epoch; x.op.Request > 0 {
		x.of = r.requests[x.op.Request-1]
	}
	if x.command, err = x.event.Command(); err != nil {
		return err
	}
	r.log = append(r.log, x)
	return nil
}

// took notes a command that was accepted, under the name of what was called, and
// what it uses.
func (r *replay) took(name string, e runtime.Event, err error, accs ...mem.Access) (runtime.Event, error) {
	if err != nil || r.recording {
		return e, err
	}
	r.owned = append(r.owned, e)
	r.result.Commands++
	r.result.Ops[name]++
	n, err := e.Command()
	r.needs[n] = accs
	return e, err
}

// mayFail reports whether commands of this run may fail once they are accepted.
func (r *replay) mayFail() bool { return r.h.Failing || r.h.Requests > 0 || r.faults != nil }

// waits is an operation's wait list.
func (r *replay) waits(op *operation) (wait []runtime.Event) {
	for _, id := range op.Wait {
		if e, ok := r.events[id]; ok {
			wait = append(wait, e)
		}
	}
	return wait
}

// finishQueue finishes a queue; what failed on it is no error where commands may.
func (r *replay) finishQueue(q *queue) error {
	err := q.Finish(r.ctx)
	if r.mayFail() && r.ctx.Err() == nil {
		return nil
	}
	return err
}

func (r *replay) set(id int, fail bool) error {
	e, ok := r.open[id]
	if !ok {
		return nil
	}
	delete(r.open, id)
	if fail {
		return e.SetStatus(-999)
	}
	return e.SetStatus(runtime.Complete)
}

func (r *replay) setAll() error {
	var errs []error
	for id := range r.open {
		errs = append(errs, r.set(id, false))
	}
	return errors.Join(errs...)
}
