package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/migration"
)

// Eviction: what an enqueue does that finds no room on a memory, under the planner lock
// like all of it, so that nobody waits for a device:
//
//  1. caches of the memory's resource are given back (Trim), and it is asked again;
//  2. the planner says which blocks have to leave and what is written back first
//     (Planner.Evict): it asks here what fits (evictRoom);
//  3. storage for the write-backs is taken, all or none, and nothing leaves for it; what is
//     to be page-locked is so without the lock, and the command is planned again
//     (backpages.go);
//  4. write-backs are submitted and committed, as the steps that they are;
//  5. the victims are taken out of the planner, and their blocks freed after all points
//     that use them;
//  6. the resource is asked again, and gives their space with these points (mem.Reuse);
//  7. the command is planned anew: it waits for them.
//
// Where several memories are short and not enough may leave all of them at once, since a
// buffer's blocks leave one memory at a time, 2 to 6 are done for one after the other.
//
// What the command's other memories gave stays taken meanwhile. A failure up to 3 changes
// nothing but caches. One in 4 leaves good copies; no block has left. Where 6 fails,
// since somebody else took the space or the resource promised too much, it begins anew,
// and at least one block more has to leave each time; after evictRounds, and one for each
// memory, the enqueue fails (resource.OutOfMemory). Where space comes back only once commands have ended, of
// OpenCL's buffers that are no slabs' for one, the enqueue waits for that, without the
// lock, until it has got what it evicted for. It waits only for points that hang on nothing
// (gate.go), as they were listed under the lock.
const evictRounds = 8

// evicting is what enqueues need for evictions. Protected by Context.mu.
type evicting struct {
	policy   eviction.Policy
	ahead    *eviction.Round   // what this enqueue's go by, where not nil
	observer eviction.Observer // policy, once a memory was half full
	unseen   []uint64          // by memory: bytes to be got before it is worth a look whether it is
	plan     *migration.Plan   // what needs room; nil is no command
	nothing  migration.Plan    // of who gives room to another context
	capped   bool              // the last certificate is for a cap of the context's own; where there is a broker
	ev       migration.Eviction
	why      migration.Eviction // of certificates
	reqs     []mem.Request
	gone     []mem.Block
	given    [1]mem.Block
	short    []mem.MemoryID
	rounds   int
	did      bool // this enqueue has evicted something, now or before it waited for room
	old      bool // blocks are asked for as if they took no other's place
	copies   migration.Plan
	into     *want // the new block, while copies are submitted
	until    []mem.Point
	locked   uint64                 // bytes of page-locked storage for write-backs
	pages    *backPages             // of this enqueue, for more of it; nil is none
	moves                           // of the steps that are no command's
	stored   []trace.BlockRecord    // for write-backs, and in no record yet; where anybody wants to know
	records  []trace.EvictionRecord // of this enqueue, where anybody wants to know
	regrows  []trace.StepRecord     // likewise
}

// evictRoom answers the planner.
type evictRoom struct{ c *Context }

var _ migration.Room = evictRoom{}

// wanted lists what the scratch plan still wants on a memory. c.mu is held.
func (c *Context) wanted(m mem.MemoryID) []mem.Request {
	e := &c.evicting
	e.reqs = e.reqs[:0]
	for i := range c.scratch.wants {
		if w := &c.scratch.wants[i]; w.Memory == m && w.block.IsZero() {
			q := c.request(w.Want)
			if e.old && !w.Span.Empty() {
				q.Size = w.Span.Size()
			}
			e.reqs = append(e.reqs, q)
		}
	}
	return e.reqs
}

// request is what is asked of a resource for a wanted block. c.mu is held.
func (c *Context) request(w migration.Want) mem.Request {
	return mem.Request{Size: w.Range.Size(), Tag: uint64(w.Buffer), Off: w.Range.Start, Hint: c.roots[w.Buffer].hint, Lock: c.lockable(w)}
}

