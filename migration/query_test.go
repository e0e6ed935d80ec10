package migration_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
	"godwit/migration"
)

// everything is all of a buffer.
var everything = mem.Range{End: math.MaxUint64}

// program enqueues commands and lets tests ask what was planned.
type program struct {
	t      *testing.T
	topo   *mem.Topology
	p      *migration.Planner
	copies *mem.Timeline
	queues map[string]*mem.Timeline
}

// command is one that was enqueued.
type command struct {
	at      mem.Point
	waits   []mem.Wait // further waits: of the steps, as Data, too
	steps   []step
	version mem.Version
	wants   []migration.Want
}

type step struct {
	migration.Step
	at    mem.Point
	waits []mem.Wait
}

func begin(t *testing.T, topo *mem.Topology, opts migration.Options) *program {
	return &program{t: t, topo: topo, p: migration.New(topo, opts), copies: mem.NewTimeline("copy", false, nil), queues: map[string]*mem.Timeline{}}
}

func (g *program) buffer(size uint64) mem.BufferID {
	id, err := g.p.Create(size, mem.MemorySet{})
	require.NoError(g.t, err)
	return id
}

func use(mode mem.Mode, id mem.BufferID, start, end uint64, m mem.MemoryID) mem.Access {
	return mem.Access{Buffer: id, Range: mem.Range{Start: start, End: end}, Mode: mode, Memory: m}
}

func (g *program) on(queue string, accs ...mem.Access) command {
	if g.queues[queue] == nil {
		g.queues[queue] = mem.NewTimeline(queue, queue != "ooo", nil)
	}
	var plan migration.Plan
	require.NoError(g.t, g.p.Plan(&plan, accs))
	c := command{waits: append([]mem.Wait{}, plan.Waits...), wants: append([]migration.Want{}, plan.Storage...)}
	for _, w := range plan.Storage {
		require.NoError(g.t, g.p.Stored(w, mem.Plain))
	}
	for i, st := range plan.Steps {
		s := step{st, g.copies.Next(), append([]mem.Wait{}, st.Waits...)}
		if st.After >= 0 {
			s.waits = append(s.waits, mem.Wait{Point: c.steps[st.After].at, Kind: mem.Data})
		}
		g.p.CommitStep(&plan, i, s.at)
		c.steps = append(c.steps, s)
	}
	for _, i := range plan.StepWaits {
		c.waits = append(c.waits, mem.Wait{Point: c.steps[i].at, Kind: mem.Data})
	}
	c.at = g.queues[queue].Next()
	c.version = g.p.Commit(&plan, c.at)
	require.NoError(g.t, g.p.Check())
	return c
}

func (g *program) failPoint(p mem.Point, err error) {
	p.Line.End(p, err)
	g.p.Fail(p, err)
	require.NoError(g.t, g.p.Check())
}

func data(p mem.Point) mem.Wait  { return mem.Wait{Point: p, Kind: mem.Data} }
func order(p mem.Point) mem.Wait { return mem.Wait{Point: p, Kind: mem.Order} }

// moved lists a command's copies as text.
func (c command) moved() (out []string) {
	for _, s := range c.steps {
		out = append(out, fmt.Sprintf("%v %d->%d %v", s.Range, s.From, s.To, s.Way))
	}
	return out
}

var errLost = errors.New("the device fell off the bus")

func TestReadersOfBytesNeverWrittenRunAtOnceAndAWriterWaitsForThem(t *testing.T) {
	g := begin(t, mem.NewTopology("a"), migration.Options{})
	b := g.buffer(100)
	first := g.on("q", use(mem.Read, b, 0, 100, 1))
	require.Empty(t, first.waits)
	second := g.on("r", use(mem.Read, b, 20, 100, 1))
	require.Empty(t, second.waits)
	change := g.on("s", use(mem.ReadWrite, b, 0, 100, 1))
	require.ElementsMatch(t, []mem.Wait{order(first.at), order(second.at)}, change.waits)
}

func TestHazardsArePerMemory(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(100)
	g.on("q", use(mem.Write, b, 0, 100, 1))
	g.on("q", use(mem.Read, b, 0, 100, 1))
	require.Empty(t, g.on("r", use(mem.Write, b, 0, 100, 2)).waits, "a write on b waits for nobody on a")
}

func TestAdjacentStepsWithTheSameWaitsAreOne(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(100)
	for i := range uint64(10) {
		g.on("q", use(mem.Write, b, 10*i, 10*i+10, 1))
	}
	for seq := range uint64(10) {
		q := g.queues["q"]
		q.End(mem.Point{Line: q, Seq: seq + 1}, nil)
	}
	r := g.on("r", use(mem.Read, b, 5, 95, 2))
	require.Equal(t, []string{"[5,95) 1->2 ring"}, r.moved())
	require.Equal(t, migration.Reason{Oldest: 1, Newest: 10, Fresh: mem.SetOf(1)}, r.steps[0].Reason)
}

func TestOneExportServesManyImports(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b", "c", "d"), migration.Options{})
	b := g.buffer(100)
	g.on("q", use(mem.Write, b, 0, 100, 1))
	c := g.on("r", use(mem.Read, b, 0, 100, 2), use(mem.Read, b, 0, 100, 3), use(mem.Read, b, 0, 100, 4))
	require.Len(t, c.steps, 3)
	require.Equal(t, []int{-1, 0, 0}, []int{c.steps[0].Export, c.steps[1].Export, c.steps[2].Export})
	require.EqualValues(t, 300, g.p.Stats().BytesMoved, "each arrival once, whatever the hops")
}

