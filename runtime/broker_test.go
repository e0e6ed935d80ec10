package runtime_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/null"
	"godwit/devices/work"
	"godwit/eviction"
	"godwit/mem"
	"godwit/runtime"
)

// asker is one of the contexts that share a device.
type asker struct {
	*twoNull
	floor, priority int
	resident        map[int]int // the model: buffers on the device, and the command that used each last
}

// askers are contexts over one null device that holds so many buffers.
func askers(t require.TestingT, d devices.Device, fit int, shares []runtime.Share) (list []*asker) {
	for i, s := range shares {
		c := must(runtime.NewContext(runtime.Options{Name: fmt.Sprint("c", i), Devices: []devices.Device{d}, Policy: eviction.LRU{}, Share: s}))
		a := &asker{twoNull: &twoNull{c: c, devs: []devices.Device{d}, q: []*runtime.Queue{must(c.NewQueue(d, runtime.QueueOptions{}))}},
			floor: blocksOf(s.Floors, 0), priority: int(s.Priority), resident: make(map[int]int)}
		a.k = must(must(c.Build(context.Background(), three)).Kernel("three"))
		for b := range 2 * fit {
			a.bufs = append(a.bufs, must(c.CreateNamedBuffer(fmt.Sprint("b", b), askedSize, 0, make([]byte, askedSize))))
		}
		list = append(list, a)
	}
	require.NotEmpty(t, list)
	return list
}

// oldest are the buffers that may leave, who was used longest ago first.
func (a *asker) oldest(but []int) []int {
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(a.resident)), func(b int) bool { return slices.Contains(but, b) })
	slices.SortStableFunc(list, func(x, y int) int { return cmp.Compare(a.resident[x], a.resident[y]) })
	return list
}

// use is a command of a context's on the model. It reports whether there is room, and how many blocks others gave.
func use(all []*asker, a *asker, fit, clock int, bufs []int) (ok bool, given int) {
	if len(bufs) > fit {
		return false, 0 // hopeless: nobody is asked
	}
	wants := 0
	for _, b := range bufs {
		if _, is := a.resident[b]; !is {
			wants++
		}
	}
	mine := a.oldest(bufs)
	free := func() int {
		n := fit
		for _, o := range all {
			n -= len(o.resident)
		}
		return n
	}
	for round := 0; wants > free()+len(mine); round++ {
		got := give(all, a, (wants-free()-len(mine))<<round)
		if given += got; got == 0 {
			return false, given
		}
	}
	for _, b := range mine[:max(0, wants-free())] {
		delete(a.resident, b)
	}
	for _, b := range bufs {
		a.resident[b] = clock
	}
	return true, given
}

// give has others than a give so many blocks, and returns how many they did.
func give(all []*asker, a *asker, blocks int) (given int) {
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(x, y *asker) int { return cmp.Compare(x.priority, y.priority) })
	for _, o := range order {
		for _, b := range o.oldest(nil) {
			if o != a && given < blocks && len(o.resident) > o.floor {
				delete(o.resident, b)
				given++
			}
		}
	}
	return given
}

