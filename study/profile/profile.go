// Package profile says where the time of a run in virtual time went: the critical path,
// what each part of it waited for, and how busy engines, devices and links were.
//
// A Recorder is told by a world of every command, copy and ring that ended, and of every
// wait of the host's. The critical path is read off that backwards (Yang and Miller,
// Critical Path Analysis for the Execution of Parallel and Distributed Programs, 1988):
// the host was last woken by some command; that began when its engine was free, or the
// last of its waits was handed over, or the host enqueued it; and so on to the start. So the
// parts tile the time from 0 to the end: none overlaps, none is missing.
//
// A Recorder is for one world, and read when that stands still.
package profile

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"

	"godwit/devices/virtual"
	"godwit/internal/network"
	"godwit/mem"
)

// Span is what ran: virtual.Span, kept.
type Span struct {
	virtual.Span
	Index int // in Recorder.Spans
}

// wait is a wait of a host thread.
type wait struct {
	slept, woke int64
	point       mem.Point
}

// Recorder implements virtual.Observer.
type Recorder struct {
	spans   []Span
	of      Points[int]    // index of the span, from 1
	waits   map[int][]wait // by thread, in order of time
	engines []int32        // of all spans
	stopped bool           // nothing is kept
}

// New returns a recorder without records.
func New() *Recorder {
	return &Recorder{waits: make(map[int][]wait)}
}

// Span implements virtual.Observer.
func (r *Recorder) Span(s *virtual.Span) {
	if r.stopped {
		return
	}
	k := Span{*s, len(r.spans)}
	at := len(r.engines)
	r.engines = append(r.engines, s.Engines...)
	k.Engines = r.engines[at:len(r.engines):len(r.engines)]
	r.spans = append(r.spans, k)
	r.of.Put(s.Point, len(r.spans))
}

// Woke implements virtual.Observer.
func (r *Recorder) Woke(thread int, slept, woke int64, p mem.Point) {
	if !r.stopped {
		r.waits[thread] = append(r.waits[thread], wait{slept, woke, p})
	}
}

// Stop forgets all records, and keeps none from now on: those of a world that only ends.
func (r *Recorder) Stop() { *r = Recorder{stopped: true} }

// Spans are all records, in the order of their ends. They stay as they are, also once others come.
func (r *Recorder) Spans() []Span { return r.spans }

// Of is the span of a point, or nil.
func (r *Recorder) Of(p mem.Point) *Span {
	if i := r.of.At(p); i > 0 {
		return &r.spans[i-1]
	}
	return nil
}

// why is what a part of the critical path comes after.
type why uint8

// Start is the beginning; Enqueued, the host had enqueued it only then; waited, the span
// before it on the path is the last of what it waited for; Engine, that had its engine;
// woken, the host waited for it; handed, the host handed it to its device.
const (
	Start why = iota
	Enqueued
	waited
	Engine
	woken
	handed
)

// String is a phrase: "after the start", "behind it on its engine".
func (w why) String() string {
	return [...]string{"the start", "the host", "what it waited for", "its engine", "the end it waited for", "its hand-over"}[w]
}

// Part is a stretch of the critical path.
type Part struct {
	From, To int64 // nanoseconds
	Span     *Span // what ran; nil is the host
	After    why   // what the part before it is to this one
}

// Path is the critical path from one time to another, at which a host thread was awake. of says which thread has
// enqueued what ran; nil: there is one, 0. The parts are in order of time and tile [begin, end).
func (r *Recorder) Path(begin, end int64, thread int, of func(*Span) int) (path []Part) {
	waits := maps.Clone(r.waits) // those before t
	onHost := func(t int64) {    // what the thread did up to t, and what it waited for before
		for t > begin {
			host := waits[thread]
			for len(host) > 0 && host[len(host)-1].woke > t {
				host = host[:len(host)-1]
			}
			waits[thread] = host
			if len(host) == 0 || host[len(host)-1].woke <= begin {
				path = append(path, Part{From: begin, To: t})
				return
			}
			w := host[len(host)-1]
			s := r.Of(w.point)
			if s == nil || s.Ended > w.woke || s.Ended < w.slept { // what it waited for is the host's own
				from := w.slept
				if s == nil && w.slept == w.woke || from >= t {
					waits[thread] = host[:len(host)-1]
					continue
				}
				path = append(path, Part{From: from, To: t})
				t = from
				continue
			}
			waits[thread] = host[:len(host)-1]
			if s.Ended < t {
				path = append(path, Part{From: s.Ended, To: t, After: woken})
			}
			if s, t = r.back(&path, s, begin); of != nil {
				thread = of(s)
			}
		}
	}
	onHost(end)
	slices.Reverse(path)
	return path
}

