package virtual

import (
	"slices"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

// Who carries a command.
//
// What a small command costs is mostly who hands it to whom. A carrier is who gives a command to its device, and is the
// first to know of its end. A command begins at the greatest, over all that it waits for, of end + hand-over, and no sooner
// than its host thread has enqueued it. What that takes the thread it owes (World.charge), since nobody yields under the
// planner lock: it pays when it next enters a call or waits, and what it submits meanwhile is enqueued at its clock and debt.
//
// Life of a command, between its waits and its engine: its waits are reached -> they have been handed over (delay) -> it has
// had its carrier's thread (hold) -> its device has it (submit) -> it waits for its engine.
//
// The library can be given nothing that waits for what others carry. So such a command is held, and those behind it in an
// in-order queue with it: when it has been handed over, the dispatcher gives them to the library one after the other.
//
// A command has a record from its submission on. That of one which has ended is kept for as long as a hand-over can take,
// so ends that were known at a submission count, too. A machine that says nothing of carriers has no records.

// Carrier is who carries a command.
type Carrier uint8

// Library is the device's own queues: no host thread takes part. Program is the host thread that calls; Dispatcher a thread
// of the context's, which gives the library what that cannot wait for itself; Pilot one that submits copies between devices.
const (
	Library Carrier = iota
	Program
	Dispatcher
	Pilot
	Carriers // how many there are
)

// Class is a kind of command, as far as carriers tell them apart.
type Class uint8

// Copies are inside a memory, up from the host's, down to it, between peers, or in a ring.
const (
	Launch Class = iota
	Fill
	Inside
	Up
	Down
	Peer
	Ring
	Classes // how many there are; what is of none, as a marker, costs no carrier anything
)

// Carry is what a command of a class costs who carries it, in nanoseconds.
type Carry struct {
	By      Carrier
	Enqueue uint64 // of the host thread that enqueues it
	Hold    uint64 // of the carrier's thread
	Submit  uint64 // until the device has it; holds nobody
}

// HandOver is what passes between an end and the submission of what waited for it, in nanoseconds.
type HandOver struct {
	Hold  uint64 // of the thread of who takes over; of the dispatcher's where that is the library
	Delay uint64 // holds nobody
}

// Carriage is what a machine says of carriers.
type Carriage struct {
	Devices []Carrying // by memory; the host's says only which threads there are
}

// Carrying is what commands of one device cost their carriers.
type Carrying struct {
	Threads  [Carriers]int32 // of its host, that carry: engines; -1 is none
	Classes  [Classes]Carry
	HandOver [Carriers][Carriers]HandOver // from, to; of Library to Library those from another device
	Queue    uint64                       // delay within the device's own queues
	Queues   uint64                       // at least, from one of these to another
	Crowded  uint64                       // more for each command that a host thread enqueues while its context's threads are at work
}

// window is how long after an end something may be held up by it.
func (c *Carriage) window() (longest uint64) {
	for i := range c.Devices {
		d, over, own := &c.Devices[i], uint64(0), uint64(0)
		for _, from := range d.HandOver {
			for _, h := range from {
				over = max(over, plus(h.Hold, h.Delay))
			}
		}
		for _, k := range d.Classes {
			own = max(own, plus(k.Hold, k.Submit))
		}
		longest = max(longest, plus(over, own), d.Queue, d.Queues)
	}
	return longest
}

// carried is a command as its carriers see it. Pooled.
type carried struct {
	book   *book
	seq    uint64 // of its point
	memory int    // whose device says what it costs
	carry  *Carry
	other  bool        // threads of the context have to do with it
	own    Carry       // carry is it, where it is not as others of its class
	since  uint64      // when its host thread had enqueued it
	waits  []mem.Point // what may hold it up
	over   bool        // it has ended, at
	ended  uint64

	held   bool    // the library cannot be given it yet, and
	giving bool    // the dispatcher is about to; then it was given it
	given  handing // so; zero where it was not
	parked *task   // its waits have been reached before

	next  *carried // of the same chain of its book; spare
	later *carried // of those that have ended, the next
}

// book has the records of a queue.
type book struct {
	w      *World
	q      *engine.Queue
	on     int
	chains []*carried // by sequence number modulo their number, a power of two
	n      int
}

// carriers are what a world knows of carriers.
type carriers struct {
	*Carriage // nil where the machine says nothing
	window    uint64
	books     map[*mem.Timeline]*book
	first     *carried // of those that have ended, in the order of their ends
	last      *carried
	spare     *carried
	others    int // commands that threads of the context have to do with, and that have not ended
}

func (k *carriers) init(c *Carriage) {
	if k.Carriage = c; c != nil {
		k.window, k.books = c.window(), make(map[*mem.Timeline]*book)
	}
}

// newBook is a queue's, or nil.
func (w *World) newBook(q *engine.Queue, on int) *book {
	if w.carriers.Carriage == nil {
		return nil
	}
	b := &book{w: w, q: q, on: on, chains: make([]*carried, 16)}
	w.carriers.books[q.Timeline()] = b
	return b
}

// record is that of a point; nil of a user event, and of what ended too long ago.
func (k *carriers) record(p mem.Point) *carried {
	b := k.books[p.Line]
	if b == nil {
		return nil
	}
	return b.find(p.Seq)
}

func (b *book) chain(seq uint64) **carried { return &b.chains[seq&uint64(len(b.chains)-1)] }

func (b *book) find(seq uint64) *carried {
	x := *b.chain(seq)
	for x != nil && x.seq != seq {
		x = x.next
	}
	return x
}

func (b *book) add(x *carried) {
	if b.n == len(b.chains) {
		old := b.chains
		b.chains = make([]*carried, 2*len(old))
		for _, x := range old {
			for x != nil {
				at, next := b.chain(x.seq), x.next
				x.next, *at = *at, x
				x = next
			}
		}
	}
	at := b.chain(x.seq)
	x.next, *at = *at, x
	b.n++
}

func (b *book) remove(x *carried) {
	at := b.chain(x.seq)
	for *at != x {
		at = &(*at).next
	}
	*at = x.next
	b.n--
}

// submit is Submit of a queue with a book.
func (b *book) submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	p, err := b.q.Submit(cmd, waits)
	if err != nil {
		return p, err
	}
	x, class := b.note(p, waits), Classes
	x.memory = b.on
	switch cmd.Op {
	case devices.OpLaunch:
		class = Launch
	case devices.OpFill:
		class = Fill
	case devices.OpCopy, devices.OpCopyRect:
		class, x.memory = copied(b.w.memoryOf(&cmd.Src), b.w.memoryOf(&cmd.Dst))
	}
	switch {
	case cmd.Op == devices.OpHostCall:
		x.carry = &byProgram
	case x.memory == 0, class == Classes && b.w.carriers.waits(x):
		x.carry = &byDispatcher
	case class == Classes:
		x.carry = &byLibrary
	default:
		x.carry = &b.w.carriers.Devices[x.memory].Classes[class]
		if (class == Up || class == Down) && b.w.pageable(cmd) {
			b.pageable(x, cmd)
		}
	}
	if p.Line.InOrder() && x.carry.By == Library {
		before := b.find(p.Seq - 1)
		x.held = before != nil && before.held || b.w.carriers.waits(x)
	}
	x.since = b.w.charge(b.enqueue(x))
	return p, nil
}

