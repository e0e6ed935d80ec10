package migration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
)

// evict is the story's command of that name.
func (s *story) evict(t *testing.T, d *datadriven.TestData) string {
	if err := s.p.Plan(&s.plan, s.accesses(t, d)); err != nil {
		return result(err)
	}
	policy, only := eviction.Policy(eviction.LRU{}), false
	s.keep, s.hang = nil, nil
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "plan":
			only = true
		case "policy":
			var err error
			if policy, err = eviction.ByName(a.Vals[0]); err != nil {
				d.Fatalf(t, "%v", err)
			}
		case "keep":
			for _, v := range a.Vals {
				s.keep = append(s.keep, s.buffers[v])
			}
		case "hang":
			for _, v := range a.Vals {
				s.hang = append(s.hang, s.point(t, d, v))
			}
		}
	}
	var short []mem.MemoryID
	for m := range mem.MemoryID(s.topo.Len()) {
		if !s.fits(m, nil, nil) {
			short = append(short, m)
		}
	}
	if len(short) == 0 {
		return "there is room\n"
	}
	var ev migration.Eviction
	told := migration.Eviction{Told: true}
	s.p.Evict(&told, &s.plan, short, 1, false, policy, s) // which changes nothing
	var b strings.Builder
	if !s.p.Evict(&ev, &s.plan, short, 1, false, policy, s) {
		for _, x := range ev.Stays {
			fmt.Fprintf(&b, "%s stays on %s: %v\n", s.name(x.Buffer), s.topo.Name(x.Memory), x.Why)
		}
		return b.String()
	}
	for i := range ev.Victims {
		v := &ev.Victims[i]
		require.Equal(t, v.Candidate, told.Victims[i].Candidate, "who tells why loses the same")
		require.NotEmpty(t, told.Victims[i].Why)
		if next := told.Victims[i].Next; next != nil {
			require.GreaterOrEqual(t, next.Score, v.Score)
		}
		fmt.Fprintf(&b, "%s leaves %s: %d of %d bytes dropped", s.name(v.Buffer), s.topo.Name(v.Memory), v.Dropped(), v.Size())
		if v.Back > 0 {
			fmt.Fprintf(&b, ", %d written back to %s", v.Back, s.topo.Name(v.To))
		}
		fmt.Fprintln(&b)
	}
	b.WriteString(s.print(&ev.Backs))
	if only {
		return b.String()
	}
	for _, w := range ev.Backs.Storage {
		if err := s.p.Stored(w, mem.Plain); err != nil {
			return result(err)
		}
	}
	for i := range ev.Backs.Steps {
		at := s.queue("copy").Next()
		s.p.CommitStep(&ev.Backs, i, at)
		fmt.Fprintf(&b, "step %d is %v\n", i, at)
	}
	for i := range ev.Victims {
		v := &ev.Victims[i]
		fmt.Fprintf(&b, "%s is free after %v\n", s.name(v.Buffer), s.p.Points(nil, v.Buffer, v.Memory, everything))
		s.p.Evicted(v)
	}
	return b.String()
}

// fits reports whether what the plan wants on m, and more, fits there without the
// victims.
func (s *story) fits(m mem.MemoryID, victims []migration.Victim, more []migration.Want) bool {
	room, limited := s.rooms[m]
	if !limited {
		return true
	}
	var used uint64
	for id, size := range s.sizes {
		gone := slices.ContainsFunc(victims, func(v migration.Victim) bool { return v.Buffer == id })
		if s.p.Stores(id).Has(m) && !gone {
			used += size
		}
	}
	for _, w := range slices.Concat(s.plan.Storage, more) {
		if w.Memory == m {
			used += s.sizes[w.Buffer]
		}
	}
	return used <= room
}

// Fits implements migration.Room.
func (s *story) Fits(m mem.MemoryID, victims []migration.Victim) bool { return s.fits(m, victims, nil) }

// Takes implements migration.Room.
func (s *story) Takes(m mem.MemoryID, wants []migration.Want, more migration.Want) bool {
	return s.fits(m, nil, append(slices.Clone(wants), more))
}

// Stays implements migration.Room.
func (s *story) Stays(v migration.Victim, _ []migration.Victim) eviction.Why {
	if slices.Contains(s.keep, v.Buffer) {
		return eviction.Pinned
	}
	return eviction.Goes
}

// Hangs implements migration.Room.
func (s *story) Hangs(p mem.Point) eviction.Why {
	if slices.Contains(s.hang, p) {
		return eviction.Hangs
	}
	return eviction.Goes
}
