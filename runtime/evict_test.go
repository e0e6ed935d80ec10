package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/eviction"
	"godwit/internal/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

const room = 4 << 10 // of a buffer; the devices here hold four

// crowded is a context over n devices that hold four buffers of room bytes each.
func crowded(t testing.TB, o runtime.Options, n int) *house {
	for range n {
		d := must(cpu.New(cpu.Options{Memory: 4 * room}))
		o.Devices = append(o.Devices, d)
	}
	return build(t, o, runtime.QueueOptions{OutOfOrder: true})
}

func (h *house) paint(q *runtime.Queue, b *runtime.Buffer, v byte, wait ...runtime.Event) runtime.Event {
	h.t.Helper()
	return h.ok(q.EnqueueFill(soon(h.t), b, []byte{v}, 0, room, wait...))
}

func (h *house) holds(q *runtime.Queue, b *runtime.Buffer, v byte) {
	h.t.Helper()
	got := make([]byte, room)
	h.ended(h.ok(q.EnqueueRead(soon(h.t), b, 0, got)))
	require.Equal(h.t, bytes.Repeat([]byte{v}, room), got)
}

func (h *house) ended(e runtime.Event) {
	h.t.Helper()
	require.NoError(h.t, e.Wait(soon(h.t)))
	require.NoError(h.t, e.Release())
}

func (h *house) evictions() (out []trace.EvictionRecord) {
	for _, c := range h.rec.Commands() {
		out = append(out, c.Evictions...)
	}
	return out
}

// TestAnEnqueueThatEvictsDoesNotWaitForTheDevice has a device that ends nothing until it is
// told: every enqueue returns all the same, be the victims written back or dropped, their
// last users under way or not begun, and whether the enqueue writes, reads or copies.
func TestAnEnqueueThatEvictsDoesNotWaitForTheDevice(t *testing.T) {
	for _, policy := range []eviction.Policy{nil, eviction.LRU{}} {
		for name, open := range map[string]func() (devices.Device, error){
			"cpu": func() (devices.Device, error) { return cpu.New(cpu.Options{Memory: 4 * room}) },
			"tce": func() (devices.Device, error) { return tce.New(tce.Options{Memory: 4 * room}) },
		} {
			t.Run(name, func(t *testing.T) {
				d, err := open()
				require.NoError(t, err)
				hold := devicetest.NewHold(d)
				h := build(t, runtime.Options{Devices: []devices.Device{hold}, Policy: policy}, outOfOrder)
				q, ctx := h.q[0], soon(t)
				var all []*runtime.Buffer
				for i := range 12 {
					all = append(all, h.buffer(room, bytes.Repeat([]byte{byte(i)}, room)))
				}
				hold.Hold()
				var last []runtime.Event
				for i := range 12 { // what is dropped: the host has it
					last = append(last, h.ok(q.EnqueueMigrate(ctx, all[i:i+1], 0)))
				}
				for i := range 12 { // what is written back, by copies that have not begun either
					last = append(last, h.paint(q, all[i], byte(100+i)))
				}
				for i := range 6 {
					last = append(last, h.ok(q.EnqueueCopy(ctx, all[i], all[11-i], 0, 0, room)))
				}
				got := make([]byte, room)
				last = append(last, h.ok(q.EnqueueRead(ctx, all[0], 0, got)))
				st := h.c.Stats()
				require.Greater(t, st.Evictions, uint64(24))
				require.Greater(t, st.BytesWrittenBack, uint64(8*room))
				require.Greater(t, st.BytesDropped, uint64(0))
				require.Zero(t, hold.Ended(), "nothing has run")
				require.Greater(t, hold.Release(), 30)
				for _, e := range last {
					h.ended(e)
				}
				require.Equal(t, bytes.Repeat([]byte{100}, room), got)
				for i, b := range all {
					h.holds(q, b, byte(100+min(i, 11-i)))
					require.NoError(t, b.Release())
				}
			})
		}
	}
}