// enqueue is what a command costs the host thread that enqueues it. Who calls the library while other threads do, waits for them there.
func (b *book) enqueue(x *carried) uint64 {
	k := &b.w.carriers
	e := x.carry.Enqueue
	if d := &k.Devices[x.memory]; x.carry.By == Library && e > 0 && k.others > 0 {
		e = plus(e, d.Crowded)
	}
	if x.other = x.held || x.carry.By >= Dispatcher; x.other {
		k.others++
	}
	return e
}

// pageable says who carries a copy from or to pageable memory, where others of its class have another carrier. The host's lanes are told
// by the dispatcher, and tell it. What the host has to see all waits of end the dispatcher gives to the library then.
func (b *book) pageable(x *carried, cmd *devices.Command) {
	work := b.w.machine.Copy(b.w.memoryOf(&cmd.Src), b.w.memoryOf(&cmd.Dst), moved(cmd))
	x.own = *x.carry
	switch {
	case work.Slots > 0:
		x.own.By = Dispatcher
	case work.Awaits && slices.ContainsFunc(x.waits, func(p mem.Point) bool { return !p.Reached() }):
		x.own = Carry{By: Dispatcher, Hold: x.carry.Enqueue, Submit: x.carry.Submit}
	}
	x.carry = &x.own
}

// waits reports whether a command waits for what the library cannot wait for.
func (k *carriers) waits(x *carried) bool {
	return slices.ContainsFunc(x.waits, func(p mem.Point) bool {
		y := k.record(p)
		return !p.Reached() && (y == nil || y.carry.By != Library)
	})
}

