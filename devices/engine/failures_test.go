package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

// TestFailuresReachThoseThatNeedThem: on an in-order queue a command fails where it does so by itself, or where
// one fails that it waits for as Data, before or after it was submitted; and nowhere else.
func TestFailuresReachThoseThatNeedThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHost(t, engine.HostOptions{})
		q, users := newQueue(t, h, devices.QueueOptions{Name: "q"}), mem.NewTimeline("users", false, nil)
		n := rapid.IntRange(1, 60).Draw(rt, "commands")
		var points, gates []mem.Point
		fails := make([]bool, n)
		for i := range n {
			own := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
			var waits []mem.Wait
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, n), 0, 4).Draw(rt, "waits") {
				w := mem.Wait{Kind: rapid.SampledFrom([]mem.WaitKind{mem.Data, mem.Order}).Draw(rt, "kind")}
				switch {
				case k < i:
					w.Point = points[k]
					fails[i] = fails[i] || w.Kind == mem.Data && fails[k]
				case k == n:
					w.Point = users.Next()
					gates = append(gates, w.Point)
				default:
					continue
				}
				waits = append(waits, w)
			}
			call := func(context.Context) error { return nil }
			if own {
				fails[i], call = true, func(context.Context) error { return errTest }
			}
			p, err := q.Submit(hostCall(call), waits)
			require.NoError(rt, err)
			points = append(points, p)
			if len(gates) > 0 && rapid.Bool().Draw(rt, "open") {
				users.End(gates[0], nil)
				gates = gates[1:]
			}
		}
		for _, g := range gates {
			users.End(g, nil)
		}
		require.NoError(rt, points[n-1].WaitPassed(t.Context()))
		for i, p := range points {
			require.Equal(rt, !fails[i], p.Succeeded(), "command %d: %v", i, p.Err())
			if fails[i] {
				require.ErrorIs(rt, p.Err(), errTest)
			}
		}
	})
}

// TestALongChainFailsInTimeInProportion: each command needs the one before it, and the first fails. Each of 100,000 used to
// look at all behind it, which took minutes.
func TestALongChainFailsInTimeInProportion(t *testing.T) {
	h := newHost(t, engine.HostOptions{})
	q, users := newQueue(t, h, devices.QueueOptions{Name: "q"}), mem.NewTimeline("users", false, nil)
	gate := users.Next()
	last := gate
	for range 100_000 {
		p, err := q.Submit(hostCall(func(context.Context) error { return nil }), []mem.Wait{{Point: last, Kind: mem.Data}})
		require.NoError(t, err)
		last = p
	}
	users.End(gate, errTest)
	require.NoError(t, last.WaitPassed(t.Context()))
	require.ErrorIs(t, last.Err(), errTest)
}