func TestWhatHangsOnAUserEventIsNotEvicted(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	q := h.q[0]
	gate := h.gate()
	var all []*runtime.Buffer
	for i := range 4 {
		b := h.buffer(room, nil)
		all = append(all, b)
		h.paint(q, b, byte(i), gate)
	}
	late := h.buffer(room, nil)
	_, err := q.EnqueueFill(soon(t), late, []byte{9}, 0, room)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.Equal(t, mem.MemObjectAllocationFailure, mem.StatusOf(err))
	require.EqualValues(t, room, why.Requested)
	require.EqualValues(t, 4*room, why.Capacity)
	require.Len(t, why.Holders, 4)
	for _, x := range why.Holders {
		require.Equal(t, eviction.Hangs, x.Why)
		require.EqualValues(t, room, x.Bytes)
	}
	require.ErrorContains(t, err, "waits for a user event")
	require.NoError(t, h.c.Check())
	require.NoError(t, gate.SetStatus(runtime.Complete))
	h.paint(q, late, 9)
	h.holds(q, late, 9)
	for i, b := range append(all, late) {
		h.holds(q, b, []byte{0, 1, 2, 3, 9}[i])
		require.NoError(t, b.Release())
	}
}

// A queue that is being closed ends what it has, and that may hang as before.
func TestWhatHangsOnAClosingQueueIsNotEvicted(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	closing := h.queue(h.devs[0], runtime.QueueOptions{})
	gate := h.gate()
	var all []*runtime.Buffer
	for i := range 4 {
		all = append(all, h.buffer(room, nil))
		h.paint(closing, all[i], byte(i), gate)
	}
	var closer sync.WaitGroup
	closer.Go(func() { assert.NoError(t, closing.Close()) })
	require.Eventually(t, func() bool { return errors.Is(closing.Flush(), mem.ErrInvalidQueue) }, time.Minute, time.Millisecond)

	late := h.buffer(room, nil)
	_, err := h.q[0].EnqueueFill(soon(t), late, []byte{9}, 0, room)
	assert.ErrorContains(t, err, "waits for a user event")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	closer.Wait()
	h.paint(h.q[0], late, 9)
	for i, b := range append(all, late) {
		h.holds(h.q[0], b, []byte{0, 1, 2, 3, 9}[i])
		require.NoError(t, b.Release())
	}
}

func TestPinnedMappedAndUsedBlocksStay(t *testing.T) {
	for name, flags := range map[string]runtime.MapFlags{"read": runtime.MapRead, "write": runtime.MapWrite} {
		t.Run(name, func(t *testing.T) { pinnedMappedAndUsedBlocksStay(t, flags) })
	}
}

func pinnedMappedAndUsedBlocksStay(t *testing.T, flags runtime.MapFlags) {
	h := crowded(t, runtime.Options{}, 1)
	q, d, ctx := h.q[0], h.devs[0], soon(t)
	var b [5]*runtime.Buffer
	for i := range b {
		b[i] = h.buffer(room, nil)
	}
	for i := range 4 {
		h.paint(q, b[i], byte(i))
	}
	require.NoError(t, b[0].Pin(d))
	m := must(q.Map(ctx, b[1], 0, room, flags))
	require.NoError(t, b[2].Pin(d))
	h.paint(q, b[4], 4) // b[3] goes
	require.Equal(t, b[3].ID(), h.evictions()[0].Buffer)
	_, err := q.EnqueueCopy(ctx, b[4], b[3], 0, 0, room)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	whys := map[eviction.Why]int{}
	for _, x := range why.Holders {
		whys[x.Why]++
	}
	require.Equal(t, map[eviction.Why]int{eviction.Pinned: 2, eviction.Mapped: 1, eviction.InUse: 1}, whys)
	require.ErrorIs(t, b[0].Drop(d), mem.ErrInvalidOperation)
	require.NoError(t, b[0].Unpin(d))
	require.ErrorIs(t, b[0].Unpin(d), mem.ErrInvalidOperation)
	h.ok(q.EnqueueCopy(ctx, b[4], b[3], 0, 0, room))
	h.ok(q.EnqueueUnmap(ctx, m))
	for i, want := range []byte{0, 1, 2, 4, 4} {
		h.holds(q, b[i], want)
		require.NoError(t, b[i].Release())
	}
}

