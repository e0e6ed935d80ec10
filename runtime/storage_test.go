package runtime

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/migration"
)

// TestStorageOnSeveralMemoriesIsAllOrNone obtains a plan's blocks on two
// memories, the second of which has none: the first's are given back.
func TestStorageOnSeveralMemoriesIsAllOrNone(t *testing.T) {
	devs := []devices.Device{engine.NewHost(engine.HostOptions{}), engine.NewHost(engine.HostOptions{})}
	var layers []*resource.Fail
	c, err := NewContext(Options{Devices: devs, OwnDevices: true, Resource: func(_ mem.MemoryID, base mem.Resource) mem.Resource {
		layers = append(layers, resource.NewFail(base))
		return layers[len(layers)-1]
	}})
	require.NoError(t, err)
	a, err := c.CreateBuffer(64, 0, nil)
	require.NoError(t, err)
	b, err := c.CreateBuffer(64, 0, nil)
	require.NoError(t, err)
	plan := migration.Plan{Storage: []migration.Want{{Buffer: a.ID(), Memory: 1, Range: mem.Range{End: 64}}, {Buffer: a.ID(), Memory: 2, Range: mem.Range{End: 64}}, {Buffer: b.ID(), Memory: 1, Range: mem.Range{End: 64}}}}
	layers[2].At(1, mem.Exhausted, nil)
	c.lock()
	forgetStorage(&c.scratch)
	_, err = c.obtain(&plan)
	c.unlock()
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.Zero(t, layers[1].Stats().Blocks)
	require.NoError(t, c.Check())
	c.lock()
	forgetStorage(&c.scratch)
	_, err = c.obtain(&plan)
	c.unlock()
	require.NoError(t, err)
	require.Equal(t, uint64(2), layers[1].Calls(), "blocks of one memory are asked for at once")
	require.Equal(t, 2, layers[1].Stats().Blocks)
	require.Equal(t, 1, layers[2].Stats().Blocks)
	require.NoError(t, c.Check())
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	require.NoError(t, c.Close(context.Background()))
}

// hinted notes the hints of the requests that pass.
type hinted struct {
	mem.Resource
	seen *[]mem.Hint
}

func (h hinted) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	for _, q := range reqs {
		*h.seen = append(*h.seen, q.Hint)
	}
	return h.Resource.AllocAll(reqs, out, reuse)
}

func TestABuffersHintComesWithItsRequests(t *testing.T) {
	var seen []mem.Hint
	devs := []devices.Device{engine.NewHost(engine.HostOptions{})}
	c, err := NewContext(Options{Devices: devs, OwnDevices: true, Resource: func(_ mem.MemoryID, base mem.Resource) mem.Resource {
		return hinted{base, &seen}
	}})
	require.NoError(t, err)
	a, err := c.CreateBuffer(64, 0, nil)
	require.NoError(t, err)
	b, err := c.CreateBuffer(64, 0, nil)
	require.NoError(t, err)
	require.NoError(t, a.SetHint(mem.Together(5)))
	plan := migration.Plan{Storage: []migration.Want{{Buffer: a.ID(), Memory: 1, Range: mem.Range{End: 64}}, {Buffer: b.ID(), Memory: 1, Range: mem.Range{End: 64}}}}
	c.lock()
	forgetStorage(&c.scratch)
	_, err = c.obtain(&plan)
	c.unlock()
	require.NoError(t, err)
	require.Equal(t, []mem.Hint{mem.Together(5), 0}, seen)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	require.ErrorIs(t, a.SetHint(0), mem.ErrInvalidBuffer)
	require.NoError(t, c.Close(context.Background()))
}

// forgetStorage forgets what was got for the last command.
func forgetStorage(s *scratch) {
	s.reuse.Cut(0)
	s.wants = s.wants[:0]
}

// What one enqueue locks in a round is bounded, but for the first.
func TestARoundLocksNoMoreThanItMay(t *testing.T) {
	c := &Context{roots: make(map[mem.BufferID]*root)}
	c.locks.from = struct{ devices.PageLocker }{}
	for sizes, want := range map[string]int{"1": 1, "2": 1, "0.5 0.5": 2, "0.5 0.5 0.5": 2, "2 0.5": 1, "0.5 2 0.25": 1} {
		var wants []migration.Want
		for i, s := range strings.Fields(sizes) {
			gib, err := strconv.ParseFloat(s, 64)
			require.NoError(t, err)
			c.roots[mem.BufferID(i)] = &root{size: uint64(gib * lockRoundBytes)}
			wants = append(wants, migration.Want{Buffer: mem.BufferID(i), Memory: mem.Host})
		}
		require.Len(t, c.missingPages(wants), want, sizes)
	}
}
