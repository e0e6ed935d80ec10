package pool_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/internal/resource"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

var bg = context.Background()

type bench interface {
	require.TestingT
	Helper()
	Cleanup(func())
}

// nullContext is a context whose one device takes no time.
func nullContext(t bench) (*runtime.Context, devices.Device) {
	t.Helper()
	d := null.New(devices.Config{Name: "null"})
	c, err := runtime.NewContext(runtime.Options{Name: "pool", Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	return c, d
}

// cpuContext is a context with a device that really holds bytes, and n queues.
func cpuContext(t bench, n int) (*runtime.Context, []*runtime.Queue) {
	t.Helper()
	d, err := cpu.New(cpu.Options{Name: "cpu"})
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Name: "pool", Devices: []devices.Device{d}, OwnDevices: true})
	require.NoError(t, err)
	var qs []*runtime.Queue
	for i := range n {
		q, err := c.NewQueue(d, runtime.QueueOptions{Name: fmt.Sprint("q", i), OutOfOrder: i%2 == 1})
		require.NoError(t, err)
		qs = append(qs, q)
	}
	return c, qs
}

func TestBinsHoldTheirRequestsAndWasteWhatTheyMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.Uint64Range(1, 1<<62), rapid.Uint64Range(1, 1<<20)).Draw(t, "size")
		for _, b := range []pool.Bins{pool.PowerOfTwo, pool.LeadingBits} {
			bin := pool.BinSize(b, size)
			require.GreaterOrEqual(t, bin, size)
			require.Equal(t, bin, pool.BinSize(b, bin), "a bin's own size lies in it")
			if size > 256 {
				limit := size * 2
				if b == pool.LeadingBits {
					limit = size + size/8 + 1
				}
				require.Less(t, bin, limit+1, "%v wastes too much", b)
			}
			other := rapid.Uint64Range(size, 1<<62).Draw(t, "other")
			require.GreaterOrEqual(t, pool.BinSize(b, other), bin, "bins rise with sizes")
			i, _ := pool.BinOf(b, size)
			j, _ := pool.BinOf(b, other)
			require.Equal(t, i == j, pool.BinSize(b, other) == bin, "one index, one size")
			require.GreaterOrEqual(t, j, i)
		}
	})
}

func TestTheExampleOfTheClassicPool(t *testing.T) {
	c, _ := nullContext(t)
	p, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(t, err)
	h1, err := p.Get(nil, 1024, 0)
	require.NoError(t, err)
	h2, err := p.Get(nil, 1025, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1024, h1.BucketSize())
	require.EqualValues(t, 2048, h2.BucketSize())
	require.EqualValues(t, 1025, h2.Size())
	require.EqualValues(t, 2048, h2.Buffer().Size())
	first := h1.Buffer()
	require.NoError(t, p.Put(h1))
	require.Nil(t, h1.Buffer(), "a loan that ended gives no buffer")
	again, err := p.Get(nil, 700, 0)
	require.NoError(t, err)
	require.Same(t, first, again.Buffer())
	require.EqualValues(t, 700, again.Size())
	require.ErrorIs(t, p.Put(h1), pool.ErrReturned, "a stale handle is reported")
	require.Same(t, first, again.Buffer(), "and takes nothing from the new loan")
	other, err := p.Get(nil, 700, runtime.ReadOnly)
	require.NoError(t, err)
	require.NotSame(t, first, other.Buffer(), "flags are part of the key")
	s := p.Stats()
	require.EqualValues(t, 1, s.Hits)
	require.EqualValues(t, 3, s.Misses)
	require.InDelta(t, 0.25, s.HitRate(), 1e-9)
	require.EqualValues(t, 1024+2048+1024, s.Held)
	for _, h := range []pool.Handle{again, h2, other, {}} {
		require.NoError(t, p.Put(h))
	}
	freed, err := p.Clear()
	require.NoError(t, err)
	require.EqualValues(t, 4096, freed)
	require.NoError(t, p.Check())
	require.NoError(t, c.Close(bg), "nothing leaked")
}

func TestBadRequestsNameTheirRule(t *testing.T) {
	c, _ := nullContext(t)
	defer func() { require.NoError(t, c.Close(bg)) }()
	p, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(t, err)
	for _, size := range []uint64{0, 1<<62 + 1} {
		_, err = p.Get(nil, size, 0)
		require.ErrorIs(t, err, mem.ErrInvalidSize)
		require.ErrorContains(t, err, fmt.Sprint(size))
	}
	_, err = pool.NewBufferPool(c, pool.Options{Bins: 9})
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	for _, o := range []pool.BoundedOptions{{}, {Ceiling: 10, High: 20}, {Ceiling: 10, High: 5, Low: 6}} {
		_, err = pool.NewBoundedPool(c, o)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
}

func TestABufferInUseGoesBackToItsQueueAtOnceAndToOthersWhenItsPointHasPassed(t *testing.T) {
	c, qs := cpuContext(t, 2)
	p, err := pool.NewBufferPool(c, pool.Options{})
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	h, err := p.Get(qs[0], 4096, 0)
	require.NoError(t, err)
	used := h.Buffer()
	ev, err := qs[0].EnqueueFill(bg, used, []byte{7}, 0, 4096, gate)
	require.NoError(t, err)
	require.NoError(t, p.PutAfter(h, qs[0]))

	h1, err := p.Get(qs[1], 4096, 0)
	require.NoError(t, err)
	require.NotSame(t, used, h1.Buffer(), "another queue does not get it while it is in use")
	h0, err := p.Get(qs[0], 4096, 0)
	require.NoError(t, err)
	require.Same(t, used, h0.Buffer(), "its own queue has it at once")
	require.NoError(t, p.PutAfter(h0, qs[0]))

	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, ev.Wait(bg))
	h2, err := p.Get(qs[1], 4096, 0)
	require.NoError(t, err)
	require.Same(t, used, h2.Buffer(), "once the point has passed it is anybody's")
	for _, e := range []runtime.Event{gate, ev} {
		require.NoError(t, e.Release())
	}
	for _, h := range []pool.Handle{h1, h2} {
		require.NoError(t, p.Put(h))
	}
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, c.Close(bg))
}

