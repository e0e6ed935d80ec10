package mover_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/engine"
	"godwit/devices/tce"
	"godwit/internal/mover"
	"godwit/mem"
)

// TestLinksSayWhichWaysThereAre, by what the devices are.
func TestLinksSayWhichWaysThereAre(t *testing.T) {
	f := &devicetest.Family{}
	open := func(d devices.Device, err error) devices.Device {
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	sim := func() devices.Device { d, err := tce.New(tce.Options{Memory: 1 << 20}); return open(d, err) }
	c, err := cpu.New(cpu.Options{})
	devs := []devices.Device{open(engine.NewHost(engine.HostOptions{}), nil), open(c, err), sim(), devicetest.NewBus(sim(), f), devicetest.NewBus(sim(), f)}
	const host, cpuMem, tceMem, busA, busB = 0, 1, 2, 3, 4
	var mems []mover.Memory
	for _, d := range devs {
		mems = append(mems, mover.Memory{Device: d, Name: d.Info().Name})
	}
	m, err := mover.Open(mover.Options{Memories: mems})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })

	ways := func(topo *mem.Topology, from, to mem.MemoryID) (direct, ring bool) {
		l := topo.Link(from, to)
		return l.Direct.There, l.Ring.There
	}
	for _, noPeer := range []bool{false, true} {
		topo := mem.NewTopology("cpu", "tce", "busA", "busB")
		require.NoError(t, m.Links(topo, noPeer))
		for _, w := range []struct {
			from, to     mem.MemoryID
			direct, ring bool
		}{
			{host, cpuMem, true, false}, {tceMem, host, true, false}, // one leg, whatever is asked for
			{host, busA, true, true}, {busB, host, true, true}, // by size
			{cpuMem, tceMem, !noPeer, true}, {tceMem, cpuMem, !noPeer, true}, // the process reaches one end
			{cpuMem, busA, !noPeer, true},
			{tceMem, busA, false, true}, {busA, busB, false, true},
		} {
			direct, ring := ways(topo, w.from, w.to)
			require.Equal(t, w.direct, direct, "%d to %d, no peers %v", w.from, w.to, noPeer)
			require.Equal(t, w.ring, ring, "%d to %d, no peers %v", w.from, w.to, noPeer)
		}
	}
}

// TestRingsInBatchesAreMeasuredOnce for all who share the figures, and not where that is
// given up.
func TestRingsInBatchesAreMeasuredOnce(t *testing.T) {
	fam := &devicetest.Family{}
	var devs []devices.Device
	mems := []mover.Memory{{Device: engine.NewHost(engine.HostOptions{}), Name: "host"}}
	for _, name := range []string{"a", "b"} {
		d, err := tce.New(tce.Options{Memory: 64 << 20})
		require.NoError(t, err)
		b := devicetest.NewBus(d, fam)
		devs, mems = append(devs, b), append(mems, mover.Memory{Device: b, Name: name})
	}
	defer func() {
		for _, x := range mems {
			require.NoError(t, x.Device.Close())
		}
	}()
	var figures mover.Figures
	var by devices.Executor
	measure := func(ctx context.Context) (*mem.Topology, int64, error) {
		before := fam.Batches.Load()
		m, err := mover.Open(mover.Options{Memories: mems, Executor: by})
		require.NoError(t, err)
		topo := mem.NewTopology("a", "b")
		err = m.Measure(ctx, topo, &figures)
		require.NoError(t, m.Check())
		require.NoError(t, m.Close())
		for _, d := range devs {
			require.Zero(t, d.Memory().Stats().Live, "measuring leaves nothing behind")
		}
		return topo, fam.Batches.Load() - before, err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, n, err := measure(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)

	topo, n, err := measure(context.Background())
	require.NoError(t, err)
	require.NotZero(t, n)
	for _, pair := range [][2]mem.MemoryID{{1, 2}, {2, 1}} {
		l := topo.Link(pair[0], pair[1])
		require.True(t, l.Ring.There)
		require.NotZero(t, l.Ring.Bandwidth)
	}
	for i := 0; i < 100 && n > 0; i++ { // where noise made no sense nothing is kept
		topo, n, err = measure(context.Background())
		require.NoError(t, err)
	}
	require.Zero(t, n, "known already")
	again, _, err := measure(context.Background())
	require.NoError(t, err)
	require.Equal(t, topo.Link(1, 2), again.Link(1, 2))
	figures.Forget(devs[1])
	_, n, err = measure(context.Background())
	require.NoError(t, err)
	require.NotZero(t, n, "of both directions")
	figures.Forget(devs[1])
	by = new(steady)
	for range 2 {
		_, n, err = measure(context.Background())
		require.NoError(t, err)
		require.NotZero(t, n, "times that make no sense are not kept")
	}
}

// steady is a clock by which all takes the same time.
type steady struct {
	devices.Goroutines
	now atomic.Uint64
}

func (s *steady) Now() uint64 { return s.now.Add(1e6) }
