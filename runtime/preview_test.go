package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/eviction"
	"godwit/mem"
	"godwit/runtime"
)

// twoNull is a context of two null devices that hold so many of its buffers each.
type twoNull struct {
	c    *runtime.Context
	devs []devices.Device
	q    []*runtime.Queue
	k    *runtime.Kernel
	bufs []*runtime.Buffer
}

const askedSize = 4096

func ask(t require.TestingT, fit, buffers int, o runtime.Options) *twoNull {
	a := &twoNull{devs: []devices.Device{null.New(devices.Config{Name: "a", Memory: uint64(fit) * askedSize}), null.New(devices.Config{Name: "b", Memory: uint64(fit) * askedSize})}}
	o.Devices, o.OwnDevices = a.devs, true
	a.c = must(runtime.NewContext(o))
	for _, d := range a.devs {
		a.q = append(a.q, must(a.c.NewQueue(d, runtime.QueueOptions{})))
	}
	a.k = must(must(a.c.Build(context.Background(), three)).Kernel("three"))
	for i := range buffers {
		a.bufs = append(a.bufs, must(a.c.CreateNamedBuffer(fmt.Sprint("b", i), askedSize, 0, make([]byte, askedSize))))
	}
	require.NoError(t, a.c.Check())
	return a
}

func (a *twoNull) launch(bufs ...int) runtime.Launch {
	l := runtime.Launch{Kernel: a.k, Global: []uint64{1}}
	for _, i := range bufs {
		l.Args = append(l.Args, runtime.Buf(a.bufs[i]))
	}
	return l
}

func (a *twoNull) run(q int, l runtime.Launch) error {
	e, err := a.q[q].EnqueueLaunch(context.Background(), l)
	if err == nil {
		err = e.Release()
	}
	return err
}

func (a *twoNull) close(t require.TestingT) {
	for _, b := range a.bufs {
		require.NoError(t, b.Release())
	}
	require.NoError(t, a.c.Close(context.Background()))
}

// TestAPreviewIsWhatTheEnqueueDoes: two contexts are given the same commands, of which one is asked
// before each, and more than that. Both move the same bytes and evict the same blocks, and those are what
// was foretold.
func TestAPreviewIsWhatTheEnqueueDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{"cost", "lru"}).Draw(t, "policy")
		fit := rapid.SampledFrom([]int{3, 5, 50}).Draw(t, "fit") // many: the order of blocks is kept
		options := func() runtime.Options { return runtime.Options{Policy: must(eviction.ByName(policy))} }
		x, y := ask(t, fit, 3*fit, options()), ask(t, fit, 3*fit, options())
		defer x.close(t)
		defer y.close(t)
		which := rapid.IntRange(0, 3*fit-1)
		for range rapid.IntRange(1, 8*fit).Draw(t, "commands") {
			three := rapid.SliceOfN(which, 3, 3).Draw(t, "buffers")
			q := rapid.IntRange(0, 1).Draw(t, "queue")
			for range rapid.IntRange(0, 2).Draw(t, "questions") {
				_, err := x.q[rapid.IntRange(0, 1).Draw(t, "of")].Preview(x.launch(rapid.SliceOfN(which, 3, 3).Draw(t, "about")...))
				require.NoError(t, err)
			}
			v, err := x.q[q].Preview(x.launch(three...))
			require.NoError(t, err)
			before := x.c.Stats()
			require.NoError(t, x.run(q, x.launch(three...)))
			require.NoError(t, y.run(q, y.launch(three...)))
			now := x.c.Stats()
			require.Equal(t, y.c.Stats(), now, "who asks changes nothing")
			back := now.BytesWrittenBack - before.BytesWrittenBack
			require.Equal(t, v.Bytes, now.BytesMoved-before.BytesMoved-back)
			require.EqualValues(t, v.Evictions, now.Evictions-before.Evictions)
			require.Equal(t, v.Evicted, now.BytesEvicted-before.BytesEvicted)
			if fit <= 32 { // else the kept order may choose another
				require.Equal(t, v.WrittenBack, back)
			}
			require.NoError(t, x.c.Check())
			again, err := x.q[q].Preview(x.launch(three...))
			require.NoError(t, err)
			require.Zero(t, again.Bytes+again.Evicted+again.Blocks+uint64(again.Copies), "all is there")
			for _, i := range three {
				n, err := x.bufs[i].Resident(x.devs[q])
				require.NoError(t, err)
				require.EqualValues(t, askedSize, n)
			}
		}
	})
}

