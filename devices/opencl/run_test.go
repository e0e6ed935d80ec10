//go:build cgo

package opencl

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// steps is a run of n launches, of which each adds to its own word what its number is.
func steps(t *testing.T, m devices.Module, a mem.Block, n int) []devices.Command {
	cmds := make([]devices.Command, n)
	for i := range cmds {
		cmds[i] = *step(t, m, a, uint32(i))
	}
	cmds[0].Run = &devices.Run{Then: cmds[1:]}
	return cmds
}

// stepped is what some steps from number 0 on make of a word.
func stepped(w uint32, n int) uint32 {
	for i := range n {
		w = 3*w + uint32(i)
	}
	return w
}

func firstWord(t *testing.T, q *Queue, b mem.Block) uint32 {
	got := make([]byte, 4)
	finishPoint(t, q, run(t, q, read(q.dev, b, 0, got)))
	return binary.NativeEndian.Uint32(got)
}

// TestARunOfWhichOpenCLRefusesALaunch strikes each call of a run of four, with events and without: where it is the first nothing was
// accepted; else the run fails, and says which launch it was, when those before it have ended.
func TestARunOfWhichOpenCLRefusesALaunch(t *testing.T) {
	const n = 4
	for _, quiet := range []string{"off", "on"} {
		t.Run("quiet="+quiet, func(t *testing.T) {
			d := open(t, 1, map[string]string{"quiet": quiet})[0]
			m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			q := openQueue(t, d, devices.QueueOptions{Name: "q"})
			a := zeroed(t, d, q)
			cmds, w := steps(t, m, a, n), uint32(0)
			for nth := 1; nth <= n+1; nth++ {
				ocl.Inject(ocl.FaultEnqueue, nth, int32(mem.OutOfResources))
				p, err := q.Submit(&cmds[0], nil)
				ocl.Inject(ocl.FaultEnqueue, 0, 0)
				switch {
				case nth == 1:
					require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
				case nth > n:
					require.NoError(t, err)
					finishPoint(t, q, p)
					w = stepped(w, n)
				default:
					require.NoError(t, err)
					err := q.Wait(t.Context(), p, devices.Park)
					require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
					require.ErrorContains(t, err, fmt.Sprintf("run of %d launches, launch %d: kernel advance", n, nth-1))
					w = stepped(w, nth-1)
				}
				require.Equal(t, w, firstWord(t, q, a))
			}
		})
	}
}

// TestARunThatIsHeldFailsAlike strikes launches of a run that OpenCL is given only when a gate opens.
func TestARunThatIsHeldFailsAlike(t *testing.T) {
	d := open(t, 1, nil)[0]
	m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	cmds, w := steps(t, m, a, 4), uint32(0)
	line := mem.NewTimeline("user", false, nil)
	for nth := 1; nth <= 4; nth++ {
		gate := line.Next()
		p, err := q.Submit(&cmds[0], []mem.Wait{{Point: gate, Kind: mem.Data}})
		require.NoError(t, err)
		ocl.Inject(ocl.FaultEnqueue, nth, int32(mem.OutOfResources))
		line.End(gate, nil)
		err = q.Wait(t.Context(), p, devices.Park)
		ocl.Inject(ocl.FaultEnqueue, 0, 0)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(err))
		w = stepped(w, nth-1)
		require.Equal(t, w, firstWord(t, q, a))
	}
}