func TestDropGivesABlockUp(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	q, d := h.q[0], h.devs[0]
	b := h.buffer(room, nil)
	require.NoError(t, b.Drop(d), "there is none")
	h.paint(q, b, 5)
	require.NoError(t, b.Drop(d))
	require.NoError(t, h.c.Check())
	h.holds(q, b, 5)
	require.EqualValues(t, room, h.c.Stats().BytesWrittenBack)
	h.ended(h.ok(q.EnqueueMigrate(soon(t), []*runtime.Buffer{b}, runtime.MigrateToHost)))
	require.NoError(t, b.Drop(d))
	require.EqualValues(t, room, h.c.Stats().BytesWrittenBack)
	require.NoError(t, q.Finish(soon(t)))
	require.Zero(t, h.c.Resource(1).Stats().Live)
	require.NoError(t, b.Release())
}

// What does not fit with all else gone names the working set.
func TestAWorkingSetThatCannotFitHasACertificate(t *testing.T) {
	h := crowded(t, runtime.Options{}, 1)
	q := h.q[0]
	var all []*runtime.Buffer
	for i := range 5 {
		all = append(all, h.buffer(room, nil))
		h.paint(q, all[i], byte(i))
	}
	before := h.c.Stats()
	_, err := q.EnqueueMigrate(soon(t), all, 0)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.Equal(t, before, h.c.Stats(), "a refusal before the first write-back changes nothing")
	for _, x := range why.Holders {
		require.Equal(t, eviction.InUse, x.Why)
	}
	for i, b := range all {
		h.holds(q, b, byte(i))
		require.NoError(t, b.Release())
	}
}

func TestACallbackOnShortageMayReleaseAndEnqueue(t *testing.T) {
	var h *house
	var old []*runtime.Buffer
	calls := 0
	h = crowded(t, runtime.Options{NoEviction: true, OnShortage: func(ctx context.Context, why *runtime.OutOfMemory) bool {
		calls++
		require.EqualValues(t, room, why.Requested)
		inner := h.buffer(room, nil)
		_, err := h.q[0].EnqueueFill(ctx, inner, []byte{1}, 0, room)
		require.ErrorIs(t, err, mem.ErrNoMemory, "an error, not a hang")
		require.NoError(t, inner.Release())
		if len(old) == 0 {
			return false
		}
		require.NoError(t, old[0].Release())
		old = old[1:]
		return true
	}}, 1)
	for i := range 6 {
		b := h.buffer(room, nil)
		h.ended(h.paint(h.q[0], b, byte(i)))
		old = append(old, b)
	}
	require.Equal(t, 2, calls)
	for _, b := range old {
		require.NoError(t, b.Release())
	}
}

// Where the command alone needs more than there is, nobody is asked for room in vain.
func TestNobodyIsAskedForRoomThatNoReleaseMakes(t *testing.T) {
	h := crowded(t, runtime.Options{WholeBelow: 1, OnShortage: func(context.Context, *runtime.OutOfMemory) bool {
		require.Fail(t, "asked")
		return false
	}}, 1)
	q := h.q[0]
	var all []*runtime.Buffer
	for i := range 5 {
		all = append(all, h.buffer(room, nil))
		h.paint(q, all[i], byte(i))
	}
	_, err := q.EnqueueMigrate(soon(t), all, 0)
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.True(t, why.Hopeless)
	require.ErrorContains(t, err, "no release would help")
	large := h.buffer(8*room, nil)
	_, err = q.EnqueueFill(soon(t), large, []byte{1}, 0, 8*room)
	require.ErrorAs(t, err, &why)
	require.True(t, why.Hopeless)
	require.ErrorContains(t, err, "at once")
}