// back adds what led to a span's end, until the host has to do with it or the path has come to its begin, and
// returns the first span and that time.
func (r *Recorder) back(path *[]Part, s *Span, begin int64) (first *Span, t int64) {
	at := s.Ended
	for at > begin {
		part := Part{From: s.Started, To: at, Span: s}
		add := func(after why) {
			if part.From = max(part.From, begin); part.To > part.From {
				part.After = after
				*path = append(*path, part)
			}
		}
		if b := r.Of(s.Behind); b != nil && b.Started < s.Started && s.Started > s.Handed {
			add(Engine)
			s, at = b, s.Started
			continue
		}
		if part.From = min(s.Handed, at); s.Handed > s.Ready {
			add(handed)
			part = Part{From: min(s.Ready, at), To: part.From}
		}
		c := r.Of(s.Cause)
		if c == nil || c.Ended != s.Ready || c.Started == s.Ready && c.Index >= s.Index { // or it took no time
			add(Enqueued)
			return s, part.From
		}
		add(waited)
		s, at = c, s.Ready
	}
	return s, at
}

// busyTime is how much of the time something was in use.
type busyTime struct {
	Spans int
	Busy  int64 // nanoseconds in which at least one span was on
}

// EngineUse is how busy each of n engines was. A span has its engine until it ended, its
// latency included, and a host's thread while it hands it on.
func (r *Recorder) EngineUse(n int) []busyTime {
	return r.busy(n, func(s *Span, on func(i int, from, to int64)) {
		for i, e := range s.Engines {
			if e >= 0 && !slices.Contains(s.Engines[:i], e) {
				on(int(e), s.Started, s.Ended)
			}
		}
		if s.HeldTo > s.HeldFrom {
			on(int(s.Thread), s.HeldFrom, s.HeldTo)
		}
	})
}

// MemoryUse is how busy the device of each of n memories was.
func (r *Recorder) MemoryUse(n int) []busyTime {
	return r.busy(n, func(s *Span, on func(i int, from, to int64)) {
		on(s.On, s.Started, s.Ended)
		if s.Ring && s.From != s.On {
			on(s.From, s.Started, s.Ended)
		}
	})
}

// busy unites the times of spans that have to do with each of n things.
func (r *Recorder) busy(n int, each func(s *Span, on func(i int, from, to int64))) []busyTime {
	out := make([]busyTime, n)
	times := make([][][2]int64, n)
	for i := range r.spans {
		s := &r.spans[i]
		each(s, func(k int, from, to int64) {
			if k >= n {
				return
			}
			out[k].Spans++
			if to > from {
				times[k] = append(times[k], [2]int64{from, to})
			}
		})
	}
	for k, list := range times {
		slices.SortFunc(list, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
		until := int64(0)
		for _, x := range list {
			out[k].Busy += max(x[1]-max(x[0], until), 0)
			until = max(until, x[1])
		}
	}
	return out
}

// Beside is what shared a channel with a span while it was on a path.
type Beside struct {
	Longest []*Span // those that did so longest, shownBeside at most
	All     int     // how many there were
}

const shownBeside = 3

// Beside is, for each part of a path, what shared a channel with it. The parts are in order of time.
func (r *Recorder) Beside(path []Part) []Beside {
	var flows []*Span
	for i := range r.spans {
		if s := &r.spans[i]; len(s.Path) > 0 {
			flows = append(flows, s)
		}
	}
	slices.SortFunc(flows, func(a, b *Span) int { return cmp.Compare(a.Started, b.Started) })
	out := make([]Beside, len(path))
	var active []*Span // begun before the part's end, and not ended before its begin
	for i, p := range path {
		for len(flows) > 0 && flows[0].Started < p.To {
			active, flows = append(active, flows[0]), flows[1:]
		}
		active = slices.DeleteFunc(active, func(s *Span) bool { return s.Ended <= p.From })
		if p.Span == nil || len(p.Span.Path) == 0 {
			continue
		}
		both := func(s *Span) int64 { return min(s.Ended, p.To) - max(s.Started, p.From) }
		var with []*Span
		for _, s := range active {
			if s != p.Span && slices.ContainsFunc(s.Path, func(c network.Channel) bool { return slices.Contains(p.Span.Path, c) }) {
				with = append(with, s)
			}
		}
		slices.SortStableFunc(with, func(a, b *Span) int { return cmp.Compare(both(b), both(a)) })
		out[i] = Beside{slices.Clone(with[:min(shownBeside, len(with))]), len(with)}
	}
	return out
}

// Alone is how long a span would have taken with its channels to itself, as far as its
// bytes are concerned: what it took beyond that it gave to others. Bandwidths are the
// machine's.
func Alone(s *Span, bandwidths []uint64) (nanoseconds int64, known bool) {
	least := uint64(0)
	uses := make(map[network.Channel]uint64, len(s.Path))
	for _, c := range s.Path {
		uses[c]++
	}
	for c, n := range uses {
		if b := bandwidths[c] / n; least == 0 || b < least {
			least = b
		}
	}
	if least == 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(s.Bytes, 1e9)
	lo, carry := bits.Add64(lo, least-1, 0)
	if hi += carry; hi >= least {
		return math.MaxInt64, true
	}
	q, _ := bits.Div64(hi, lo, least)
	return int64(min(q, math.MaxInt64)), true
}