func TestAPeerOfADestinationGetsItFromThere(t *testing.T) {
	topo := mem.NewTopology("a", "b", "c")
	require.NoError(t, topo.SetLink(2, 3, mem.DirectLink(0, 0)))
	g := begin(t, topo, migration.Options{})
	b := g.buffer(100)
	g.on("q", use(mem.Write, b, 0, 100, 1))
	c := g.on("r", use(mem.Read, b, 0, 100, 2), use(mem.Read, b, 0, 100, 3))
	require.Equal(t, []string{"[0,100) 1->2 ring", "[0,100) 2->3 direct"}, c.moved())
	require.Equal(t, 0, c.steps[1].After)
	require.Equal(t, migration.ByRelay, c.steps[1].Reason.Choice)
}

func TestDevicesThatShareAStoreNeverCopyBetweenEachOther(t *testing.T) {
	topo := mem.NewTopology("a", "b", "c")
	require.NoError(t, topo.Share(2, 3))
	g := begin(t, topo, migration.Options{})
	b := g.buffer(100)
	w := g.on("q", use(mem.Write, b, 0, 100, 3))
	require.Equal(t, []migration.Want{{Buffer: b, Memory: 2, Range: mem.Range{End: 100}, Span: mem.Range{End: 100}}}, w.wants, "the store's name is its smallest memory's")
	r := g.on("r", use(mem.Read, b, 0, 100, 2))
	require.Empty(t, r.steps)
	require.Equal(t, []mem.Wait{data(w.at)}, r.waits)
}

func TestAFailedWritePoisonsItsBytesAndNoNewerOnes(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b"), migration.Options{})
	b := g.buffer(100)
	old := g.on("q", use(mem.Write, b, 0, 100, 1))
	g.on("r", use(mem.Write, b, 0, 40, 2))
	g.on("r", use(mem.Read, b, 50, 60, 2)) // a copy of what is lost
	g.on("r")
	require.EqualValues(t, 3, g.p.Clock(), "commands that access something")
	g.failPoint(old.at, errLost)
	var plan migration.Plan
	require.NoError(t, g.p.Plan(&plan, []mem.Access{use(mem.Read, b, 0, 40, 1)}), "newer bytes are good")
	err := g.p.Plan(&plan, []mem.Access{use(mem.Read, b, 30, 100, 1)})
	require.ErrorIs(t, err, mem.ErrPoisoned)
	require.ErrorIs(t, err, errLost)
	require.ErrorContains(t, err, "buffer 0: bytes [40,100) hold version 1, lost when q#1 failed")
	require.Equal(t, mem.ExecStatusErrorInWaitList, mem.StatusOf(err))
	require.Empty(t, plan.Steps)
	g.on("q", use(mem.Write, b, 40, 100, 2))
	require.Empty(t, g.on("q", use(mem.Read, b, 0, 100, 2)).steps, "a write clears the poison")
}

func TestThePlannerSpreadsEqualRoutesOverLinks(t *testing.T) {
	g := begin(t, mem.NewTopology("a", "b", "c"), migration.Options{})
	from := map[mem.MemoryID]int{}
	for i := range mem.MemoryID(10) {
		b := g.buffer(100)
		g.on("q", use(mem.Write, b, 0, 100, 1+i%2))
		g.on("q", use(mem.Read, b, 0, 100, 2-i%2))
		c := g.on("q", use(mem.Read, b, 0, 100, 3))
		require.Equal(t, migration.ByLoad, c.steps[0].Reason.Choice)
		from[c.steps[0].From]++
	}
	require.Equal(t, map[mem.MemoryID]int{1: 5, 2: 5}, from)
}

func TestSourcesAreChosenByTimeWhereItIsKnownElseByWay(t *testing.T) {
	direct := func(bandwidth uint64) mem.Link { return mem.DirectLink(0, bandwidth) }
	ring := func(bandwidth uint64) mem.Link { return mem.RingLink(0, bandwidth) }
	for _, c := range []struct {
		name   string
		links  map[mem.MemoryID]mem.Link // from a, b and c to d
		from   mem.MemoryID
		choice migration.Choice
	}{
		{"nothing known", nil, 1, migration.ByNumber},
		{"one direct way", map[mem.MemoryID]mem.Link{2: direct(0)}, 2, migration.ByWay},
		{"a fast ring before a slow direct way", map[mem.MemoryID]mem.Link{2: direct(1), 1: ring(1000), 3: ring(10)}, 1, migration.ByTime},
		{"a direct way before a ring, the speed of one being unknown", map[mem.MemoryID]mem.Link{2: direct(1), 1: ring(1000)}, 2, migration.ByWay},
		{"the faster of two", map[mem.MemoryID]mem.Link{1: ring(1), 2: direct(10), 3: direct(20)}, 3, migration.ByTime},
		{"the first of two equals", map[mem.MemoryID]mem.Link{1: ring(1), 2: direct(10), 3: direct(10)}, 2, migration.ByNumber},
	} {
		t.Run(c.name, func(t *testing.T) {
			topo := mem.NewTopology("a", "b", "c", "d")
			for m, l := range c.links {
				require.NoError(t, topo.SetLink(m, 4, l))
			}
			p := migration.New(topo, migration.Options{})
			id, err := p.Create(100, mem.SetOf(1, 2, 3))
			require.NoError(t, err)
			var plan migration.Plan
			require.NoError(t, p.Plan(&plan, []mem.Access{use(mem.Read, id, 0, 100, 4)}))
			require.Len(t, plan.Steps, 1)
			require.Equal(t, c.from, plan.Steps[0].From)
			require.Equal(t, c.choice, plan.Steps[0].Reason.Choice)
		})
	}
}
