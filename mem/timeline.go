package mem

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Timeline is the order in which a queue's points were issued, and which of
// them have ended. A queue owns one; so does a context for its user events.
//
// Life of a point: issued (Next), then ended exactly once (End), well or with
// an error. Points that have ended are a mark (all up to it have) and a bit set
// above the mark. That a point failed is known as long as the timeline lives:
// nobody who asks late may take a failure for a success. Why it failed is kept
// until the owner says that nothing names the point any more (DropCause).
//
// All methods are safe for use from many goroutines. Steady state allocates
// nothing on the Go heap. Lock order: mu is a leaf; nothing is called under it.
type Timeline struct {
	name    string                   // immutable
	inOrder bool                     // immutable
	onFail  func(p Point, err error) // immutable; may be nil

	issued  atomic.Uint64
	mark    atomic.Uint64 // every point up to it has ended
	top     atomic.Uint64 // no point after both it and the mark has ended
	failing atomic.Bool   // some point has failed
	waiters atomic.Int32  // registered and not told
	onWait  func()        // immutable once points are issued; may be nil
	sleeper Sleeper       // likewise

	mu     sync.Mutex
	above  []uint64             // protected by mu: bit i of word w is point base+64*w+i
	base   uint64               // protected by mu: a multiple of 64, at most mark+1
	failed failures             // protected by mu
	tails  map[uint64]*waitNode // protected by mu: point -> its last waiter, whose next is the first
	free   *waitNode            // protected by mu
	nodes  int                  // protected by mu: made so far
}

type waitNode struct {
	w    Waiter
	next *waitNode // of a point's waiters in a ring; of free ones nil at the end
}

// Nodes are made so many at once, or as many as there are: a million waiters cost no copying, one costs little.
const fewNodes, mostNodes = 4, 256

// NewTimeline returns an empty timeline. inOrder says that points end in the
// order of issue, so that they may be compared; such a queue must not end a
// point before those issued earlier. onFail, where not nil, is called for every
// point that fails, before the point counts as reached for anybody: so whoever
// sees the failure knows that onFail has returned. It must not block.
func NewTimeline(name string, inOrder bool, onFail func(p Point, err error)) *Timeline {
	return &Timeline{name: name, inOrder: inOrder, onFail: onFail}
}

// OnWait has f called whenever somebody asks to be told of a point's end, without
// the timeline's locks but perhaps with the asker's: so that a queue that looks
// for ended commands only now and then looks sooner. To be called before the
// first point is issued.
func (t *Timeline) OnWait(f func()) { t.onWait = f }

// SleepBy has those who wait for the timeline's points put to sleep by s, where it is
// not nil. To be called before the first point is issued.
func (t *Timeline) SleepBy(s Sleeper) { t.sleeper = s }

// Waiters is how many ask to be told of points' ends.
func (t *Timeline) Waiters() int { return int(t.waiters.Load()) }

// Name is the name given at creation.
func (t *Timeline) Name() string { return t.name }

// InOrder reports whether the points can be compared.
func (t *Timeline) InOrder() bool { return t.inOrder }

// Next issues the next point.
func (t *Timeline) Next() Point { return Point{t, t.issued.Add(1)} }

// Ended issues the next point and ends it well, for a command that is done when
// it is accepted: nobody can be waiting for it.
func (t *Timeline) Ended() Point {
	t.mu.Lock()
	seq := t.issued.Add(1) // the mark passes it only where nothing is open, and nobody waits
	t.setLocked(seq)
	t.mu.Unlock()
	return Point{t, seq}
}

// Last is the point issued last, or the zero Point.
func (t *Timeline) Last() Point {
	if n := t.issued.Load(); n > 0 {
		return Point{t, n}
	}
	return Point{}
}

// Oldest is the first point issued that has not ended, or the zero Point.
func (t *Timeline) Oldest() Point {
	if next := t.mark.Load() + 1; next <= t.issued.Load() {
		return Point{t, next}
	}
	return Point{}
}

// Unended appends the points that were issued and have not ended, from seq on.
func (t *Timeline) Unended(dst []Point, seq uint64) []Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.issued.Load()
	for seq = max(seq, t.mark.Load()+1); seq <= last; seq++ {
		if i := seq - t.base; i/64 < uint64(len(t.above)) {
			open := ^t.above[i/64] >> (i % 64) // bits beyond the word's end are clear
			if open == 0 {
				seq |= 63 // base is a multiple of 64: the end of the word
				continue
			}
			if seq += uint64(bits.TrailingZeros64(open)); seq > last {
				break
			}
		}
		dst = append(dst, Point{t, seq})
	}
	return dst
}

