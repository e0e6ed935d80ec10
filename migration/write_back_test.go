package migration_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem"
	"godwit/migration"
)

// leaver is a buffer on a device, and what has to be written back if it leaves that now.
type leaver struct {
	t            *testing.T
	p            *migration.Planner
	id           mem.BufferID
	work, copies *mem.Timeline
	copied       mem.Point // the last step
}

const leaverSize, leaverHome = 4096, mem.MemoryID(1)

func newLeaver(t *testing.T) *leaver {
	l := &leaver{t: t, p: migration.New(mem.NewTopology("host", "gpu"), migration.Options{})}
	l.work, l.copies = mem.NewTimeline("work", true, nil), mem.NewTimeline("copies", false, nil)
	l.id = l.create(leaverSize)
	return l
}

func (l *leaver) create(size uint64) mem.BufferID {
	id, err := l.p.Create(size, mem.MemorySet{})
	require.NoError(l.t, err)
	return id
}

func (l *leaver) run(id mem.BufferID, size uint64, mode mem.Mode, m mem.MemoryID) {
	var plan migration.Plan
	require.NoError(l.t, l.p.Plan(&plan, []mem.Access{{Buffer: id, Range: mem.Range{End: size}, Mode: mode, Memory: m}}))
	for _, w := range plan.Storage {
		require.NoError(l.t, l.p.Stored(w, mem.Plain))
	}
	for i := range plan.Steps {
		l.copied = l.copies.Next()
		l.p.CommitStep(&plan, i, l.copied)
	}
	at := l.work.Next()
	l.p.Commit(&plan, at)
	l.work.End(at, nil)
}

func (l *leaver) back() uint64 {
	var ev migration.Eviction
	why, err := l.p.EvictBlocks(&ev, l.id, leaverHome, roomy{})
	require.NoError(l.t, err)
	require.Equal(l.t, eviction.Goes, why)
	return ev.Victims[0].Back
}

// Half of a block is a copy of what the host is about to have, and goes; the other half's own source is gone, and the
// host's copy of it may still fail.
func TestWhatIsCertainOfABlockIsToldByItsParts(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(64)
	w := g.on("q", use(mem.Write, b, 0, 64, 2))
	w.at.Line.End(w.at, nil)
	first := g.on("q", use(mem.Read, b, 32, 64, 1))
	require.Equal(t, []string{"[32,64) 2->1 ring"}, first.moved())
	require.Equal(t, []string{"[0,64) 2->0 direct"}, g.on("q", use(mem.Read, b, 0, 64, mem.Host)).moved())
	second := g.on("q", use(mem.Read, b, 0, 32, 1))
	require.Equal(t, []string{"[0,32) 0->1 direct"}, second.moved())
	require.NoError(t, g.p.Unstored(migration.Want{Buffer: b, Memory: 2}))
	for _, p := range []mem.Point{first.steps[0].at, first.at, second.steps[0].at, second.at} {
		p.Line.End(p, nil)
	}
	g.p.Retire(mem.Host) // so that the host has one hazard for both halves
	var ev migration.Eviction
	why, err := g.p.EvictBlocks(&ev, b, 1, roomy{})
	require.NoError(t, err)
	require.Equal(t, eviction.Goes, why)
	require.EqualValues(t, 32, ev.Victims[0].Back)
}

// What an unmap has replaced stays where it is until the map is known to have succeeded,
// though it is not the latest content: where the map fails, it is that again.
func TestWhatAnUnmapMayGiveBackStays(t *testing.T) {
	l := newLeaver(t)
	l.run(l.id, leaverSize, mem.Write, leaverHome)
	all := mem.Range{End: leaverSize}
	var plan migration.Plan
	onHost := func(mode mem.Mode) mem.Point {
		require.NoError(t, l.p.Plan(&plan, []mem.Access{{Buffer: l.id, Range: all, Mode: mode, Memory: mem.Host}}))
		for _, w := range plan.Storage {
			require.NoError(t, l.p.Stored(w, mem.Plain))
		}
		return l.work.Next()
	}
	mapped := onHost(mem.Write) // an invalidating map
	l.p.CommitUse(&plan, mapped)
	require.NoError(t, l.p.Mapped(l.id, all, mapped))
	unmapped := onHost(mem.Write)
	l.p.CommitUnmap(&plan, unmapped, mapped)
	require.NoError(t, l.p.Unmapped(l.id, all, mapped))

	var ev migration.Eviction
	why, err := l.p.EvictBlocks(&ev, l.id, leaverHome, roomy{})
	require.NoError(t, err)
	require.Equal(t, eviction.Mapped, why)

	lost := errors.New("lost")
	for _, at := range []mem.Point{mapped, unmapped} {
		l.work.End(at, lost)
		l.p.Fail(at, lost)
	}
	segments, err := l.p.Segments(l.id)
	require.NoError(t, err)
	require.Len(t, segments, 1)
	require.Equal(t, mem.SetOf(leaverHome), segments[0].Valid)
	require.EqualValues(t, leaverSize, l.back(), "it may leave now")
}