// TestContextsGiveEachOtherRoomAsTheModelSays compares who is on the device after each command of random histories.
func TestContextsGiveEachOtherRoomAsTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fit := rapid.IntRange(2, 8).Draw(t, "fit")
		d := null.New(devices.Config{Name: "a", Memory: uint64(fit) * askedSize})
		var broker runtime.Broker
		var shares []runtime.Share
		free := fit
		for range rapid.IntRange(2, 4).Draw(t, "contexts") {
			floor := rapid.IntRange(0, free/2).Draw(t, "floor")
			free -= floor
			shares = append(shares, runtime.Share{Broker: &broker, Floors: []uint64{0, uint64(floor) * askedSize}, Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority"))})
		}
		all := askers(t, d, fit, shares)
		for clock := range rapid.IntRange(1, 40).Draw(t, "commands") {
			a := rapid.SampledFrom(all).Draw(t, "who")
			bufs := rapid.SliceOfN(rapid.IntRange(0, len(a.bufs)-1), 3, 3).Draw(t, "buffers")
			before := a.c.Figures().Room.Given
			err := a.run(0, a.launch(bufs...))
			slices.Sort(bufs)
			ok, given := use(all, a, fit, clock, slices.Compact(bufs))
			require.Equal(t, ok, err == nil, "%v", err)
			require.EqualValues(t, given*askedSize, a.c.Figures().Room.Given-before)
			if !ok {
				require.ErrorIs(t, err, mem.ErrNoMemory)
			}
			for _, o := range all {
				require.NoError(t, o.c.Check())
				for i, b := range o.bufs {
					_, is := o.resident[i]
					require.Equal(t, is, must(b.Resident(d)) > 0, "buffer %d of %s", i, o.c)
				}
			}
		}
		for _, a := range all {
			a.close(t)
		}
		require.NoError(t, d.Close())
	})
}

// TestContextsThatAskAtOnceAllGetOn: each fills the device by itself, so each command needs what others have. What they hold is
// compared: nothing is lost on its way, and nobody is refused, or waits for ever.
func TestContextsThatAskAtOnceAllGetOn(t *testing.T) {
	const contexts, buffers, size = 4, 6, 64 << 10
	d := must(cpu.New(cpu.Options{Name: "a", Memory: buffers * size}))
	var broker runtime.Broker
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for n := range contexts {
		c := must(runtime.NewContext(runtime.Options{Name: fmt.Sprint("c", n), Devices: []devices.Device{d}, Share: runtime.Share{Broker: &broker}}))
		all.Go(func() {
			q := must(c.NewQueue(d, runtime.QueueOptions{OutOfOrder: n%2 > 0}))
			var bufs []*runtime.Buffer
			for range buffers {
				bufs = append(bufs, must(c.CreateBuffer(size, 0, make([]byte, size))))
			}
			for i := range 100 { // three buffers at a time, on a device for six
				for k := range 2 {
					e, err := q.EnqueueFill(ctx, bufs[(i+k)%buffers], []byte{byte(i + k)}, 0, size)
					if !assert.NoError(t, err) || !assert.NoError(t, e.Wait(ctx)) || !assert.NoError(t, e.Release()) {
						return
					}
				}
				from, to := bufs[(i+1)%buffers], bufs[(i+2)%buffers]
				e, err := q.EnqueueCopy(ctx, from, to, 0, 0, size)
				if !assert.NoError(t, err) || !assert.NoError(t, e.Wait(ctx)) || !assert.NoError(t, e.Release()) {
					return
				}
				got := make([]byte, size)
				e, err = q.BlockingRead(ctx, to, 0, got)
				assert.NoError(t, err)
				assert.NoError(t, e.Release())
				assert.Equal(t, byte(i+1), got[size-1])
			}
			assert.NoError(t, c.Check())
			for _, b := range bufs {
				assert.NoError(t, b.Release())
			}
			assert.NoError(t, c.Close(ctx))
		})
	}
	all.Wait()
	require.NoError(t, d.Close())
}

// pair is two contexts that share a device for four buffers, of which the second holds all.
func pair(t *testing.T, o runtime.Options, first runtime.Share) (a, b *asker, d devices.Device) {
	d = null.New(devices.Config{Name: "a", Memory: 4 * askedSize})
	b = askers(t, d, 2, []runtime.Share{first})[0]
	o.Devices, o.Name = []devices.Device{d}, "second"
	c := must(runtime.NewContext(o))
	h := &twoNull{c: c, devs: o.Devices, q: []*runtime.Queue{must(c.NewQueue(d, runtime.QueueOptions{}))}, k: must(must(c.Build(context.Background(), three)).Kernel("three"))}
	for range 4 {
		h.bufs = append(h.bufs, must(c.CreateBuffer(askedSize, 0, make([]byte, askedSize))))
	}
	a = &asker{twoNull: h}
	require.NoError(t, a.run(0, a.launch(0, 1, 2)))
	require.NoError(t, a.run(0, a.launch(3, 3, 3)))
	return a, b, d
}