// Fits implements migration.Room.
func (r evictRoom) Fits(m mem.MemoryID, victims []migration.Victim) bool {
	c := r.c
	e := &c.evicting
	e.gone = e.gone[:0]
	for i := range victims {
		b, _ := c.roots[victims[i].Buffer].blockAt(m, victims[i].Range.Start)
		e.gone = append(e.gone, *b)
	}
	return c.fits(m, c.wanted(m), victims, &c.scratch.reuse)
}

// fits reports whether requests would find room on a memory, and pass no tenant's cap, if the victims were gone, whose blocks
// are in evicting.gone. c.mu is held.
func (c *Context) fits(m mem.MemoryID, reqs []mem.Request, victims []migration.Victim, reuse *mem.Reuse) bool {
	var gone []mem.Block
	if len(victims) > 0 {
		gone = c.evicting.gone
	}
	return c.mems[m].res.Fits(reqs, gone, reuse) && c.fitsTenants(m, reqs, victims, reuse)
}

// Takes implements migration.Room. A device that would have less than an eighth of its
// memory left takes nothing: it would be the next to be short.
func (r evictRoom) Takes(m mem.MemoryID, wants []migration.Want, more migration.Want) bool {
	c := r.c
	reqs := c.wanted(m)
	for _, w := range wants {
		if w.Memory == m {
			reqs = append(reqs, c.request(w))
		}
	}
	reqs = append(reqs, c.request(more))
	c.evicting.reqs = reqs
	if m != mem.Host {
		var total uint64
		for _, q := range reqs {
			total += q.Size
		}
		if st := c.mems[m].res.Stats(); st.Capacity != 0 && st.Live+st.Pending+total > st.Capacity/8*7 {
			return false
		}
	}
	return c.fits(m, reqs, nil, nil)
}

// Stays implements migration.Room.
func (r evictRoom) Stays(v migration.Victim, victims []migration.Victim) eviction.Why {
	root := r.c.roots[v.Buffer]
	switch {
	case root.pins[v.Memory] > 0:
		return eviction.Pinned
	case len(root.maps) > 0:
		return eviction.Mapped
	}
	return r.c.tenantKeeps(&v, victims)
}

// Hangs implements migration.Room.
func (r evictRoom) Hangs(p mem.Point) eviction.Why {
	g := &r.c.gates
	closed := gateSet(g.closed.Load())
	if closed == 0 {
		return eviction.Goes
	}
	return g.kind(r.c.gatesOf(p) & closed)
}

// observe has a policy that learns do so once a memory is half full: what is done while
// it fills is what a program does again when it is full. Until then a command costs
// nothing for it. A block of size bytes has come; how full the memory is is asked once half of
// what is missing has come since the last time. c.mu is held.
func (c *Context) observe(m mem.MemoryID, size uint64) {
	e := &c.evicting
	o, ok := e.policy.(eviction.Observer)
	if !ok || m == mem.Host {
		return
	}
	if size < e.unseen[m] {
		e.unseen[m] -= size
		return
	}
	if e.unseen[m] = c.mems[m].untilHalf(); e.unseen[m] == 0 {
		e.observer = o
	}
}

// untilHalf is half of the bytes that a memory lacks until it is half full, which it never is
// where nobody knows how many it has.
func (m *memory) untilHalf() uint64 {
	st := m.res.Stats()
	half := cmp.Or(st.Capacity, m.info.GlobalMemory, math.MaxUint64) / 2
	return (half - min(st.Live, half)) / 2
}

