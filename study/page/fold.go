package page

import (
	"cmp"
	"fmt"
	"slices"
)

// mostEvents is how many events a page has; of more it folds.
const mostEvents = 250_000

// folded is the row of an event that stands for several.
type folded struct {
	Folded int    `json:"folded"`        // how many
	First  int    `json:"first_command"` // the least of the numbers
	Last   int    `json:"last_command"`  // and the greatest
	Within int64  `json:"within_ns"`     // the stretch of time
	Kind   string `json:"kind"`
}

// foldKey is what of events becomes one.
type foldKey struct {
	lane    int32
	kind    kind
	stretch int64
}

// fold leaves at most so many events of a run: see docs/design/page.md.
func fold(r *Run, most int) {
	if len(r.Events) <= most && len(r.Held) <= most && len(r.Path) <= most {
		return
	}
	r.Fold, r.Folded = 1, len(r.Events)
	for r.distinct(r.Fold) > most {
		r.Fold *= 2
	}
	r.foldEvents()
	for holdersAt(r, r.Fold) > most {
		r.Fold *= 2
	}
	r.Held = slices.DeleteFunc(r.Held, func(h held) bool { return r.roundUp(h.From) >= r.roundUp(h.To) })
	for i := range r.Held {
		h := &r.Held[i]
		h.From, h.To = min(r.roundUp(h.From), r.End), min(r.roundUp(h.To), r.End)
	}
	r.foldPath(most)
	for i := range r.Lanes {
		r.foldLevels(&r.Lanes[i])
	}
}

func (r *Run) key(e *Event, stretch int64) foldKey {
	return foldKey{e.home, e.Kind, (e.Start - r.Begin) / stretch}
}

// distinct is how many events are left.
func (r *Run) distinct(stretch int64) int {
	keys := make(map[foldKey]struct{})
	for i := range r.Events {
		keys[r.key(&r.Events[i], stretch)] = struct{}{}
	}
	return len(keys)
}

// roundUp is the end of the stretch in which a time lies.
func (r *Run) roundUp(t int64) int64 { return r.Begin + (t-r.Begin+r.Fold-1)/r.Fold*r.Fold }

// holdersAt is how many rectangles are left.
func holdersAt(r *Run, stretch int64) (n int) {
	was := r.Fold
	r.Fold = stretch
	defer func() { r.Fold = was }()
	for i := range r.Held {
		if r.roundUp(r.Held[i].From) < r.roundUp(r.Held[i].To) {
			n++
		}
	}
	return n
}

// foldEvents makes one of those alike, and has all that names events name these.
func (r *Run) foldEvents() {
	at := make(map[foldKey]int32)
	now := make([]int32, len(r.Events)) // by event: what it is in
	var out []Event
	for i := range r.Events {
		e := r.Events[i]
		e.Count = max(e.Count, 1)
		k, ok := at[r.key(&e, r.Fold)]
		if !ok {
			k = int32(len(out))
			at[r.key(&e, r.Fold)], out = k, append(out, e)
		} else {
			out[k].join(&e, r.Fold)
		}
		now[i] = k
	}
	r.Events = out
	for i := range r.Lanes {
		if l := &r.Lanes[i]; l.Group != pathLanes {
			l.Items = foldItems(l.Items, now)
		}
	}
	for i := range r.Waits {
		r.Waits[i] = after{now[r.Waits[i].Event], now[r.Waits[i].For]}
	}
	r.Waits = slices.DeleteFunc(r.Waits, func(w after) bool { return w.Event == w.For })
	slices.SortFunc(r.Waits, func(x, y after) int { return cmp.Or(cmp.Compare(x.Event, y.Event), cmp.Compare(x.For, y.For)) })
	r.Waits = slices.Compact(r.Waits)
	r.Uses = slices.DeleteFunc(r.Uses, func(u use) bool { return out[now[u.Event]].Count > 1 })
	for i := range r.Uses {
		r.Uses[i].Event = now[r.Uses[i].Event]
	}
	for i := range r.Held {
		if r.Held[i].Writer >= 0 {
			r.Held[i].Writer = now[r.Held[i].Writer]
		}
	}
	for i := range r.Path {
		if r.Path[i].Event >= 0 {
			r.Path[i].Event = now[r.Path[i].Event]
		}
	}
}

// join adds an event to one that stands for several.
func (e *Event) join(x *Event, stretch int64) {
	f, ok := e.Row.(folded)
	if !ok {
		f = folded{First: e.Number, Last: e.Number, Kind: e.Kind.String(), Within: stretch}
	}
	e.Count += x.Count
	f.Folded, f.First, f.Last = e.Count, min(f.First, x.Number), max(f.Last, x.Number)
	e.Row, e.Bytes, e.Buffer, e.Index = f, e.Bytes+x.Bytes, -1, -1
	e.Name = fmt.Sprintf("%d of a kind, #%d to #%d", e.Count, f.First, f.Last)
	e.Queued, e.Start, e.End = min(e.Queued, x.Queued), min(e.Start, x.Start), max(e.End, x.End)
	if e.Failed == "" {
		e.Failed = x.Failed
	}
	if e.From != x.From {
		e.From = -1
	}
	if e.To != x.To {
		e.To = -1
	}
}

// foldItems makes one of a lane's items for each event.
func foldItems(items []Item, now []int32) []Item {
	at := make(map[int32]int)
	out := items[:0]
	for _, x := range items {
		x.Event = now[x.Event]
		k, ok := at[x.Event]
		if !ok {
			at[x.Event] = len(out)
			out = append(out, x)
			continue
		}
		o := &out[k]
		o.From, o.To, o.Busy, o.Bytes = min(o.From, x.From), max(o.To, x.To), o.Busy+x.Busy, o.Bytes+x.Bytes
	}
	return slices.Clip(out)
}

// foldPath makes one of the parts of the critical path that lie in one stretch and have one reason; the last of them gives it its name.
func (r *Run) foldPath(most int) {
	if len(r.Path) <= most {
		return
	}
	out := r.Path[:0]
	for _, p := range r.Path {
		if n := len(out); n > 0 && out[n-1].Reason == p.Reason && (out[n-1].From-r.Begin)/r.Fold == (p.From-r.Begin)/r.Fold {
			out[n-1].To, out[n-1].Event, out[n-1].What, out[n-1].Shared = p.To, p.Event, p.What, out[n-1].Shared+p.Shared
			continue
		}
		out = append(out, p)
	}
	r.Path = out
	for i := range r.Lanes {
		if l := &r.Lanes[i]; l.Group == pathLanes {
			l.Items = nil
			for k, p := range r.Path {
				l.Items = append(l.Items, Item{Event: int32(k), From: p.From, To: p.To, Busy: p.To - p.From})
			}
		}
	}
}

// foldLevels keeps of each stretch the most that a memory held, and what it held last.
func (r *Run) foldLevels(l *lane) {
	out := l.Levels[:0]
	for i := 0; i < len(l.Levels); {
		stretch := (l.Levels[i].At - r.Begin) / r.Fold
		most, k := l.Levels[i], i
		for ; k < len(l.Levels) && (l.Levels[k].At-r.Begin)/r.Fold == stretch; k++ {
			if l.Levels[k].Bytes > most.Bytes {
				most = l.Levels[k]
			}
		}
		last := l.Levels[k-1]
		if out = append(out, most); last != most {
			out = append(out, last)
		}
		i = k
	}
	l.Levels = out
}
