//go:build cgo

package opencl_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/internal/mover"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/mem"
)

// TestALongRingByWindowArrives moves many chunks through few slots. The blocks, and memory from before the links that has
// room, lie in no windows: those of the ring have to be made.
func TestALongRingByWindowArrives(t *testing.T) {
	need(t)
	if nvlinktest.Again(t) == nil {
		return
	}
	devs, err := linkedHouse("", byRing)(nil)
	require.NoError(t, err)
	o := mover.Options{Chunk: 64 << 10}
	topo := mem.NewTopology("0", "1")
	host := engine.NewHost(engine.HostOptions{})
	all := append([]devices.Device{host}, devs...)
	for i, d := range all {
		o.Memories = append(o.Memories, mover.Memory{Device: d, Name: string(rune('0' + i))})
	}
	m, err := mover.Open(o)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const size = 80 * (64 << 10)
	want := make([]byte, size)
	var ends []mover.End
	var qs []devices.Queue
	for i, d := range devs {
		var b [1]mem.Block
		out, err := d.Memory().AllocAll([]mem.Request{{Size: size}}, b[:], nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, out)
		ends = append(ends, mover.End{Memory: mem.MemoryID(i + 1), Block: b[0]})
		q, err := d.NewQueue(devices.QueueOptions{Name: "test"})
		require.NoError(t, err)
		qs = append(qs, q)
	}
	require.NoError(t, m.Links(topo, false))
	require.NoError(t, m.Measure(ctx, topo, new(mover.Figures)))
	require.NoError(t, m.OpenLinks(ctx))
	move := func(q devices.Queue, dst, src devices.Loc) {
		p, err := q.Submit(&devices.Command{Op: devices.OpCopy, Dst: dst, Src: src, Size: size}, nil)
		require.NoError(t, err)
		require.NoError(t, q.Wait(ctx, p, devices.Park))
	}
	at := func(i int) devices.Loc { return devices.Loc{Device: devs[i], Block: ends[i].Block} }
	got := make([]byte, size)
	for round := range 5 {
		for i := range want {
			want[i] = byte(i>>4 + i>>11 + round)
		}
		move(qs[0], at(0), devices.Loc{Bytes: want})
		tr := mover.Transfer{Way: mem.Windows, From: ends[0], To: ends[1:], Size: size, Points: make([]mem.Point, 1)}
		require.NoError(t, m.Move(&tr))
		require.NoError(t, m.Wait(ctx, tr.Points[0]), "round %d", round)
		move(qs[1], devices.Loc{Bytes: got}, at(1))
		require.True(t, bytes.Equal(want, got), "round %d", round)
	}
	for i, q := range qs {
		require.NoError(t, q.Close())
		require.NoError(t, devs[i].Memory().FreeAfter(ends[i].Block, nil))
	}
	require.NoError(t, m.Close())
	for _, d := range all {
		require.NoError(t, d.Close())
	}
}
