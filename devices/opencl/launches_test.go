//go:build cgo

package opencl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/mem"
)

// launching opens n devices, and builds a program for each.
func launching(t *testing.T, n int, params map[string]string) ([]*Device, []devices.Module) {
	devs := open(t, n, params)
	var ms []devices.Module
	for _, d := range devs {
		m, err := d.Build(context.Background(), &devices.Program{Name: "launches", Source: advanceSource})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		ms = append(ms, m)
	}
	return devs, ms
}

func TestLaunchesOfMoreGroupsThanPoCLCountsAreRefused(t *testing.T) {
	devs, ms := launching(t, 1, nil)
	if !devs[0].host.quirks.groups32 {
		t.Skip("this platform counts them")
	}
	q, err := devs[0].NewQueue(devices.QueueOptions{Name: "q"})
	require.NoError(t, err)
	b := zeroed(t, devs[0], q.(*Queue))
	defer func() { require.NoError(t, q.Close()) }()
	for _, c := range []struct {
		global, local [3]uint64
		refused       bool
	}{
		{[3]uint64{1 << 32}, [3]uint64{1}, true},
		{[3]uint64{1 << 17, 1 << 16}, [3]uint64{2, 1}, true},
		{[3]uint64{1 << 44}, [3]uint64{}, true},       // of 4,096 work-items at most
		{[3]uint64{4_294_967_311}, [3]uint64{}, true}, // a prime number
		{[3]uint64{64, 64}, [3]uint64{2, 1}, false},
		{[3]uint64{64, 64}, [3]uint64{}, false},
	} {
		cmd := step(t, ms[0], b, 1)
		cmd.Dims, cmd.Global, cmd.Local = 2, c.global, c.local
		cmd.Global[1] = max(cmd.Global[1], 1)
		if cmd.Local[0] != 0 {
			cmd.Local[1] = max(cmd.Local[1], 1)
		}
		p, err := q.Submit(cmd, nil)
		if c.refused {
			require.ErrorIs(t, err, mem.ErrGlobalSize)
			require.ErrorContains(t, err, "the device takes 4294967295")
			continue
		}
		require.NoError(t, err)
		blocked(t, q.(*Queue), p)
	}
}

// blocked waits as who may block its thread.
func blocked(t testing.TB, q *Queue, p mem.Point) {
	t.Helper()
	require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
}

// Launches, transfers, gates and failures, on two devices and queues of both kinds, leave what a program would
// that ran them one by one.
func TestLaunchesAmongOthersComputeTheSame(t *testing.T) {
	for _, c := range []map[string]string{{"quiet": "off"}, {"quiet": "on", "events": "callback"}, {"quiet": "on", "events": "watch"}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) { launchesAmongOthers(t, c) })
	}
}