func TestAHiddenWaitLendsABufferInUseAndItsNewUserWaits(t *testing.T) {
	c, qs := cpuContext(t, 2)
	p, err := pool.NewBufferPool(c, pool.Options{HiddenWait: true})
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	h, err := p.Get(qs[0], 64, 0)
	require.NoError(t, err)
	used := h.Buffer()
	old := make([]byte, 64)
	_, err = qs[0].EnqueueFill(bg, used, []byte{7}, 0, 64)
	require.NoError(t, err)
	_, err = qs[0].EnqueueRead(bg, used, 0, old, gate)
	require.NoError(t, err)
	require.NoError(t, p.PutAfter(h, qs[0]))
	h, err = p.Get(qs[1], 64, 0)
	require.NoError(t, err)
	require.Same(t, used, h.Buffer())
	ev, err := qs[1].EnqueueFill(bg, used, []byte{9}, 0, 64)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, ev.Wait(short), context.DeadlineExceeded, "the new user's command is held back")
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.NoError(t, ev.Wait(bg))
	require.Equal(t, bytes.Repeat([]byte{7}, 64), old, "the old user read what it wrote")
	require.NoError(t, p.Put(h))
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, c.Close(bg))
}

func TestABoundedPoolTrimsTheLeastRecentlyUsedThenWaitsThenSaysNo(t *testing.T) {
	c, qs := cpuContext(t, 1)
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: 4096, High: 4096, Low: 4096})
	require.NoError(t, err)
	get := func(size uint64) pool.Handle {
		h, err := p.Get(bg, qs[0], size, 0)
		require.NoError(t, err)
		return h
	}
	a, b := get(1024), get(512)
	old, young := a.Buffer(), b.Buffer()
	require.NoError(t, p.Put(a))
	c1 := get(256) // moves the epoch on
	require.NoError(t, p.Put(b))
	big := get(2048)
	require.EqualValues(t, 3840, p.Stats().Held)
	more := get(300)
	require.Same(t, young, more.Buffer())
	h := get(260) // 512 more than the ceiling: the 1024, used least recently, goes
	require.NotSame(t, old, h.Buffer())
	require.LessOrEqual(t, p.Stats().Held, uint64(4096))
	_, err = p.Get(bg, qs[0], 4000, 0)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.ErrorContains(t, err, "ceiling of 4096")
	var why *resource.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.EqualValues(t, []uint64{4096, 4096}, []uint64{why.Requested, why.Capacity}, "a bin's")
	require.Equal(t, resource.Budget, why.Verdict)
	_, err = p.Get(bg, qs[0], 5000, 0)
	require.ErrorIs(t, err, mem.ErrNoMemory, "never fits")

	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	_, err = qs[0].EnqueueFill(bg, big.Buffer(), []byte{1}, 0, 2048, gate)
	require.NoError(t, err)
	require.NoError(t, p.PutAfter(big, qs[0]))
	short, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	_, err = p.Get(short, nil, 1025, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded, "waits for the point, as long as ctx lets it")
	go func() { _ = gate.SetStatus(runtime.Complete) }()
	last, err := p.Get(bg, nil, 1025, 0)
	require.NoError(t, err)
	for _, h := range []pool.Handle{c1, more, h, last} {
		require.NoError(t, p.Put(h))
	}
	require.NoError(t, p.Check())
	_, err = p.Clear()
	require.NoError(t, err)
	require.Zero(t, p.Stats().Held)
	require.NoError(t, c.Close(bg))
}

func TestAtTheCeilingWhateverEndsFirstMakesRoom(t *testing.T) {
	c, qs := cpuContext(t, 2)
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: 512 + 1024, High: 1536, Low: 1536})
	require.NoError(t, err)
	gates := make([]runtime.Event, 2)
	for i, size := range []uint64{512, 1024} {
		gates[i], err = c.NewUserEvent()
		require.NoError(t, err)
		h, err := p.Get(bg, qs[i], size, 0)
		require.NoError(t, err)
		e, err := qs[i].EnqueueFill(bg, h.Buffer(), []byte{1}, 0, size, gates[i])
		require.NoError(t, err)
		require.NoError(t, e.Release())
		require.NoError(t, p.PutAfter(h, qs[i]))
	}
	got := make(chan error)
	go func() {
		h, err := p.Get(bg, nil, 1000, 0)
		if err == nil {
			err = p.Put(h)
		}
		got <- err
	}()
	require.NoError(t, gates[1].SetStatus(runtime.Complete))
	require.NoError(t, <-got, "the first queue is held back for ever")
	require.NoError(t, gates[0].SetStatus(runtime.Complete))
	require.NoError(t, qs[0].Finish(bg))
	for _, g := range gates {
		require.NoError(t, g.Release())
	}
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, p.Check())
	require.NoError(t, c.Close(bg))
}
