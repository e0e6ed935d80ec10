package scenario

import (
	"math"
	"slices"

	"godwit/devices"
	"godwit/mem"
	"godwit/study/bound"
	"godwit/study/profile"
)

// How long a steady round takes on a machine, beside the least that it can.

// steadyTime is how long a round takes in the second half of all; the last does not count, since it is behind what it
// copies for a next one. On a machine its critical path and its busiest link or engine stand beside it: with other commands,
// none of these can be less.
func (r *runner) steadyTime(d *graphDecl, period int, out *graphResult) {
	n, half := len(d.Rounds), len(d.Rounds)/2
	if half == 0 || r.model == nil && !r.s.Measured() {
		return
	}
	end := max(n-1, half+1)
	from, to := r.roundEnded(d, half-1), r.roundEnded(d, end-1)
	if out.Steady = uint64(max(to-from, 0)) / uint64(end-half); r.model == nil {
		return
	}
	period = min(period, end)
	out.CriticalPath = uint64(bound.CriticalPath(r.ctx.Topology().Store, r.timed(d, end-period, end), r.copied)) / uint64(period)
	out.Busiest = r.busiest(from, to) / uint64(end-half)
}

// roundEnded is when the last command of a round ended.
func (r *runner) roundEnded(d *graphDecl, round int) (at int64) {
	for i := d.Rounds[round]; i < d.Rounds[round]+d.Size; i++ {
		if rec := r.recorded(i); rec != nil {
			at = max(at, r.rec.ended(rec.Point).Ended)
		}
	}
	return at
}

// timed are the commands of some rounds, each with the least that it took in any round.
func (r *runner) timed(d *graphDecl, from, to int) (list []bound.Timed) {
	for _, start := range d.Rounds[from:to] {
		first := len(list)
		for k := range d.Size {
			c := &r.s.Commands[start+k]
			t := bound.Timed{Queue: c.Queue, Takes: r.shortest(d, k)}
			if r.s.Queues[c.Queue].OutOfOrder {
				t.Queue = -1
			}
			for _, a := range c.After {
				t.After = append(t.After, first+a-start)
			}
			if rec := r.recorded(start + k); rec != nil {
				t.Accesses = rec.Accesses
			}
			list = append(list, t)
		}
	}
	return list
}

// shortest is the least that command k of a round took in any.
func (r *runner) shortest(d *graphDecl, k int) (least int64) {
	for i, start := range d.Rounds {
		var took int64
		if rec := r.recorded(start + k); rec != nil {
			if s := r.model.rec.Of(rec.Point); s != nil {
				took = s.Ended - s.Started
			}
		}
		if i == 0 || took < least {
			least = took
		}
	}
	return least
}

// copied is what a copy takes by itself. It holds the engine for copies into a device where that has one.
func (r *runner) copied(from, to mem.MemoryID, bytes uint64) bound.Copied {
	m := r.model.machine
	l, out := m.Link(int(from), int(to)), r.leg(from, to, bytes, 1)
	whole := func(c bound.Copied) int64 { return c.Holds + c.Rest }
	for n, last := uint64(1), int64(math.MaxInt64); l.Ring.There; n++ { // through the host, in as many pieces as take least
		first, ring := r.leg(from, mem.Host, bytes/n, 1), r.leg(mem.Host, to, bytes, n)
		ring.Rest += whole(first)
		if whole(ring) >= last {
			break
		}
		if last = whole(ring); !l.Direct.There || last < whole(out) {
			out = ring
		}
	}
	if to > 0 && m.Engines()[m.Copy(int(from), int(to), 0).Engine] > 1 {
		out = bound.Copied{Rest: whole(out)}
	}
	return out
}

// leg is what a copy takes, in so many pieces one behind the other.
func (r *runner) leg(from, to mem.MemoryID, bytes, pieces uint64) bound.Copied {
	w, l := r.model.machine.Copy(int(from), int(to), 0), r.model.machine.Link(int(from), int(to))
	flow := 0.0
	if l.Direct.Bandwidth > 0 {
		flow = float64(bytes) / float64(l.Direct.Bandwidth) * 1e9
	}
	return bound.Copied{Holds: int64(pieces*w.Setup) + int64(flow), Rest: int64(w.Latency)}
}

// busiest is how long what began in some time takes that link or engine for copies which takes longest for its share of it: an engine with what each
// copy costs beside its bytes.
func (r *runner) busiest(from, to int64) (most uint64) {
	m := r.model.machine
	bandwidths := m.Bandwidths()
	carried, held := make([]uint64, len(bandwidths)), make([]uint64, len(m.EngineList()))
	spans := r.model.rec.Spans()
	for i := range spans {
		s := &spans[i]
		if s.Started < from || s.Started >= to {
			continue
		}
		for _, c := range s.Path {
			carried[c] += s.Bytes
		}
		if s.Op != devices.OpCopy && s.Op != devices.OpCopyRect {
			continue
		}
		bytes, _ := profile.Alone(s, bandwidths)
		setups := []uint64{m.Copy(s.From, s.To, 0).Setup}
		if s.Ring {
			setups = []uint64{m.Copy(s.From, 0, 0).Setup, m.Copy(0, s.To, 0).Setup}
		}
		for k, e := range s.Engines {
			if e >= 0 && k < len(setups) {
				held[e] += setups[k] + uint64(bytes)
			}
		}
	}
	for c, bytes := range carried {
		if b := bandwidths[c]; b > 0 {
			most = max(most, uint64(float64(bytes)/float64(b)*1e9))
		}
	}
	return max(most, slices.Max(append(held, 0)))
}
