//go:build cgo

package opencl_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/internal/nvlink/nvlinktest"
	"godwit/runtime"
)

// TestNoCallOfCUDAsThatFailsLosesAByte has each call fail in turn, alone, twice and for ever, while a
// buffer is handed around: content may be late, by another way, or refused with an error, but never
// wrong, and what was good before is there afterwards.
func TestNoCallOfCUDAsThatFailsLosesAByte(t *testing.T) {
	need(t)
	fake := nvlinktest.Again(t)
	if fake == nil {
		return
	}
	for _, c := range []struct {
		kind  linkKind
		times int // 1000 is for ever
	}{{direct, 1}, {direct, 1000}, {byRing, 1}, {byRing, 1000}} {
		step := 2 // some 130 calls open it all, and each copy makes three and more
		if os.Getenv("GODWIT_SOAK") != "" {
			step = 300
		} else if (c.kind != direct) != (c.times > 1) {
			continue
		}
		lives := 0
		for nth, more := 1, true; more; nth, lives = nth+1+nth/step, lives+1 {
			if more = handAroundFailing(t, fake, nth, c.times, c.kind); t.Failed() {
				t.Fatalf("%v, %d times: call %d", c.kind, c.times, nth)
			}
		}
		require.Greater(t, lives, 10, c.kind)
		require.Empty(t, fake.Violations(), c.kind)
	}
}

// handAroundFailing opens a context, and hands a buffer around while the nth call fails. It reports whether
// there were so many.
func handAroundFailing(t *testing.T, fake *nvlinktest.Fake, nth, times int, kind linkKind) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer fake.Revive(1)
	defer fake.Revive(0)
	defer fake.Fail(0, 0)
	fake.Fail(nth, times)
	devs, err := linkedHouse("", kind)(nil)
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err, "without links it goes on all the same")
	_ = c.OpenLinks(ctx)
	var qs []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		qs = append(qs, q)
	}
	const size = 1 << 20
	b, err := c.CreateBuffer(size, 0, nil)
	require.NoError(t, err)
	want := make([]byte, size)
	got := make([]byte, size)
	for round := range 4 {
		for i := range want {
			want[i] = byte(i*7>>3 + round + nth)
		}
		x := round % 2
		e, err := qs[x].EnqueueWrite(ctx, b, 0, want)
		require.NoError(t, err)
		require.NoError(t, e.Wait(ctx))
		for range 3 {
			x = 1 - x
			e, err := qs[x].EnqueueMigrate(ctx, []*runtime.Buffer{b}, 0)
			if err == nil {
				err = e.Wait(ctx)
			}
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			// Copies may fail until the link is known to be lost. The source stays good.
			for try := 0; ; try++ {
				e, err := qs[x].EnqueueRead(ctx, b, 0, got)
				require.NoError(t, err, "round %d", round)
				if err = e.Wait(ctx); err == nil {
					break
				}
				require.Less(t, try, 5, "round %d: the source is as good as it was: %v", round, err)
			}
			require.True(t, bytes.Equal(want, got), "round %d: wrong bytes", round)
		}
	}
	require.NoError(t, b.Release())
	calls := fake.Calls()
	fake.Fail(0, 0)
	require.NoError(t, c.Check())
	require.NoError(t, c.Close(ctx))
	return calls >= nth
}

// TestTheFirstLargeCopyOpensTheLinkAndGoesOverIt holds that a context opens none of CUDA's before.
func TestTheFirstLargeCopyOpensTheLinkAndGoesOverIt(t *testing.T) {
	need(t)
	fake := nvlinktest.Again(t)
	if fake == nil {
		return
	}
	bg := context.Background()
	devs, err := devices.Open(bg, "opencl", devices.Config{
		Memory: 512 << 20, Params: map[string]string{"bus": "on", "carve": "on", "nvlink": "on"}, // enough for rings to be measured
	})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true})
	require.NoError(t, err)
	require.Zero(t, fake.Live().Contexts)
	const size = 64 << 20
	b, err := c.CreateBuffer(size, 0, nil)
	require.NoError(t, err)
	got := make([]byte, size)
	for i, d := range devs[:2] {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		before := c.MoverStats()
		if i == 0 {
			_, err = q.EnqueueFill(bg, b, []byte{5}, 0, size)
		} else {
			_, err = q.EnqueueMigrate(bg, []*runtime.Buffer{b}, 0)
			require.EqualValues(t, 1, c.MoverStats().Linked)
			require.Equal(t, before.Rings, c.MoverStats().Rings)
		}
		require.NoError(t, err)
		e, err := q.EnqueueRead(bg, b, 0, got)
		require.NoError(t, err)
		require.NoError(t, e.Wait(bg))
		require.True(t, bytes.Equal(bytes.Repeat([]byte{5}, size), got))
	}
	require.NoError(t, b.Release())
	require.NoError(t, c.Check())
	require.NoError(t, c.Close(bg))
	require.Empty(t, fake.Violations())
}
