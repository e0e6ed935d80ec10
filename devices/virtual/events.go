package virtual

import (
	"math"
	"math/bits"

	"godwit/internal/heap"
)

// What is to happen, in order of time.

// forever is the end of time, some 292 years: what would be later is then, in the order of its
// causes, and the clock does not begin again. Sizes stop there, too.
const forever = math.MaxInt64

// plus is a + b, at most forever.
func plus(a, b uint64) uint64 {
	return min(min(a, forever)+min(b, forever), forever)
}

// times is a * b, at most forever.
func times(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return min(lo, forever)
	}
	return forever
}

// kind is what an event does.
type kind uint8

const (
	callFunc   kind = iota // call f
	taskReady              // the task's waits are reached
	taskHand               // they have come to the carrier, whose thread it needs
	taskHeld               // it has had that
	taskHanded             // its device has it
	taskSet                // its setup is over
	taskPart               // its least time has passed, or its bytes have gone
	taskEnd                // its point is reached
	ringReady              // the waits of ring n are reached, or there is staging
	failDevice             // Options.Fail[n] happens to a device
)

// event is something that is to happen. Its task's number is n.
type event struct {
	at   uint64
	key  uint64 // the order at one instant
	f    func()
	n    uint32
	kind kind
}

// events is a heap by time, and at one instant by key.
type events struct {
	heap heap.Heap[event]
	seed uint64
	seq  uint64
}

func (a *event) before(b *event) bool {
	return a.at < b.at || a.at == b.at && a.key < b.key
}

// push adds an event at a time.
func (q *events) push(at uint64, e event) {
	q.seq++
	e.at, e.key = min(at, forever), q.seq
	if q.seed != 0 {
		e.key = mix(q.seed + q.seq)
	}
	q.heap.Push(e)
}

// mix is splitmix64's finalizer (Steele, Lea, Flood 2014): it has no two numbers that
// give the same, so that no two events have one key.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// next is when the next event is.
func (q *events) next() (at uint64, ok bool) {
	if len(q.heap.Items) == 0 {
		return 0, false
	}
	return q.heap.Items[0].at, true
}