// TestWhatKeepsOthersFromGiving: then the enqueue fails with its certificate, and nothing has left.
func TestWhatKeepsOthersFromGiving(t *testing.T) {
	var broker runtime.Broker
	share := runtime.Share{Broker: &broker}
	for name, o := range map[string]runtime.Options{
		"no broker":   {},
		"no eviction": {Share: share, NoEviction: true},
		"floor":       {Share: runtime.Share{Broker: &broker, Floors: []uint64{0, 4 * askedSize}}},
		"another's":   {Share: runtime.Share{Broker: new(runtime.Broker)}},
		"pins":        {Share: share},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, d := pair(t, o, share)
			for i := range a.bufs {
				if name == "pins" {
					require.NoError(t, a.bufs[i].Pin(d))
				}
			}
			err := b.run(0, b.launch(0, 0, 0))
			var why *runtime.OutOfMemory
			require.ErrorAs(t, err, &why)
			require.Zero(t, a.c.Stats().Evictions)
			require.Zero(t, b.c.Figures().Room.Given)
			for i := range a.bufs {
				if name == "pins" {
					require.NoError(t, a.bufs[i].Unpin(d))
				}
			}
			a.close(t)
			require.NoError(t, b.run(0, b.launch(0, 0, 0)), "it has left")
			b.close(t)
			require.NoError(t, d.Close())
		})
	}
}

// TestWhoWaitsForWhatOthersGiveBackIsCalledOffWithItsRequest: the other's block comes back when a kernel has ended.
func TestWhoWaitsForWhatOthersGiveBackIsCalledOffWithItsRequest(t *testing.T) {
	d, ctx := must(cpu.New(cpu.Options{Memory: 4 * room})), soon(t)
	end, began := make(chan struct{}), make(chan struct{})
	holds := &devices.Program{Name: "holds", Go: []devices.GoKernel{{Name: "holds", Args: []devices.ArgInfo{{Name: "a", Kind: devices.ArgBuffer, Access: mem.ReadWrite}},
		Func: func(*work.Group) { close(began); <-end }}}}
	o := runtime.Options{Devices: []devices.Device{d}, Share: runtime.Share{Broker: new(runtime.Broker)}}
	other, c := must(runtime.NewContext(o)), must(runtime.NewContext(o))
	big, small := must(other.CreateBuffer(3*room, 0, nil)), must(c.CreateBuffer(2*room, 0, nil))
	theirs, q := must(other.NewQueue(d, runtime.QueueOptions{})), must(c.NewQueue(d, runtime.QueueOptions{}))
	k := must(must(other.Build(ctx, holds)).Kernel("holds"))
	_, err := theirs.EnqueueLaunch(ctx, runtime.Launch{Kernel: k, Global: []uint64{1}, Args: []runtime.Arg{runtime.InOut(big)}})
	require.NoError(t, err)
	require.NoError(t, theirs.Flush())
	<-began
	require.NoError(t, big.Release())
	r, got := must(c.NewRequest(ctx)), make(chan error, 1)
	go func() {
		_, err := q.With(runtime.CommandOptions{Request: r}).EnqueueFill(ctx, small, []byte{2}, 0, 2*room)
		got <- err
	}()
	require.Eventually(t, func() bool { return c.Figures().Room.Asked > 0 }, 10*time.Second, time.Millisecond)
	time.Sleep(5 * time.Millisecond) // it waits
	require.NoError(t, r.Abort(errGone))
	select {
	case err = <-got:
	case <-time.After(5 * time.Second):
	}
	close(end)
	assert.ErrorIs(t, err, errGone)
	require.NoError(t, small.Release())
	require.NoError(t, other.Close(ctx))
	require.NoError(t, c.Close(ctx))
	require.NoError(t, d.Close())
}

