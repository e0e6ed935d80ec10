package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/eviction"
	"godwit/mem"
	"godwit/runtime"
)

// slow is a resource whose space comes back only when commands have ended: it gives nothing
// in stream order, as OpenCL's buffers of their own do.
type slow struct {
	mem.Resource
	onPending func() // where not nil
	deaf      int    // so many requests find no room after blocks were freed, though nothing is pending
}

func (s *slow) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if reuse != nil && s.deaf > 0 && s.Stats().Frees > 0 {
		s.deaf--
		return mem.NeedsWait, nil
	}
	return s.Resource.AllocAll(reqs, out, nil)
}

func (s *slow) Pending(dst []mem.Point) []mem.Point {
	dst = s.Resource.Pending(dst)
	if s.onPending != nil {
		s.onPending()
	}
	return dst
}

// slowly is a context over a device that can be held, with room for four buffers, whose space
// comes back only when commands have ended.
func slowly(t *testing.T) (*house, *devicetest.Hold, *slow) {
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	hold, s := devicetest.NewHold(d), new(slow)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: eviction.LRU{}, Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
		if m == mem.Host {
			return base
		}
		s.Resource = base
		return s
	}}, outOfOrder)
	return h, hold, s
}

// What ends by itself may have ended between the look at what is pending and the wait for
// it: then only such is pending as hangs on a user event, or belongs to another context, of
// which nobody here can tell. The enqueue must not wait for that.
func TestAnEnqueueThatEvictedWaitsForNothingThatHangs(t *testing.T) {
	for name, pend := range map[string]func(*house, *slow) (end func()){
		"user event": func(h *house, _ *slow) func() {
			gate := h.gate()
			hung := h.buffer(room, nil)
			h.paint(h.q[0], hung, 1, gate)
			require.NoError(h.t, hung.Release())
			return func() { require.NoError(h.t, gate.SetStatus(runtime.Complete)) }
		},
		"another context": func(h *house, s *slow) func() {
			var theirs [1]mem.Block
			o, err := s.Resource.AllocAll([]mem.Request{{Size: room}}, theirs[:], nil)
			require.NoError(h.t, err)
			require.Equal(h.t, mem.Ready, o)
			line := mem.NewTimeline("other", true, nil)
			p := line.Next()
			require.NoError(h.t, s.Resource.FreeAfter(theirs[0], []mem.Point{p}))
			return func() { line.End(p, nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, hold, s := slowly(t)
			q := h.q[0]
			end := pend(h, s)
			var all []*runtime.Buffer
			for i := range 3 {
				all = append(all, h.buffer(room, nil))
				h.ended(h.paint(q, all[i], byte(i)))
			}
			hold.Hold()
			for i := range 3 {
				h.paint(q, all[i], byte(7+i)) // all[0] leaves once that has ended
			}
			looks := 0
			s.onPending = func() {
				if looks++; looks == 1 {
					hold.Release()
					require.Eventually(t, func() bool { return s.Stats().Pending == room }, 10*time.Second, time.Millisecond)
				}
			}
			more := h.buffer(room, nil)
			h.paint(q, more, 10)
			require.Equal(t, 1, looks)
			s.onPending = nil
			for i, b := range append(all, more) {
				if i != 1 { // the least recently used leaves for all[0]
					h.holds(q, b, byte(7+i))
				}
			}
			end()
			require.NoError(t, q.Finish(soon(t)))
			for _, b := range append(all, more) {
				require.NoError(t, b.Release())
			}
		})
	}
}

// An enqueue that has evicted what it needs waits until it gets that, and evicts nothing
// more for having waited.
func TestAnEnqueueThatEvictedWaitsForAllOfItsRoom(t *testing.T) {
	h, _, s := slowly(t)
	q, d := h.q[0], h.devs[0]
	var all []*runtime.Buffer
	for i := range 4 {
		all = append(all, h.buffer(room, nil))
		h.ended(h.paint(q, all[i], byte(i)))
	}
	require.NoError(t, all[2].Pin(d))
	s.deaf = 3
	more := h.buffer(2*room, nil)
	h.ended(h.ok(q.EnqueueFill(soon(t), more, []byte{5}, 0, 2*room)))
	require.Zero(t, s.deaf)
	require.Len(t, h.evictions(), 2)
	waited := 0
	for _, k := range h.rec.Commands() {
		require.Equal(t, k.Err != nil, k.Again, "%v: nothing was refused", k.Err)
		if k.Again {
			waited++
		}
	}
	require.Equal(t, 1, waited)
	require.NoError(t, all[2].Unpin(d))
	for i, b := range all {
		h.holds(q, b, byte(i))
		require.NoError(t, b.Release())
	}
	require.NoError(t, more.Release())
}

// A command that was behind one user event leaves with it, though one that came after it in its
// queue hangs on another.
func TestACommandHangsOnNothingThatItsQueueCameToLater(t *testing.T) {
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	hold := devicetest.NewHold(d)
	h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: eviction.LRU{}}, runtime.QueueOptions{})
	t.Cleanup(func() { hold.Release() })
	other := h.queue(hold, runtime.QueueOptions{})
	first, second := h.gate(), h.gate()
	b := h.buffer(room, nil)
	h.paint(h.q[0], b, 1, first)
	for range 3 {
		h.paint(h.q[0], h.buffer(room, nil), 2, second)
	}
	hold.Hold() // so that the first runs for as long as we like
	require.NoError(t, first.SetStatus(runtime.Complete))
	e := h.paint(other, h.buffer(room, nil), 3)
	require.Equal(t, b.ID(), h.evictions()[0].Buffer)
	hold.Release()
	h.ended(e)
	require.NoError(t, second.SetStatus(runtime.Complete))
}

// answers is a resource that says why there is no room in place of Exhausted, for left
// requests.
type answers struct {
	mem.Resource
	why  mem.Outcome
	left int
	said int // how often
}

func (a *answers) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if a.left > 0 {
		if a.left--; !a.Fits(reqs, nil, reuse) {
			a.said++
			return a.why, nil
		}
	}
	return a.Resource.AllocAll(reqs, out, reuse)
}

// Where frees have ended between a refusal and the look at them, waiting would help nobody:
// blocks leave at once. Only where the resource says that room comes back by itself does the
// enqueue ask again first.
func TestOnlyRoomThatComesBackByItselfIsWaitedForBeforeBlocksLeave(t *testing.T) {
	for why, said := range map[mem.Outcome]int{mem.NeedsWait: 1, mem.Late: 3} {
		t.Run(why.String(), func(t *testing.T) {
			d := must(cpu.New(cpu.Options{Memory: 4 * room}))
			a := &answers{why: why, left: 3}
			h := build(t, runtime.Options{Devices: []devices.Device{d}, Policy: eviction.LRU{}, Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
				if m == mem.Host {
					return base
				}
				a.Resource, a.left = base, 0
				return a
			}}, outOfOrder)
			var all []*runtime.Buffer
			for i := range 5 {
				if i == 4 {
					a.left = 3
				}
				all = append(all, h.buffer(room, nil))
				h.ended(h.paint(h.q[0], all[i], byte(i)))
			}
			require.Equal(t, said, a.said)
			for i, b := range all {
				h.holds(h.q[0], b, byte(i))
				require.NoError(t, b.Release())
			}
		})
	}
}