// copied is the class of a copy, and the memory whose device says what it costs: the destination's, or out of a device the
// device's.
func copied(from, to int) (Class, int) {
	if to == 0 {
		return ClassOf(from, to), from
	}
	return ClassOf(from, to), to
}

// ClassOf is the class of a copy from one memory to another.
func ClassOf(from, to int) Class {
	switch {
	case from == to:
		return Inside
	case from == 0:
		return Up
	case to == 0:
		return Down
	}
	return Peer
}

// What has no class, and the carrier of what is on the host, and of markers that the library cannot wait with.
var byLibrary, byProgram, byDispatcher = Carry{By: Library}, Carry{By: Program}, Carry{By: Dispatcher}

// note makes the record of a point that a queue has just issued.
func (b *book) note(p mem.Point, waits []mem.Wait) *carried {
	k := &b.w.carriers
	k.forget(b.w.now)
	x := k.spare
	if x == nil {
		x = new(carried)
	} else {
		k.spare = x.next
	}
	*x = carried{book: b, seq: p.Seq, since: b.w.now, waits: x.waits[:0]}
	for i := range waits {
		if p := waits[i].Point; k.record(p) != nil || !p.Reached() {
			x.waits = append(x.waits, p)
		}
	}
	if before := (mem.Point{Line: p.Line, Seq: p.Seq - 1}); p.Line.InOrder() && b.find(before.Seq) != nil {
		x.waits = append(x.waits, before)
	}
	b.add(x)
	return x
}

// charge has the host thread that calls owe so many nanoseconds, and returns its clock after them. What happens by itself
// is no host thread's.
func (w *World) charge(n uint64) uint64 {
	if w.stepping {
		return w.now
	}
	w.running.debt = plus(w.running.debt, n)
	return w.Time()
}

// over notes that a point has ended.
func (k *carriers) over(p mem.Point, now uint64) {
	if k.Carriage == nil {
		return
	}
	x := k.record(p)
	x.over, x.ended = true, now
	if x.other {
		k.others--
	}
	if k.first == nil {
		k.first = x
	} else {
		k.last.later = x
	}
	k.last = x
}

// forget gives up the records of what can hold up nothing any more.
func (k *carriers) forget(now uint64) {
	for x := k.first; x != nil && !x.giving && plus(x.ended, k.window) <= now; x = k.first {
		if k.first = x.later; k.first == nil {
			k.last = nil
		}
		x.book.remove(x)
		x.later, x.next, k.spare = nil, k.spare, x
	}
}

// handing is how a command gets from something that it waited for to its engine.
type handing struct {
	from   uint64    // an end, or when it was enqueued
	cause  mem.Point // what ended
	delay  uint64
	hold   uint64
	thread int32 // that is held; -1 is none
	submit uint64
}

func (h *handing) end() uint64 { return plus(plus(plus(h.from, h.delay), h.hold), h.submit) }

// handing is that of what waited for something that was carried by by and ended at a time.
func (k *carriers) handing(x *carried, by Carrier, memory int, p mem.Point, ended uint64) handing {
	d := &k.Devices[x.memory]
	h := d.HandOver[by][x.carry.By]
	switch {
	case by == Library && x.carry.By == Library && memory == x.memory:
		delay := d.Queue
		if p.Line != x.book.q.Timeline() {
			delay = max(delay, d.Queues)
		}
		return handing{from: ended, cause: p, delay: delay, thread: -1}
	case by == Library && x.carry.By == Library:
		return handing{from: ended, cause: p, delay: h.Delay, thread: -1}
	}
	return handing{from: ended, cause: p, delay: h.Delay, hold: plus(h.Hold, x.carry.Hold), thread: d.threadOf(x.carry.By, Dispatcher), submit: x.carry.Submit}
}

// threadOf is the thread of a carrier, or that of another where it is the library.
func (d *Carrying) threadOf(by, other Carrier) int32 {
	if by == Library {
		by = other
	}
	return d.Threads[by]
}