// makeRoom evicts what the scratch plan needs the room of on the memories of
// evicting.short, and reports whether that was what new blocks were to take the place of, so
// that the command has to be planned again. It fails with an *errRoom where only waiting helps, else with a
// certificate. c.mu is held.
func (c *Context) makeRoom(plan *migration.Plan, outcome mem.Outcome) (again bool, err error) {
	e := &c.evicting
	if e.rounds++; e.rounds > evictRounds+len(c.mems) { // whatever the resource promises
		return false, c.outOfMemory(e.short[0], outcome)
	}
	if c.evict(plan, false) {
		return false, c.carryOut()
	}
	if c.narrow() {
		e.rounds--
		return false, nil
	}
	e.old = true
	ok := c.exchanging() && c.evict(plan, true)
	if e.old = false; ok {
		return true, c.carryOut()
	}
	return false, c.noVictims(outcome)
}

// evict has the planner choose what leaves the memories of evicting.short. In one Eviction a
// buffer's blocks leave one memory only: where that is not enough for all of them, and is for
// each by itself, it chooses for the first, and the others are still short afterwards. c.mu is
// held.
func (c *Context) evict(plan *migration.Plan, old bool) bool {
	e := &c.evicting
	choose := func(short []mem.MemoryID) (ok bool) {
		c.hooks.call(&c.hooks.failed, func() {
			ok = c.planner.Evict(&e.ev, plan, short, 1, old, e.by(), evictRoom{c})
		})
		return ok
	}
	if ok := choose(e.short); ok || len(e.short) == 1 {
		return ok
	}
	for i := range slices.Backward(e.short) {
		if !choose(e.short[i : i+1]) {
			return false
		}
	}
	return true
}

// by is the policy of this enqueue's evictions.
func (e *evicting) by() eviction.Policy {
	if e.policy != nil && e.ahead != nil {
		return e.ahead
	}
	return e.policy
}

// exchanging reports whether some block that is short is to take the place of others. c.mu
// is held.
func (c *Context) exchanging() bool {
	for i := range c.scratch.wants {
		if w := &c.scratch.wants[i]; w.block.IsZero() && c.planner.Exchanges(&w.Want) {
			return true
		}
	}
	return false
}

// noVictims is the error where nothing more may go. c.mu is held.
func (c *Context) noVictims(outcome mem.Outcome) error {
	m := c.evicting.short[0]
	err := c.outOfMemory(m, outcome)
	if outcome == mem.NeedsWait {
		return &errRoom{error: err, points: c.mems[m].res.Pending(nil)}
	}
	for _, s := range c.evicting.why.Stays {
		if s.Why != eviction.OnCall {
			continue
		}
		// A host call ends by itself, unless it waits for this thread: for callers that
		// would wait anyway.
		room := &errRoom{error: err}
		room.points = c.planner.Points(room.points, s.Buffer, s.At, s.Range)
		return room
	}
	return err
}

