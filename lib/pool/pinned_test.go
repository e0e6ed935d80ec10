package pool_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/internal/resource"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/runtime"
)

func pinnedPool(t require.TestingT, c *runtime.Context, o pool.PinnedOptions) *pool.PinnedPool {
	p, err := pool.NewPinnedPool(c, o)
	require.NoError(t, err)
	return p
}

func TestAContextHasOnePinnedPoolThatEndsWithIt(t *testing.T) {
	c, qs := cpuContext(t, 2)
	p, err := pool.Pinned(qs[0])
	require.NoError(t, err)
	same, err := pool.Pinned(qs[1])
	require.NoError(t, err)
	require.Same(t, p, same)
	h, err := p.Get(bg, qs[0], 5000)
	require.NoError(t, err)
	require.Len(t, h.Bytes(), 5000)
	require.EqualValues(t, 8192, h.BucketSize())
	require.Nil(t, h.Buffer(), "memory, not a buffer")
	l := p.Locking()
	require.EqualValues(t, 256<<10, l.Locked+l.Unlocked, "the slab it lies in")
	require.NoError(t, p.Put(h))
	require.Nil(t, h.Bytes(), "given back")
	require.ErrorIs(t, p.Put(h), pool.ErrReturned)
	require.NoError(t, c.Close(bg))
	require.Zero(t, p.Held())
	_, err = pool.Pinned(qs[0])
	require.ErrorContains(t, err, "closed")
	_, err = pool.Pinned(nil)
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
}

func TestAPinnedPoolThatIsStillLentFromNamesItAtTheContextsEnd(t *testing.T) {
	c, qs := cpuContext(t, 1)
	p, err := pool.Pinned(qs[0])
	require.NoError(t, err)
	_, err = p.Get(bg, qs[0], 5000)
	require.NoError(t, err)
	err = c.Close(bg)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "8192 bytes lent")
}

func TestWhatIsNotLockedSaysWhy(t *testing.T) {
	for _, x := range []struct {
		name   string
		shares bool
		env    string
		how    pool.Pinning
		why    string // empty: it is tried
	}{
		{"a device with memory of its own", false, "", pool.PinAuto, ""},
		{"an integrated device", true, "", pool.PinAuto, "no device of the context has memory of its own"},
		{"an integrated device, always", true, "", pool.PinAlways, ""},
		{"by the environment", false, "0", pool.PinAuto, "GODWIT_PINNED_H2D is 0"},
		{"always, whatever the environment", false, "0", pool.PinAlways, ""},
		{"never", false, "", pool.PinNever, "told not to"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Setenv("GODWIT_PINNED_H2D", x.env)
			d, err := cpu.New(cpu.Options{Name: "cpu", SharesHost: x.shares})
			require.NoError(t, err)
			c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
			require.NoError(t, err)
			p := pinnedPool(t, c, pool.PinnedOptions{Pinning: x.how})
			h, err := p.Get(bg, nil, 100)
			require.NoError(t, err)
			require.Len(t, h.Bytes(), 100, "memory there is in any case")
			l := p.Locking()
			if x.why != "" {
				require.Contains(t, l.Why, x.why)
				require.Zero(t, l.Locked)
			} else if l.Why != "" { // the system's limit
				require.Contains(t, l.Why, "mlock")
			} else {
				require.Positive(t, l.Locked)
			}
			require.NoError(t, p.Put(h))
			require.NoError(t, p.Close())
			require.NoError(t, c.Close(bg))
		})
	}
}