func TestACapIsTheDevicesMemory(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1), Caps: []uint64{0, 2 * room}}, outOfOrder)
	q := h.q[0]
	_, err := h.c.CreateBuffer(2*room+1, 0, nil)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	require.Equal(t, mem.InvalidBufferSize, mem.StatusOf(err))
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.EqualValues(t, []uint64{2*room + 1, 2 * room}, []uint64{why.Requested, why.Capacity})
	var all []*runtime.Buffer
	for i := range 7 {
		all = append(all, h.buffer(room, nil))
		h.paint(q, all[i], byte(i))
	}
	for i, b := range all {
		h.holds(q, b, byte(i))
		require.NoError(t, b.Release())
	}
	limit, ok := resource.Find[*resource.Limit](h.c.Resource(1))
	require.True(t, ok)
	require.EqualValues(t, 2*room, limit.Max())
}

// hopeless is a resource that says that everything fits, and gives nothing.
type hopeless struct{ mem.Resource }

func (hopeless) AllocAll([]mem.Request, []mem.Block, *mem.Reuse) (mem.Outcome, error) {
	return mem.Exhausted, nil
}
func (hopeless) Fits([]mem.Request, []mem.Block, *mem.Reuse) bool { return true }

func TestAResourceThatPromisesTooMuchDoesNotHoldAnEnqueueUp(t *testing.T) {
	off := false
	h := build(t, runtime.Options{Devices: memories(1), Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
		return &switched{base, hopeless{base}, &off}
	}}, outOfOrder)
	q := h.q[0]
	var all []*runtime.Buffer
	for i := range 20 {
		all = append(all, h.buffer(room, nil))
		h.paint(q, all[i], byte(i))
	}
	off = true
	more := h.buffer(room, nil)
	_, err := q.EnqueueFill(soon(t), more, []byte{1}, 0, room)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	off = false
	require.NoError(t, h.c.Check())
	for i, b := range all {
		h.holds(q, b, byte(i))
		require.NoError(t, b.Release())
	}
	require.NoError(t, more.Release())
}

// switched is one resource or another.
type switched struct {
	mem.Resource
	other mem.Resource
	off   *bool
}

func (s *switched) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	if *s.off && reuse != nil { // write-backs find room
		return s.other.AllocAll(reqs, out, reuse)
	}
	return s.Resource.AllocAll(reqs, out, reuse)
}

func TestCachesGoBeforeContent(t *testing.T) {
	d := must(cpu.New(cpu.Options{Memory: 4 * room}))
	h := build(t, runtime.Options{Devices: []devices.Device{d}, Resource: func(m mem.MemoryID, base mem.Resource) mem.Resource {
		if m == mem.Host {
			return base
		}
		p, err := resource.NewPool(base, resource.PoolOptions{Slab: room})
		require.NoError(t, err)
		return p
	}}, outOfOrder)
	q := h.q[0]
	a, small, big := h.buffer(room, nil), h.buffer(room, nil), h.buffer(2*room+room/2, nil)
	h.paint(q, a, 1)
	h.ended(h.paint(q, small, 2))
	require.NoError(t, small.Release())
	h.ended(h.ok(q.EnqueueFill(soon(t), big, []byte{3}, 0, 2*room+room/2)))
	require.Zero(t, h.c.Stats().Evictions, "the pool's empty slab made the room")
	h.holds(q, a, 1)
	require.NoError(t, a.Release())
	require.NoError(t, big.Release())
}