// hand has a task, whose waits have been reached, go on when the last has been handed over.
func (w *World) hand(t *task) {
	k := &w.carriers
	x := k.record(t.c.Point())
	if x.giving {
		x.parked = t
		return
	}
	best := handing{from: x.since, hold: x.carry.Hold, thread: k.Devices[x.memory].threadOf(x.carry.By, Library), submit: x.carry.Submit}
	if !t.by.IsZero() {
		by, memory := Program, 0 // a user event
		if y := k.record(t.by); y != nil {
			by, memory = y.carry.By, y.memory
		}
		if h := k.handing(x, by, memory, t.by, t.ready); h.end() >= best.end() {
			best = h
		}
	}
	for _, p := range x.waits {
		if y := k.record(p); y != nil {
			if h := k.handing(x, y.carry.By, y.memory, p, y.ended); h.end() > best.end() {
				best = h
			}
		}
	}
	if x.given.end() > best.end() {
		best = x.given
	}
	t.ready, t.by, t.submit, t.until, t.work.Engine = best.from, best.cause, best.submit, best.end(), best.thread
	at := plus(best.from, best.delay)
	held := plus(at, best.hold)
	switch {
	case best.thread >= 0 && held > max(at, w.now):
		t.hold = held - max(at, w.now)
		w.later(at, taskHand, t)
	case x.held:
		w.later(held, taskHeld, t)
	default:
		w.later(t.until, taskHanded, t)
	}
}

// later has a task go on at a time, which may have passed.
func (w *World) later(at uint64, kind kind, t *task) {
	if at > w.now {
		w.push(at, kind, t)
		return
	}
	w.stepTask(kind, t)
}

// held gives up the thread that has handed a task on, if one had to.
func (w *World) held(t *task) {
	if x := t.gives; x != nil {
		w.vacate(t.work.Engine, 1, mem.Point{Line: x.book.q.Timeline(), Seq: x.seq})
		w.giveTask(t)
		w.give(x)
		w.letGo(x)
		return
	}
	if t.hold > 0 {
		t.threadTo, t.until = w.now, plus(w.now, t.submit)
		w.vacate(t.work.Engine, 1, t.c.Point())
		t.behind, t.thread, t.hold = mem.Point{}, t.work.Engine, 0
	}
	if x := w.carriers.record(t.c.Point()); x.held {
		x.held, x.given = false, handing{from: t.ready, cause: t.by}
		w.letGo(x)
	}
	w.later(t.until, taskHanded, t)
}

// letGo has the dispatcher give the library what was held behind a command, up to what has to wait for others itself.
func (w *World) letGo(x *carried) {
	for {
		y := x.book.find(x.seq + 1)
		if y == nil || !y.held || y.giving || w.carriers.waits(y) {
			return
		}
		y.giving, y.given = true, handing{from: x.given.from, cause: x.given.cause, thread: -1, submit: y.carry.Submit}
		if hold := w.carriers.Devices[y.memory].HandOver[Dispatcher][Library].Hold; hold > 0 {
			t := w.takeTask()
			t.gives, t.hold, t.work.Engine = y, hold, w.carriers.Devices[y.memory].Threads[Dispatcher]
			w.engage(t)
			return
		}
		w.give(y)
		x = y
	}
}

// passOver lets go what was held behind a command that fails without having begun.
func (w *World) passOver(t *task) {
	if w.carriers.Carriage == nil {
		return
	}
	if x := w.carriers.record(t.c.Point()); x.held && !x.giving {
		x.held, x.given = false, handing{from: t.ready, cause: t.by}
		w.letGo(x)
	}
}

// give notes that the library has been given a command that was held.
func (w *World) give(x *carried) {
	x.held, x.giving, x.given.delay = false, false, w.now-min(x.given.from, w.now)
	if t := x.parked; t != nil {
		x.parked = nil
		w.hand(t)
	}
}

// woken is how long after the end of a point a host thread goes on that has waited for it. What the program carries, it does
// in the call that waits.
func (w *World) woken(host int, p mem.Point) uint64 {
	x := w.carriers.record(p)
	if x == nil {
		return w.machine.Wake(host)
	}
	late := w.carriers.Devices[x.memory].HandOver[x.carry.By][Program].Delay
	if x.carry.By == Program {
		return late
	}
	return plus(late, w.machine.Wake(host))
}

// hostQueue is a queue of the host's memory with a book.
type hostQueue struct {
	*engine.Queue
	book *book
}

// Submit implements devices.Queue.
func (q *hostQueue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	return q.book.submit(cmd, waits)
}

// Submit implements devices.Queue.
func (q *queue) Submit(cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
	if q.book == nil {
		return q.Queue.Submit(cmd, waits)
	}
	return q.book.submit(cmd, waits)
}

// Close implements devices.Queue.
func (q *queue) Close() error { return q.book.close(q.Queue) }

// Close implements devices.Queue.
func (q *hostQueue) Close() error { return q.book.close(q.Queue) }

// close closes a queue, and then its book, where it has one.
func (b *book) close(q *engine.Queue) error {
	err := q.Close()
	if err == nil && b != nil {
		delete(b.w.carriers.books, q.Timeline())
	}
	return err
}