func launchesAmongOthers(t *testing.T, params map[string]string) {
	devs, ms := launching(t, 2, params)
	rapid.Check(t, func(rt *rapid.T) {
		type ended struct {
			p  mem.Point
			ok bool
		}
		var queues []*Queue
		for i := range 6 {
			q, err := devs[i%2].NewQueue(devices.QueueOptions{Name: "q", OutOfOrder: i >= 4, Profiling: rapid.Bool().Draw(rt, "profiling")})
			require.NoError(t, err)
			queues = append(queues, q.(*Queue))
		}
		var blocks [2]mem.Block
		var content [2]uint32
		var last [2]ended // of the block's commands
		for i := range blocks {
			blocks[i] = zeroed(t, devs[i], queues[i])
		}
		gate := mem.NewTimeline("gate", true, nil)
		var open []mem.Point
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			i := rapid.IntRange(0, 1).Draw(rt, "device")
			q := queues[i+2*rapid.IntRange(0, 2).Draw(rt, "queue")]
			var waits []mem.Wait
			if !last[i].p.IsZero() {
				waits = append(waits, mem.Wait{Point: last[i].p, Kind: mem.Order})
			}
			fails := false
			if rapid.IntRange(0, 9).Draw(rt, "gate") == 0 {
				p := gate.Next()
				open = append(open, p)
				waits = append(waits, mem.Wait{Point: p, Kind: mem.Data})
				fails = p.Seq%3 == 0
			}
			var cmd *devices.Command
			var then func(uint32) uint32
			switch n := rapid.Uint32Range(0, 7).Draw(rt, "what"); {
			case n < 5:
				cmd, then = step(t, ms[i], blocks[i], n), func(c uint32) uint32 { return 3*c + n }
				cmd.Unobserved = rapid.IntRange(0, 4).Draw(rt, "loud") > 0
			case n == 5:
				v := rapid.Uint32().Draw(rt, "value")
				cmd, then = write(devs[i], blocks[i], 4*(words64-1), word(v)), func(uint32) uint32 { return v }
			default:
				cmd = &devices.Command{Op: devices.OpCopy, Size: 4 * words64, Dst: devices.Loc{Device: devs[i], Block: blocks[i]},
					Src: devices.Loc{Device: devs[1-i], Block: blocks[1-i]}}
				if other := last[1-i].p; !other.IsZero() {
					waits = append(waits, mem.Wait{Point: other, Kind: mem.Order})
				}
				c := content[1-i]
				then = func(uint32) uint32 { return c }
			}
			waitsForIt := len(open) == 0 && rapid.IntRange(0, 2).Draw(rt, "waits") > 0
			cmd.Awaited = waitsForIt && cmd.Op == devices.OpCopy && cmd.Src.Device == nil
			p := run(t, q, cmd, waits...)
			if waitsForIt {
				require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread))
				require.True(t, !q.inOrder || p.Passed(), "what was before it in its queue has ended")
			}
			switch rapid.IntRange(0, 3).Draw(rt, "times") {
			case 0:
				q.Times(p, devices.DeviceClock)
			case 1:
				q.Forget(p)
			}
			if !fails {
				content[i] = then(content[i])
			}
			last[i] = ended{p, !fails}
			if n := len(cmd.Args); n == 0 && cmd.Src.Device != nil { // the other block is not written before
				last[1-i].p = p
			}
			for len(open) > 0 && rapid.Bool().Draw(rt, "opens") {
				endGate(gate, open[0])
				open = open[1:]
			}
		}
		for _, p := range open {
			endGate(gate, p)
		}
		for i := range blocks {
			if p := last[i].p; !p.IsZero() {
				_ = p.Wait(context.Background())
			}
			require.Equal(t, content[i], contentOf(t, devs[i], queues[i], blocks[i]), "block %d", i)
		}
		for _, q := range queues {
			require.NoError(t, q.Close())
		}
	})
}

func endGate(gate *mem.Timeline, p mem.Point) {
	if p.Seq%3 == 0 {
		gate.End(p, errors.New("no"))
	} else {
		gate.End(p, nil)
	}
}

// Launches that many threads wait for, each in its way, run once, and before what waits for them.
func TestLaunchesThatManyThreadsWaitForRunOnce(t *testing.T) {
	devs, ms := launching(t, 1, nil)
	d := devs[0]
	advance := kernelNamed(t, ms[0], "advance")
	by := func(a mem.Block, n uint32) *devices.Command {
		cmd := step(t, ms[0], a, n)
		cmd.Kernel = advance
		return cmd
	}
	var queues [2]struct {
		sync.Mutex // over Submit
		*Queue
		a        mem.Block
		launches uint32 // protected by the Mutex
	}
	for i := range queues {
		q := &queues[i]
		q.Queue = openQueue(t, d, devices.QueueOptions{Name: "q"})
		q.a = zeroed(t, d, q.Queue)
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(1, uint64(g)))
			for range 200 {
				q, other, n := &queues[draw.IntN(2)], &queues[draw.IntN(2)], draw.IntN(6)
				q.Lock()
				p, err := q.Submit(by(q.a, 1), nil)
				q.launches++
				q.Unlock()
				if !assert.NoError(t, err) {
					return
				}
				ctx := context.Background()
				switch n {
				case 0, 1:
					err = q.Wait(ctx, p, devices.WaitMode(n))
				case 2:
					err = q.Flush()
				case 3:
					q.Poll(p)
				case 4:
					err = p.Wait(ctx)
				default:
					look := read(d, q.a, 0, make([]byte, 4))
					look.Awaited = true
					other.Lock()
					r, refused := other.Submit(look, []mem.Wait{{Point: p, Kind: mem.Data}})
					other.Unlock()
					if err = refused; err == nil {
						err = other.Wait(ctx, r, devices.BlockThread)
						assert.True(t, p.Succeeded())
					}
				}
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	for i := range queues {
		q, want := &queues[i], uint32(0)
		for range q.launches {
			want = 3*want + 1
		}
		require.Equal(t, want, contentOf(t, d, q.Queue, q.a))
	}
}