// A buffer's blocks leave one memory at a time; so where one command needs room on several,
// and the same buffer is in the way on all of them, they are made room on one after the other.
func TestOneCommandToSeveralMemoriesThatAreShortIsAccepted(t *testing.T) {
	for _, n := range []int{2, 10} {
		for name, dirty := range map[string]bool{"the host has it": false, "it is written back": true} {
			t.Run(fmt.Sprintf("%d memories, %s", n, name), func(t *testing.T) {
				h := crowded(t, runtime.Options{}, n)
				var all []mem.MemoryID
				for i := range n {
					all = append(all, mem.MemoryID(i+1))
				}
				a, b := h.buffer(3*room, bytes.Repeat([]byte{1}, 3*room)), h.buffer(2*room, bytes.Repeat([]byte{2}, 2*room))
				q := h.q[0]
				if dirty {
					h.ended(h.ok(q.EnqueueFill(soon(t), a, []byte{1}, 0, 3*room)))
				}
				h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{a}, all)))
				h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{b}, all)))
				require.Len(t, h.evictions(), n)
				require.NoError(t, h.c.Check())
				for _, q := range h.q {
					h.holds(q, a, 1)
					h.holds(q, b, 2)
				}
			})
		}
	}
}

// Where one of them cannot be made room on, nothing leaves the others for a command that is
// refused.
func TestNothingLeavesOneMemoryForACommandThatAnotherHasNoRoomFor(t *testing.T) {
	h := crowded(t, runtime.Options{}, 2)
	a, c := h.buffer(3*room, make([]byte, 3*room)), h.buffer(2*room, make([]byte, 2*room))
	q := h.q[0]
	h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{a}, []mem.MemoryID{1})))
	h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{c}, []mem.MemoryID{2})))
	more := h.buffer(room, make([]byte, room))
	h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{more}, []mem.MemoryID{2})))
	require.NoError(t, c.Pin(h.devs[1]))
	big := h.buffer(3*room, make([]byte, 3*room))
	_, err := q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{big}, []mem.MemoryID{1, 2})
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.Empty(t, h.evictions())
	require.NoError(t, c.Unpin(h.devs[1]))
	h.ended(h.ok(q.EnqueueMigrateTo(soon(t), []*runtime.Buffer{big}, []mem.MemoryID{1, 2})))
}

// BenchmarkEvict is an enqueue that evicts a block and writes it back, or drops it, on tce
// devices that hold so many blocks.
func BenchmarkEvict(b *testing.B) {
	for _, blocks := range []int{10, 1000, 100_000} {
		for _, policy := range []string{"lru", "cost"} {
			for _, dirty := range []bool{true, false} {
				does := map[bool]string{true: "written-back", false: "dropped"}[dirty]
				b.Run(fmt.Sprintf("%d/%s/%s", blocks, policy, does), func(b *testing.B) { benchEvict(b, blocks, policy, dirty) })
			}
		}
	}
}

func benchEvict(b *testing.B, blocks int, policy string, dirty bool) {
	const size = 128 // tce aligns to that
	p := must(eviction.ByName(policy))
	d := must(tce.New(tce.Options{Memory: uint64(size * blocks)}))
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, Policy: p}))
	q := must(c.NewQueue(d, runtime.QueueOptions{}))
	var all []*runtime.Buffer
	for range 2 * blocks {
		x := must(c.CreateBuffer(size, 0, make([]byte, size)))
		all = append(all, x)
	}
	ctx := context.Background()
	n, pattern, one := 0, []byte{1}, make([]*runtime.Buffer, 1)
	use := func() {
		x := all[n%len(all)]
		n++
		var e runtime.Event
		var err error
		if dirty {
			e, err = q.EnqueueFill(ctx, x, pattern, 0, size)
		} else {
			one[0] = x
			e, err = q.EnqueueMigrate(ctx, one, 0)
		}
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			b.Fatal(err)
		}
		if n%64 == 0 {
			_ = q.Finish(ctx)
		}
	}
	for n < blocks+1000 {
		use()
	}
	before := c.Stats().Evictions
	first := n
	b.ReportAllocs()
	for b.Loop() {
		if (n+1)%64 == 0 {
			b.StopTimer()
			use()
			b.StartTimer()
			continue
		}
		use()
	}
	b.ReportMetric(float64(c.Stats().Evictions-before)/float64(n-first), "evictions/op")
	_ = c.Close(ctx)
}