// TestARunOfWhichOpenCLRefusesAnArgument strikes each call that sets an argument of a run of four, and the marker behind those before it or not.
func TestARunOfWhichOpenCLRefusesAnArgument(t *testing.T) {
	for _, quiet := range []string{"off", "on"} {
		for _, marker := range []int{0, 1} {
			d := open(t, 1, map[string]string{"quiet": quiet})[0]
			m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
			require.NoError(t, err)
			q := openQueue(t, d, devices.QueueOptions{Name: "q"})
			a := zeroed(t, d, q)
			cmds, w, seen := steps(t, m, a, 4), uint32(0), make(map[int]bool)
			for nth, refused := 1, true; refused; nth++ {
				ocl.Inject(ocl.FaultArg, nth, int32(mem.InvalidArgValue))
				ocl.Inject(ocl.FaultMarker, marker, int32(mem.OutOfHostMemory))
				p, err := q.Submit(&cmds[0], nil)
				ocl.Inject(ocl.FaultArg, 0, 0)
				ocl.Inject(ocl.FaultMarker, 0, 0)
				if err == nil {
					err = q.Wait(t.Context(), p, devices.Park)
				}
				did := 4
				if refused = err != nil; refused {
					require.Equal(t, mem.InvalidArgValue, mem.StatusOf(err))
					_, text, _ := strings.Cut(err.Error(), "launch ")
					_, err := fmt.Sscanf(text, "%d: kernel advance", &did)
					require.NoError(t, err, text)
					seen[did] = true
				}
				w = stepped(w, did)
				require.Equal(t, w, firstWord(t, q, a), "argument %d, launch %d", nth, did)
			}
			require.Len(t, seen, 4, "each launch was struck")
			allFree(t, d.host)
			require.NoError(t, m.Close())
		}
	}
}

// TestARunWhoseCallbackIsRefusedEnds refuses the callback of a run's event, and of the marker's behind one that was taken in part.
func TestARunWhoseCallbackIsRefusedEnds(t *testing.T) {
	d := open(t, 1, map[string]string{"quiet": "off", "events": "callback"})[0]
	m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	a := zeroed(t, d, q)
	for _, nth := range []int{0, 3} {
		cmds := steps(t, m, a, 4)
		ocl.Inject(ocl.FaultListen, 1, int32(mem.OutOfHostMemory))
		ocl.Inject(ocl.FaultEnqueue, nth, int32(mem.OutOfResources))
		p, err := q.Submit(&cmds[0], nil)
		ocl.Inject(ocl.FaultListen, 0, 0)
		require.NoError(t, err)
		require.NoError(t, q.Flush())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		require.NoError(t, mem.WaitAny(ctx, []mem.Point{p}))
		cancel()
		require.Equal(t, nth == 0, p.Succeeded())
		allFree(t, d.host)
	}
}

// TestARunThatIsRefusedInPartGivesItsRecordBack has others take the host's lock all the time: so who hears of the end of what was taken
// has it before Submit does now and then.
func TestARunThatIsRefusedInPartGivesItsRecordBack(t *testing.T) {
	d := open(t, 1, map[string]string{"quiet": "on"})[0]
	m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	cmds := steps(t, m, zeroed(t, d, q), 2)
	var others sync.WaitGroup
	var over atomic.Bool
	for range 3 {
		others.Go(func() {
			for !over.Load() {
				d.host.mu.Lock()
				time.Sleep(time.Microsecond)
				d.host.mu.Unlock()
			}
		})
	}
	for range 1000 {
		ocl.Inject(ocl.FaultEnqueue, 2, int32(mem.OutOfResources))
		p, err := q.Submit(&cmds[0], nil)
		require.NoError(t, err)
		require.Equal(t, mem.OutOfResources, mem.StatusOf(q.Wait(t.Context(), p, devices.Park)))
	}
	over.Store(true)
	others.Wait()
	allFree(t, d.host)
}

// TestWhatIsBehindARunThatIsRefusedInPartIsFlushed: the marker has an event, though the run was to have none.
func TestWhatIsBehindARunThatIsRefusedInPartIsFlushed(t *testing.T) {
	d := open(t, 1, map[string]string{"quiet": "on"})[0]
	d.host.quirks.startsAtOnce = true
	m, err := d.Build(context.Background(), &devices.Program{Name: "quiet", Source: advanceSource})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	q := openQueue(t, d, devices.QueueOptions{Name: "q"})
	cmds := steps(t, m, zeroed(t, d, q), 2)
	require.NoError(t, q.Flush())
	require.False(t, q.dirty.Load())
	ocl.Inject(ocl.FaultEnqueue, 2, int32(mem.OutOfResources))
	p, err := q.Submit(&cmds[0], nil)
	require.NoError(t, err)
	require.True(t, q.dirty.Load())
	require.Equal(t, mem.OutOfResources, mem.StatusOf(q.Wait(t.Context(), p, devices.Park)))
}

// allFree fails where a record is not given back.
func allFree(t *testing.T, h *host) {
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.inUseLocked() == 0
	}, 10*time.Second, time.Millisecond)
}