func TestAPreviewTellsTheCostOfWhatLeaves(t *testing.T) {
	link := mem.DirectLink(time.Millisecond, askedSize*1000) // 1 ms and 1 ms for each buffer
	var links []runtime.Link
	for _, m := range []mem.MemoryID{1, 2} {
		links = append(links, runtime.Link{From: 0, To: m, Link: link}, runtime.Link{From: m, To: 0, Link: link})
	}
	a := ask(t, 3, 6, runtime.Options{Policy: eviction.LRU{}, Links: links})
	defer a.close(t)
	v, err := a.q[0].Preview(a.launch(0, 1, 2))
	require.NoError(t, err)
	require.Equal(t, runtime.Preview{Bytes: 3 * askedSize, Copies: 3, Blocks: 3 * askedSize, Time: 6 * time.Millisecond, Timed: true}, v)
	for _, l := range []runtime.Launch{a.launch(0, 1, 2), a.launch(1, 2, 0), a.launch(2, 0, 1)} { // each is written there
		require.NoError(t, a.run(0, l))
	}
	v, err = a.q[0].Preview(a.launch(3, 4, 0))
	require.NoError(t, err)
	require.Equal(t, runtime.Preview{
		Bytes: 2 * askedSize, Copies: 2, Blocks: 2 * askedSize, Evictions: 2, Evicted: 2 * askedSize, WrittenBack: 2 * askedSize,
		Refetch: 2 * askedSize, Time: 8 * time.Millisecond, RefetchTime: 4 * time.Millisecond, Timed: true,
	}, v)
	a.q[0], a.q[1] = a.q[1], a.q[0]
	v, err = a.q[0].Preview(a.launch(0, 0, 0))
	require.NoError(t, err)
	require.EqualValues(t, askedSize, v.Bytes, "from the other device")
	part, err := a.bufs[0].Sub(0, 1024, 0)
	require.NoError(t, err)
	n, err := part.Resident(a.devs[0])
	require.NoError(t, err)
	require.EqualValues(t, 1024, n)
	n, err = part.Resident(a.devs[1])
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, part.Release())
}

func TestAPreviewFailsAsTheEnqueueDoes(t *testing.T) {
	asks := 0
	a := ask(t, 2, 3, runtime.Options{OnShortage: func(context.Context, *runtime.OutOfMemory) bool { asks++; return false }})
	_, err := a.q[0].Preview(a.launch(0, 1, 2))
	var why *runtime.OutOfMemory
	require.ErrorAs(t, err, &why)
	require.EqualValues(t, 3*askedSize, why.Requested)
	require.Zero(t, asks)
	require.NoError(t, a.c.Check())

	other := ask(t, 2, 3, runtime.Options{})
	for want, l := range map[error]runtime.Launch{
		mem.ErrKernelArgs:     a.launch(0, 1),
		mem.ErrInvalidKernel:  {Global: []uint64{1}},
		mem.ErrInvalidContext: {Kernel: a.k, Global: []uint64{1}, Args: other.launch(0, 0, 0).Args},
	} {
		_, err := a.q[0].Preview(l)
		require.ErrorIs(t, err, want)
	}
	_, err = (*runtime.Queue)(nil).Preview(a.launch(0, 0, 0))
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	_, err = a.bufs[0].Resident(other.devs[0])
	require.ErrorIs(t, err, mem.ErrInvalidDevice)
	other.close(t)

	rec, err := a.c.Record(a.q[0])
	require.NoError(t, err)
	_, err = a.q[0].Preview(a.launch(0, 0, 0))
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.NoError(t, rec.Discard())
	require.NoError(t, a.q[0].Close())
	_, err = a.q[0].Preview(a.launch(0, 0, 0))
	require.ErrorIs(t, err, mem.ErrInvalidQueue)
	a.close(t)
	_, err = a.q[1].Preview(a.launch(0, 0, 0))
	require.ErrorIs(t, err, mem.ErrInvalidContext)
	_, err = a.bufs[0].Resident(a.devs[0])
	require.Error(t, err)
}

func TestAPreviewAllocatesNothing(t *testing.T) {
	a := ask(t, 50, 150, runtime.Options{})
	defer a.close(t)
	for i := range 300 {
		require.NoError(t, a.run(i%2, a.launch(i%150, (i+50)%150, (i+100)%150)))
	}
	l, v, err := a.launch(1, 2, 3), runtime.Preview{}, error(nil)
	question := func() {
		for _, q := range a.q {
			if v, err = q.Preview(l); err != nil {
				t.Fatal(err)
			}
			if _, err = a.bufs[7].Resident(a.devs[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		question()
	}
	require.Positive(t, v.Evictions)
	require.Zero(t, testing.AllocsPerRun(100, question))
}

// TestAPreviewBesideCommands: whoever asks while others enqueue, and release what is asked about, is told
// something, or why not.
func TestAPreviewBesideCommands(t *testing.T) {
	a := ask(t, 4, 12, runtime.Options{})
	defer a.close(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for n := range 200 {
				assert.NoError(t, a.run(n%2, a.launch((n+i)%12, (n+2*i)%12, (3*n+i)%12)))
			}
		}()
		go func() {
			defer wg.Done()
			for n := range 200 {
				_, err := a.q[n%2].Preview(a.launch((n+i)%12, n%12, (5*n+i)%12))
				assert.NoError(t, err)
				_, err = a.bufs[n%12].Resident(a.devs[n%2])
				assert.NoError(t, err)
			}
		}()
	}
	wg.Wait()
	require.NoError(t, a.c.Check())
}
