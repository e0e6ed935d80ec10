package migration_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// What histories do with ranges that the host has mapped for writing. From the end
// of the map to the start of the unmap the host's bytes of the range are its own:
// nobody may write them, be it a step. Commands that OpenCL leaves undefined are
// left out: of what is mapped, only the host reads, and gets anything.

// hostMap is a map for writing.
type hostMap struct {
	b     *buffer
	bytes span
	at    mem.Point
	told  bool // planner and oracle know that it has failed
}

func TestManyHistoriesWithMaps(t *testing.T) {
	for i := range uint64(many(24)) {
		mustLive(t, i, 11, options{maps: true, faults: i%3 > 0, aligned: i%4 == 0, counted: i%2 == 0, steps: 200})
	}
}

func TestAMutantThatCopiesOverWhatIsMappedIsCaught(t *testing.T) {
	err := caughtIn(t, 12, options{maps: true, faults: true, planner: variant{deafToMaps: true}})
	require.Regexp(t, "writes what the host has mapped|the lower bound is", err.Error())
}

// mapped reports whether the host may be writing some of a range.
func (h *history) mapped(id mem.BufferID, r mem.Range) bool {
	return slices.ContainsFunc(h.maps, func(m *hostMap) bool { return m.b.id == id && !m.told && m.bytes.r.Overlaps(r) })
}

// kept reports whether a map, be it a failed one, keeps a buffer.
func (h *history) kept(b *buffer) bool {
	return slices.ContainsFunc(h.maps, func(m *hostMap) bool { return m.b == b })
}

// beside is what accesses there may be besides the maps.
func (h *history) beside(accs []mem.Access) []mem.Access {
	return slices.DeleteFunc(accs, func(a mem.Access) bool {
		return h.mapped(a.Buffer, a.Range) && (a.Mode != mem.Read || h.topo.Store(a.Memory) != mem.Host)
	})
}

func (h *history) mapOrUnmap() {
	if len(h.maps) > 0 && h.n(2) == 0 {
		h.unmap(h.n(len(h.maps)))
	} else {
		h.mapRange()
	}
	h.compare()
}

// mapRange maps a range for writing, every other time without its content.
func (h *history) mapRange() {
	b := h.buffers[h.n(len(h.buffers))]
	r := mem.Range{Start: uint64(h.n(int(b.size)))}
	r.End = r.Start + 1 + uint64(h.n(int(b.size-r.Start)))
	if h.mapped(b.id, r) {
		return
	}
	accs := []mem.Access{{Buffer: b.id, Range: r, Mode: mem.ReadWrite + mem.Mode(h.n(2)), Memory: mem.Host}}
	h.note("map %v", accs)
	var plan migration.Plan
	if !h.plan(&plan, accs) || !h.store(&plan) {
		return
	}
	expect := h.contents(&plan)
	pre, err := h.o.Prefetch(accs)
	if err != nil {
		h.fail("planned, but the oracle says: %v", err)
		return
	}
	for i := range plan.Steps {
		h.along(&plan.Steps[i], pre.Command)
	}
	t := h.task(&plan, h.submitSteps(&plan, pre))
	m := &hostMap{b: b, bytes: span{b.blocks[mem.Host], r, expect[0]}, at: t.at}
	if accs[0].Mode.Reads() {
		t.reads = []span{m.bytes}
	} else {
		t.reads = []span{{m.bytes.b, r, nil}}
	}
	t.maps, t.failed = m, func() {
		if slices.Contains(h.maps, m) {
			h.o.Unmapped(b.id, r)
		}
		m.told = true
	}
	h.p.CommitUse(&plan, t.at)
	h.tasks = append(h.tasks, t)
	h.note("%v after %v maps", t.at, t.waits)
	h.o.Mapped(b.id, r)
	h.recount()
	if h.maps = append(h.maps, m); h.planner.deafToMaps {
		return
	}
	if err := h.p.Mapped(b.id, r, t.at); err != nil {
		h.fail("mapped: %v", err)
	}
}

// unmap ends a map: a write on the host that waits for the map, but where that is
// known to have failed.
func (h *history) unmap(i int) {
	m := h.maps[i]
	if m.at.Err() == nil {
		accs := []mem.Access{{Buffer: m.b.id, Range: m.bytes.r, Mode: mem.Write, Memory: mem.Host}}
		var plan migration.Plan
		if !h.plan(&plan, accs) {
			h.fail("an unmap is refused")
			return
		}
		res, err := h.o.Unmap(m.b.id, m.bytes.r)
		if err != nil || len(plan.Steps) > 0 {
			h.fail("an unmap moves %v: %v", plan.Steps, err)
			return
		}
		h.recount()
		t := h.task(&plan, nil)
		t.waits, t.unmaps, t.version = append(t.waits, mem.Wait{Point: m.at, Kind: mem.Data}), m, res.Version
		t.writes = []span{{m.bytes.b, m.bytes.r, nil}}
		t.failed = func() {
			if m.at.Err() != nil {
				h.o.FailUnmap(res.Command)
			} else {
				h.o.Fail(res.Command)
			}
		}
		if v := h.p.CommitUnmap(&plan, t.at, m.at); v != res.Version {
			h.fail("version %d, the oracle says %d", v, res.Version)
		}
		h.note("%v after %v unmaps, as version %d", t.at, t.waits, res.Version)
		h.tasks = append(h.tasks, t)
	}
	h.maps = slices.Delete(h.maps, i, i+1)
	if !m.told {
		h.o.Unmapped(m.b.id, m.bytes.r)
	}
	if err := h.p.Unmapped(m.b.id, m.bytes.r, m.at); err != nil && !h.planner.deafToMaps {
		h.fail("unmapped: %v", err)
	}
}
