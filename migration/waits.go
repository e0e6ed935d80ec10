package migration

import "godwit/mem"

// waitIndex keeps a growing list of waits short: no point twice, with Data
// where one asked for Data, and no Order wait for a point that another wait
// comes after. A Data wait stays beside a later one on the same queue: that the
// later point succeeds does not say that the earlier did.
//
// Short lists are searched from end to end; long ones get an index. One
// waitIndex serves one list at a time; reset it before the next.
type waitIndex struct {
	at map[mem.Point]int // a point's place; for Seq 0, that of an in-order queue's latest
}

// scanned is how long a list is searched without an index.
const scanned = 24

func (ix *waitIndex) reset() {
	if len(ix.at) > 0 {
		clear(ix.at)
	}
}

// add appends w to waits[base:], or does what makes it unnecessary.
func (ix *waitIndex) add(waits []mem.Wait, base int, w mem.Wait) []mem.Wait {
	if len(waits)-base >= scanned {
		return ix.addIndexed(waits, base, w)
	}
	for i := base; i < len(waits); i++ {
		switch e := &waits[i]; {
		case e.Point == w.Point:
			e.Kind = max(e.Kind, w.Kind)
			return waits
		case w.Kind == mem.Order && w.Point.Before(e.Point):
			return waits
		case e.Kind == mem.Order && e.Point.Before(w.Point):
			*e = w // the only one that w comes after, or e would not be here
			return waits
		}
	}
	return append(waits, w)
}

func (ix *waitIndex) addIndexed(waits []mem.Wait, base int, w mem.Wait) []mem.Wait {
	if len(ix.at) == 0 {
		if ix.at == nil {
			ix.at = make(map[mem.Point]int)
		}
		for i := base; i < len(waits); i++ {
			ix.note(waits, i)
		}
	}
	if i, ok := ix.at[w.Point]; ok {
		waits[i].Kind = max(waits[i].Kind, w.Kind)
		return waits
	}
	if w.Point.Line.InOrder() {
		if i, ok := ix.at[mem.Point{Line: w.Point.Line}]; ok {
			latest := waits[i]
			switch {
			case w.Kind == mem.Order && w.Point.Before(latest.Point):
				return waits
			case latest.Kind == mem.Order && latest.Point.Before(w.Point):
				delete(ix.at, latest.Point)
				waits[i] = w
				ix.note(waits, i)
				return waits
			}
		}
	}
	waits = append(waits, w)
	ix.note(waits, len(waits)-1)
	return waits
}

// note enters waits[i] into the index.
func (ix *waitIndex) note(waits []mem.Wait, i int) {
	p := waits[i].Point
	ix.at[p] = i
	if !p.Line.InOrder() {
		return
	}
	line := mem.Point{Line: p.Line}
	if j, ok := ix.at[line]; !ok || waits[j].Point.Seq <= p.Seq {
		ix.at[line] = i
	}
}