// carryOut does what evicting.ev says: it submits the write-backs and frees the victims'
// blocks. c.mu is held.
func (c *Context) carryOut() error {
	e := &c.evicting
	if err := c.backStorage(); err != nil {
		return err
	}
	err := c.submitBeside(&e.ev.Backs)
	if err != nil {
		err = errors.Join(fmt.Errorf("write-back: %w", err), c.giveBackStorage())
		for i := range e.ev.Victims {
			if c.opts.Trace != nil {
				c.recordEviction(&e.ev.Victims[i], true)
			}
		}
		return err
	}
	for i := range e.ev.Victims {
		if e.ev.Victims[i].Back > 0 {
			c.mover.Leaves(e.ev.Victims[i].Memory)
		}
		if failed := c.evictOne(&e.ev.Victims[i]); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// backStorage takes the storage that write-backs need, all or none. c.mu is held.
func (c *Context) backStorage() error {
	wants := c.evicting.ev.Backs.Storage
	c.evicting.stored = c.evicting.stored[:0]
	if sizes := c.missingPages(wants); sizes != nil {
		return &errRoom{error: errPages, lock: sizes, evicted: c.evicting.did}
	}
	for i, w := range wants {
		if c.lockedStorage(w) {
			c.recordStored(w)
			continue
		}
		e := &c.evicting
		e.reqs = append(e.reqs[:0], c.request(w))
		outcome, err := c.alloc(w.Memory, e.reqs, e.given[:], nil)
		if err == nil && outcome != mem.Ready {
			err = c.outOfMemory(w.Memory, outcome)
		}
		if err != nil {
			for _, w := range wants[:i] {
				err = errors.Join(err, c.unstore(w))
			}
			return fmt.Errorf("storage for a write-back: %w", err)
		}
		if err := c.planner.Stored(w, c.mems[w.Memory].classOf(e.given[0])); err != nil {
			panic(fmt.Sprintf("runtime: the planner wants storage that it does not know: %v", err))
		}
		r := c.roots[w.Buffer]
		r.on(w.Memory).Set(w.Range, e.given[0])
		c.recordStored(w)
	}
	if len(wants) > 0 {
		c.planner.Reroute(&c.evicting.ev.Backs)
	}
	return nil
}

// unstore frees a block in which nothing is. c.mu is held.
func (c *Context) unstore(w migration.Want) error {
	r, in := c.roots[w.Buffer], w.Range
	c.scratch.until = c.planner.Points(c.scratch.until[:0], w.Buffer, w.Memory, in)
	if err := c.planner.Unstored(w); err != nil {
		panic(fmt.Sprintf("runtime: nothing was copied there: %v", err))
	}
	err := c.freeBlock(r, w.Memory, in, c.scratch.until)
	if w.Memory == mem.Host && r.backed {
		c.unlockStorage(r, c.scratch.until)
	}
	return err
}

// giveBackStorage frees the storage for write-backs into which none goes that was
// accepted. c.mu is held.
func (c *Context) giveBackStorage() error {
	e := &c.evicting
	var errs []error
	for _, w := range e.ev.Backs.Storage {
		if !filled(&e.ev.Backs, e.points, w) {
			errs = append(errs, c.unstore(w))
		}
	}
	return kept(errs...)
}

// evictOne takes a victim out and frees its block. c.mu is held.
func (c *Context) evictOne(v *migration.Victim) error {
	c.scratch.until = c.planner.Points(c.scratch.until[:0], v.Buffer, v.Memory, v.Range)
	c.planner.Evicted(v)
	c.evicting.did = true
	r := c.roots[v.Buffer]
	if r.tenant != nil {
		at := &r.tenant.on[v.Memory]
		at.evictions, at.evicted = at.evictions+1, at.evicted+v.Range.Size()
	}
	if c.opts.Trace != nil {
		c.recordEviction(v, false)
	}
	if v.Part {
		return nil // its block stays, for a moment (regrow.go)
	}
	if err := c.freeBlock(r, v.Memory, v.Range, c.scratch.until); err != nil {
		return fmt.Errorf("eviction of buffer %s from %s: %w", r.label(), c.topo.Name(v.Memory), err)
	}
	return nil
}

// recordEviction notes an eviction for the trace, or, where its block stays, write-backs that were
// accepted. c.mu is held.
func (c *Context) recordEviction(v *migration.Victim, stays bool) {
	backs := c.recordBacks(v)
	if stays && backs == nil {
		return
	}
	r := trace.EvictionRecord{
		Buffer: v.Buffer, Memory: v.Memory, Range: v.Range, Fresh: v.Fresh, Dropped: v.Dropped(), To: v.To,
		Used: v.Used, Policy: c.policyName(v), Score: v.Score, Why: v.Why, Backs: backs, Blocks: c.recordBlocks(v),
	}
	if v.Next != nil {
		r.Next, r.NextScore, r.NextWhy = v.Next.Buffer, v.Next.Score, v.Next.Why
	}
	if stays {
		r.Range.End, r.Fresh, r.Dropped = r.Range.Start, 0, 0
	}
	c.evicting.records = append(c.evicting.records, r)
}

// recordStored notes storage for write-backs for the trace. c.mu is held.
func (c *Context) recordStored(w migration.Want) {
	if c.opts.Trace == nil {
		return
	}
	b, _ := c.roots[w.Buffer].blockAt(w.Memory, w.Range.Start)
	c.evicting.stored = append(c.evicting.stored, trace.BlockRecord{Buffer: w.Buffer, Memory: w.Memory, Bytes: b.Size, Range: w.Range})
}

// recordBlocks lists the storage for a victim's write-backs that is in no record yet, and is
// still there. c.mu is held.
func (c *Context) recordBlocks(v *migration.Victim) (blocks []trace.BlockRecord) {
	e := &c.evicting
	e.stored = slices.DeleteFunc(e.stored, func(b trace.BlockRecord) bool {
		if b.Buffer != v.Buffer {
			return false
		}
		if at, _ := c.roots[b.Buffer].blockAt(b.Memory, b.Range.Start); !at.IsZero() {
			blocks = append(blocks, b)
		}
		return true
	})
	return blocks
}

// recordBacks lists a victim's write-backs that were accepted for the trace. c.mu is held.
func (c *Context) recordBacks(v *migration.Victim) (backs []trace.StepRecord) {
	e := &c.evicting
	for i := v.From; i < min(v.From+v.N, len(e.points)); i++ {
		if e.points[i].IsZero() {
			continue
		}
		step := c.stepRecord(&e.ev.Backs.Steps[i])
		step.Point = e.points[i]
		backs = append(backs, step)
	}
	return backs
}

// policyName is why a victim goes, as the trace has it. c.mu is held.
func (c *Context) policyName(v *migration.Victim) string {
	switch {
	case v.Part:
		return trace.ByRegrow
	case c.evicting.policy != nil:
		return c.evicting.by().Name()
	}
	return "drop"
}

// outOfMemory is the certificate for what the scratch plan wants on a memory. c.mu is
// held.
func (c *Context) outOfMemory(m mem.MemoryID, outcome mem.Outcome) error {
	var total uint64
	for _, q := range c.wanted(m) {
		total += q.Size
	}
	e := c.certify(m, total, outcome, c.evicting.plan)
	needs := total
	for i := range e.Holders {
		if h := &e.Holders[i]; h.Why == eviction.InUse && !c.wants(mem.BufferID(h.Tag), m) {
			needs += h.Bytes
		}
	}
	e.Hopeless = e.Capacity > 0 && needs > e.Capacity
	c.evicting.capped = c.opts.Share.Broker != nil && c.atOwnCap(m, e)
	return c.atCap(m, e)
}

// wants reports whether the scratch plan wants a block of a buffer on a memory, which may
// take the place of others. c.mu is held.
func (c *Context) wants(id mem.BufferID, m mem.MemoryID) bool {
	return slices.ContainsFunc(c.scratch.wants, func(w want) bool { return w.Buffer == id && w.Memory == m })
}

// certify is the certificate for so many bytes on a memory, for the command of a plan, if
// there is one. c.mu is held.
func (c *Context) certify(m mem.MemoryID, bytes uint64, outcome mem.Outcome, plan *migration.Plan) *resource.OutOfMemory {
	res := c.mems[m].res
	e := resource.Certify(c.topo.Name(m), res, bytes, outcome)
	if e.Host = m == mem.Host; e.Capacity == 0 {
		e.Capacity = c.mems[m].info.GlobalMemory
	}
	e.Holders = e.Holders[:0]
	var ours uint64
	for _, s := range c.planner.Holds(&c.evicting.why, plan, m, evictRoom{c}) {
		r := c.roots[s.Buffer]
		if s.Memory == mem.Host && r.lent() {
			continue
		}
		ours += s.Range.Size()
		e.Holders = append(e.Holders, resource.Holder{Name: r.label(), Tag: uint64(s.Buffer), Bytes: s.Range.Size(), Why: s.Why})
	}
	if live := res.Stats().Live; live > ours {
		e.Holders = append(e.Holders, resource.Holder{Name: "others", Bytes: live - ours, Why: eviction.Foreign})
	}
	return e
}