// End ends a point, well where err is nil. Ending a point twice, or one that
// was never issued, is a bug in the queue that owns the timeline, and panics.
func (t *Timeline) End(p Point, err error) {
	if p.Line != t || p.Seq == 0 || p.Seq > t.issued.Load() {
		panic(fmt.Sprintf("timeline %s: End of %v, which it did not issue", t.name, p))
	}
	t.mu.Lock()
	if err != nil && t.onFail != nil && !t.endedLocked(p.Seq) {
		t.mu.Unlock()
		t.onFail(p, err)
		t.mu.Lock()
	}
	if t.endedLocked(p.Seq) {
		t.mu.Unlock()
		panic(fmt.Sprintf("timeline %s: End of %v twice", t.name, p))
	}
	if err != nil {
		t.failed.add(p.Seq, err)
		t.failing.Store(true) // before the mark: who sees the end sees the failure
	}
	t.setLocked(p.Seq)
	told := len(t.tails) > 0
	t.mu.Unlock()
	if told {
		for w := t.take(p.Seq); w != nil; w = t.take(p.Seq) {
			w.PointReached(p, err)
		}
	}
}

// endedLocked reports whether seq has ended. mu is held.
func (t *Timeline) endedLocked(seq uint64) bool {
	if seq <= t.mark.Load() {
		return true
	}
	i := seq - t.base
	return i/64 < uint64(len(t.above)) && t.above[i/64]&(1<<(i%64)) != 0
}

// setLocked records that seq has ended and moves the mark. mu is held.
func (t *Timeline) setLocked(seq uint64) {
	mark := t.mark.Load()
	if seq == mark+1 && len(t.above) == 0 { // in order, the common case: one atomic store
		t.mark.Store(seq)
		return
	}
	if seq > t.top.Load() {
		t.top.Store(seq)
	}
	if len(t.above) == 0 {
		t.base = (mark + 1) &^ 63
	}
	i := seq - t.base
	for uint64(len(t.above)) <= i/64 {
		t.above = append(t.above, 0)
	}
	t.above[i/64] |= 1 << (i % 64)
	t.advanceLocked(mark)
}

// advanceLocked moves the mark over the points that have ended in one piece,
// and drops the words behind it. mu is held.
func (t *Timeline) advanceLocked(mark uint64) {
	for {
		i := mark + 1 - t.base
		if i/64 >= uint64(len(t.above)) {
			break
		}
		run := uint64(bits.TrailingZeros64(^(t.above[i/64] >> (i % 64))))
		run = min(run, 64-i%64)
		if run == 0 {
			break
		}
		mark += run
	}
	t.mark.Store(mark)
	switch passed := int((mark + 1 - t.base) / 64); {
	case mark+1-t.base >= 64*uint64(len(t.above)) || t.emptyAbove(mark):
		t.above = t.above[:0]
	case passed > 0 && passed >= len(t.above)/2: // amortised: half of it goes
		n := copy(t.above, t.above[passed:])
		t.above = t.above[:n]
		t.base += 64 * uint64(passed)
	}
}

// emptyAbove reports whether nothing above the mark has ended, where that is
// quick to tell: one word is left. mu is held.
func (t *Timeline) emptyAbove(mark uint64) bool {
	i := mark + 1 - t.base
	return int(i/64) == len(t.above)-1 && t.above[i/64]>>(i%64) == 0
}

func (t *Timeline) reached(seq uint64) bool {
	if seq <= t.mark.Load() {
		return true
	}
	if t.inOrder || seq > t.top.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.endedLocked(seq)
}

func (t *Timeline) failure(seq uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed.of(seq)
}

// DropCause gives up why p failed: from then on its error is ErrFailed. The
// caller is who owns the timeline, and knows that nobody will ask for the cause.
// It does nothing where p has not failed.
func (t *Timeline) DropCause(p Point) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed.drop(p.Seq)
}

// register adds w behind the waiters of seq, unless that has ended.
func (t *Timeline) register(seq uint64, w Waiter) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endedLocked(seq) {
		return true, t.failed.of(seq)
	}
	t.waiters.Add(1)
	if t.free == nil {
		page := make([]waitNode, min(max(t.nodes, fewNodes), mostNodes))
		for i := range page[1:] {
			page[i].next = &page[i+1]
		}
		t.free, t.nodes = &page[0], t.nodes+len(page)
	}
	n := t.free
	t.free = n.next
	if t.tails == nil {
		t.tails = make(map[uint64]*waitNode)
	}
	n.w, n.next = w, n
	if last := t.tails[seq]; last != nil {
		n.next, last.next = last.next, n
	}
	t.tails[seq] = n
	return false, nil
}

// take removes and returns the waiter of seq that came first, or nil.
func (t *Timeline) take(seq uint64) Waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.tails[seq]
	if last == nil {
		return nil
	}
	w := last.next.w
	t.dropLocked(seq, last)
	return w
}

// forget removes w, which no longer cares about seq, where it still waits.
func (t *Timeline) forget(seq uint64, w Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.tails[seq]
	for prev := last; prev != nil; {
		n := prev.next
		if n.w == w {
			t.dropLocked(seq, prev)
			return
		}
		if prev = n; n == last {
			return
		}
	}
}

// dropLocked removes the waiter of seq that comes after prev. mu is held.
func (t *Timeline) dropLocked(seq uint64, prev *waitNode) {
	n := prev.next
	if n == prev {
		delete(t.tails, seq)
	} else {
		prev.next = n.next
		if t.tails[seq] == n {
			t.tails[seq] = prev
		}
	}
	*n = waitNode{next: t.free}
	t.free = n
	t.waiters.Add(-1)
}