func TestBadPinnedOptionsNameTheirRule(t *testing.T) {
	c, _ := nullContext(t)
	for _, o := range []pool.PinnedOptions{{Bins: 9}, {Pinning: 9}, {Ceiling: 10, High: 20}} {
		_, err := pool.NewPinnedPool(c, o)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	p := pinnedPool(t, c, pool.PinnedOptions{Ceiling: 4096})
	_, err := p.Get(bg, nil, 0)
	require.ErrorIs(t, err, mem.ErrInvalidSize)
	_, err = p.Get(bg, nil, 4097)
	require.ErrorIs(t, err, mem.ErrNoMemory)
	require.NoError(t, p.Close())
	require.NoError(t, c.Close(bg))
}

// Memory whose command has not run goes to nobody: the host would write into what the
// command is to read.
func TestPinnedMemoryInUseGoesToNobodyNotEvenItsOwnQueue(t *testing.T) {
	c, qs := cpuContext(t, 1)
	p := pinnedPool(t, c, pool.PinnedOptions{Ceiling: 1024})
	b, err := c.CreateBuffer(512, 0, nil)
	require.NoError(t, err)
	gate, err := c.NewUserEvent()
	require.NoError(t, err)
	h, err := p.Get(bg, qs[0], 512)
	require.NoError(t, err)
	first := &h.Bytes()[0]
	e, err := qs[0].EnqueueWrite(bg, b, 0, h.Bytes(), gate)
	require.NoError(t, err)
	require.NoError(t, e.Release())
	require.NoError(t, p.PutAfter(h, qs[0]))
	again, err := p.Get(bg, qs[0], 512)
	require.NoError(t, err)
	require.NotSame(t, first, &again.Bytes()[0])
	freed, err := p.Clear()
	require.NoError(t, err)
	require.Zero(t, freed, "the one is lent, the other in use")
	short, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	_, err = p.Get(short, qs[0], 512)
	require.ErrorIs(t, err, context.DeadlineExceeded, "at the ceiling it waits for the point")
	require.ErrorIs(t, p.Close(), mem.ErrInvalidOperation)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	third, err := p.Get(bg, qs[0], 512)
	require.NoError(t, err)
	require.Same(t, first, &third.Bytes()[0])
	for _, h := range []pool.Handle{again, third} {
		require.NoError(t, p.Put(h))
	}
	require.NoError(t, p.Check())
	require.NoError(t, gate.Release())
	require.NoError(t, b.Release())
	require.NoError(t, p.Close())
	require.NoError(t, c.Close(bg))
}

// Users write into memory as soon as they have it. Whoever got memory from under a
// command that is to read it would change what arrives.
func TestWhatIsStagedIsWhatArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, qs := cpuContext(&quiet{t}, 3)
		p := pinnedPool(t, c, pool.PinnedOptions{Bins: pool.LeadingBits})
		type upload struct {
			b    *runtime.Buffer
			want []byte
		}
		g := gates{c: c}
		var all []upload
		t.Repeat(map[string]func(*rapid.T){
			"gate": g.add,
			"open": g.open,
			"upload": func(t *rapid.T) {
				q := rapid.SampledFrom(qs).Draw(t, "queue")
				size := rapid.Uint64Range(1, 4).Draw(t, "size") * 200
				h, err := p.Get(bg, q, size)
				require.NoError(t, err)
				for i := range h.Bytes() {
					h.Bytes()[i] = byte(len(all) + i*len(all))
				}
				u := upload{want: bytes.Clone(h.Bytes())}
				u.b, err = c.CreateBuffer(size, 0, nil)
				require.NoError(t, err)
				wait := g.some(t)
				e, err := q.EnqueueWrite(bg, u.b, 0, h.Bytes(), wait...)
				require.NoError(t, err)
				require.NoError(t, e.Release())
				require.NoError(t, p.PutAfter(h, q))
				all = append(all, u)
			},
			"": func(t *rapid.T) { require.NoError(t, p.Check()) },
		})
		g.openAll(t)
		for i, u := range all {
			got := make([]byte, len(u.want))
			e, err := qs[0].EnqueueRead(bg, u.b, 0, got)
			require.NoError(t, err)
			require.NoError(t, e.Wait(bg))
			require.NoError(t, e.Release())
			require.Equal(t, u.want, got, "upload %d", i)
			require.NoError(t, u.b.Release())
		}
		for _, q := range qs {
			require.NoError(t, q.Finish(bg))
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.Close(bg), "nothing leaked")
	})
}

func TestARefusalAtAnyAllocationLeavesThePoolSound(t *testing.T) {
	for nth := uint64(1); nth <= 6; nth++ {
		c, _ := cpuContext(t, 0)
		var stack *resource.Fail
		p := pinnedPool(t, c, pool.PinnedOptions{Resource: func(_ int, base mem.Resource) mem.Resource {
			stack = resource.NewFail(base)
			stack.At(nth, mem.Exhausted, nil)
			return stack
		}})
		var out []pool.Handle
		failed := 0
		for i := range 6 {
			h, err := p.Get(bg, nil, 1000<<i)
			if err != nil {
				failed++
				require.ErrorIs(t, err, mem.ErrNoHostMemory)
				require.Zero(t, h.BucketSize())
			} else {
				out = append(out, h)
			}
			require.NoError(t, p.Check())
		}
		require.Equal(t, 1, failed, "request %d", nth)
		for _, h := range out {
			require.NoError(t, p.Put(h))
		}
		require.NoError(t, p.Close())
		require.NoError(t, stack.Check())
		require.Zero(t, stack.Stats().Live)
		require.NoError(t, c.Close(bg))
	}
}

func TestManyGoroutinesShareAPinnedPool(t *testing.T) {
	c, qs := cpuContext(t, 2)
	p := pinnedPool(t, c, pool.PinnedOptions{Ceiling: 1 << 16})
	hammerBoth(t, c, p, qs...)
	require.NoError(t, p.Close())
	require.NoError(t, c.Close(bg))
}

// hammerBoth has a goroutine for each queue use the pool for a while, a minute in a
// soak.
func hammerBoth(t *testing.T, c *runtime.Context, p *pool.PinnedPool, qs ...*runtime.Queue) {
	length := 300 * time.Millisecond
	if soak() {
		length = time.Minute
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for g, q := range qs {
		wg.Go(func() {
			if err := hammer(c, p, q, uint64(g), end); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Check())
	require.LessOrEqual(t, p.Held(), p.Ceiling())
}

// hammer uploads numbers by way of the pool, several at a time, and reads them back.
func hammer(c *runtime.Context, p *pool.PinnedPool, q *runtime.Queue, seed uint64, end time.Time) (err error) {
	const depth = 4
	rng := rand.New(rand.NewPCG(seed, 7))
	b, err := c.CreateBuffer(8*depth, 0, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Release()) }()
	for n := uint64(0); time.Now().Before(end); n += depth {
		var wrote [depth]runtime.Event
		for i := range uint64(depth) {
			h, err := p.Get(bg, q, 8+rng.Uint64N(4000))
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint64(h.Bytes(), n+i)
			if wrote[i], err = q.EnqueueWrite(bg, b, 8*i, h.Bytes()[:8]); err == nil {
				err = p.PutAfter(h, q)
			}
			if err != nil {
				return err
			}
		}
		var got [8 * depth]byte
		e, err := q.EnqueueRead(bg, b, 0, got[:], wrote[:]...)
		if err == nil {
			err = errors.Join(e.Wait(bg), e.Release())
		}
		for _, w := range wrote {
			err = errors.Join(err, w.Release())
		}
		if err != nil {
			return err
		}
		for i := range uint64(depth) {
			if at := binary.LittleEndian.Uint64(got[8*i:]); at != n+i {
				return errors.New("memory was lent from under a command")
			}
		}
	}
	return nil
}

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread")
	}
	goleak.VerifyTestMain(m)
}