// TestATenantAtItsCapAsksNobody: what others give would not help.
func TestATenantAtItsCapAsksNobody(t *testing.T) {
	var broker runtime.Broker
	a, b, d := pair(t, runtime.Options{Share: runtime.Share{Broker: &broker}}, runtime.Share{Broker: &broker})
	tenant := must(b.c.NewTenant(runtime.TenantOptions{Name: "t", Caps: []uint64{0, askedSize}}))
	b.bufs = append(b.bufs, must(tenant.CreateBuffer("x", askedSize, 0, nil)), must(tenant.CreateBuffer("y", askedSize, 0, nil)))
	n := len(b.bufs)
	require.ErrorContains(t, b.run(0, b.launch(n-1, n-2, 0)), "its cap is")
	require.Zero(t, b.c.Figures().Room.Asked)
	require.NoError(t, b.run(0, b.launch(n-1, n-1, 0)), "others gave two")
	require.EqualValues(t, 2, a.c.Stats().Evictions)
	require.NoError(t, b.run(0, b.launch(n-2, n-2, 0)), "its own other leaves")
	require.EqualValues(t, 2, a.c.Stats().Evictions)
	a.close(t)
	b.close(t)
	require.NoError(t, d.Close())
}

// TestAGiversPanicIsItsOwn: who asked has nothing to do with it.
func TestAGiversPanicIsItsOwn(t *testing.T) {
	var broker runtime.Broker
	policy := &panics{}
	a, b, d := pair(t, runtime.Options{Share: runtime.Share{Broker: &broker}, Policy: policy}, runtime.Share{Broker: &broker})
	policy.now = true
	require.ErrorIs(t, b.run(0, b.launch(0, 0, 0)), mem.ErrNoMemory)
	policy.now = false
	require.PanicsWithError(t, "panic of a trace.CommandSink or an eviction.Policy: of the policy", func() {
		defer func() {
			p, _ := recover().(*runtime.HookPanic)
			require.NotNil(t, p)
			p.Stack = nil
			panic(fmt.Errorf("panic of a trace.CommandSink or an eviction.Policy: %v", p.Value))
		}()
		_ = a.run(0, a.launch(0, 0, 0))
	})
	require.NoError(t, b.run(0, b.launch(0, 0, 0)))
	a.close(t)
	b.close(t)
	require.NoError(t, d.Close())
}

// panics is a policy that does so when it is told to.
type panics struct {
	eviction.LRU
	now bool
}

func (p *panics) Score(now uint64, c *eviction.Candidate) float64 {
	if p.now {
		panic("of the policy")
	}
	return p.LRU.Score(now, c)
}

func TestFloorsOfContextsFitTheDevice(t *testing.T) {
	var broker runtime.Broker
	a, b, d := pair(t, runtime.Options{Share: runtime.Share{Broker: &broker, Floors: []uint64{0, 3 * askedSize}}}, runtime.Share{Broker: &broker})
	for want, floors := range map[string][]uint64{
		"floors on a would be 20480 bytes in all: it has 16384":                    {0, 2 * askedSize},
		"floors of 3 memories, there are 2, and none of the host's":                {0, 0, 1},
		"floors of 1 memories, there are 2, and none of the host's, which nothing": {1},
	} {
		_, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, Share: runtime.Share{Broker: &broker, Floors: floors}})
		require.ErrorIs(t, err, mem.ErrInvalidValue)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, b.run(0, b.launch(0, 0, 0)), "the floor leaves one")
	require.ErrorIs(t, b.run(0, b.launch(1, 2, 0)), mem.ErrNoMemory)
	a.close(t)
	c := must(runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, Share: runtime.Share{Broker: &broker, Floors: []uint64{0, 4 * askedSize}}}))
	require.NoError(t, c.Close(soon(t)))
	b.close(t)
	require.NoError(t, d.Close())
}
