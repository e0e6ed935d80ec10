package runtime_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/runtime"
)

// However many gates there are, no command that hangs is taken for free; and where they
// are 63 or fewer, none that is free for one that hangs.
// Every other time the device ends nothing meanwhile: what is known of a point is kept
// until it is reached, so that else the test would see other gates under load.
func TestGatesComeAndGo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		small, err := cpu.New(cpu.Options{Memory: 1024})
		require.NoError(rt, err)
		hold := devicetest.NewHold(small)
		c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{hold}, OwnDevices: true})
		require.NoError(rt, err)
		in, err := c.NewQueue(hold, runtime.QueueOptions{})
		require.NoError(rt, err)
		out, err := c.NewQueue(hold, runtime.QueueOptions{OutOfOrder: true})
		require.NoError(rt, err)
		if rapid.Bool().Draw(rt, "held") {
			hold.Hold()
		}
		most := rapid.SampledFrom([]int{3, 63, 100}).Draw(rt, "most")
		var open []runtime.Event
		on := make(map[runtime.Event]map[runtime.Event]bool) // what each command hangs on
		var all []runtime.Event
		behind := make(map[runtime.Event]bool) // what the last of the in-order queue hangs on
		rough := make(map[runtime.Event]bool)  // waits for one of an in-order queue, of which no more is known than since when
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			switch k := rapid.IntRange(0, 3).Draw(rt, "what"); {
			case k == 0 && len(open) < most:
				u, err := c.NewUserEvent()
				require.NoError(rt, err)
				open = append(open, u)
				on[u] = map[runtime.Event]bool{u: true}
				all = append(all, u)
			case k == 1 && len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "set")
				require.NoError(rt, open[i].SetStatus(runtime.Complete))
				for _, x := range all {
					delete(on[x], open[i])
				}
				delete(behind, open[i])
				open = slices.Delete(open, i, i+1)
			default:
				q, hung := out, make(map[runtime.Event]bool)
				if k == 2 {
					q = in
					maps.Copy(hung, behind)
				}
				var wait []runtime.Event
				if len(all) > 0 {
					wait = append(wait, all[rapid.IntRange(0, len(all)-1).Draw(rt, "wait")])
					maps.Copy(hung, on[wait[0]])
				} else if q == out {
					continue // it would wait for all there are
				}
				e, err := q.EnqueueMarker(ctx, wait...)
				require.NoError(rt, err)
				on[e] = hung
				rough[e] = q == in || len(wait) > 0 && rough[wait[0]]
				all = append(all, e)
				if q == in {
					behind = maps.Clone(hung)
				}
			}
		}
		for _, x := range all {
			p, err := x.Point()
			require.NoError(rt, err)
			hangs := c.Hangs(p)
			require.True(rt, hangs || len(on[x]) == 0, "%v hangs on %d events", p, len(on[x]))
			require.False(rt, hangs && most < 64 && !rough[x] && len(on[x]) == 0, "%v hangs on nothing", p)
		}
		for _, u := range open {
			require.NoError(rt, u.SetStatus(runtime.Complete))
		}
		require.Zero(rt, c.ClosedGates())
		hold.Release()
		require.NoError(rt, c.Close(ctx))
	})
}
