package pool_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/lib/pool"
	"godwit/runtime"
)

// lent is a loan with what its user wrote last.
type lent struct {
	h    pool.Handle
	want []byte
	got  []byte
	q    *runtime.Queue
}

// gates are user events that hold commands back until they are opened.
type gates struct {
	c    *runtime.Context
	shut []runtime.Event // oldest first
}

func (g *gates) add(t *rapid.T) {
	e, err := g.c.NewUserEvent()
	require.NoError(t, err)
	g.shut = append(g.shut, e)
}

// open opens the oldest.
func (g *gates) open(t *rapid.T) {
	if len(g.shut) > 0 {
		require.NoError(t, g.shut[0].SetStatus(runtime.Complete))
		g.shut = g.shut[1:]
	}
}

func (g *gates) openAll(t *rapid.T) {
	for len(g.shut) > 0 {
		g.open(t)
	}
}

// some is what a command waits for: nothing, or the youngest.
func (g *gates) some(t *rapid.T) []runtime.Event {
	if len(g.shut) > 0 && rapid.Bool().Draw(t, "held back") {
		return g.shut[len(g.shut)-1:]
	}
	return nil
}

// Users write a pattern of their own, read it back through a queue that user
// events hold up at random, and give the buffer back without waiting. Whoever
// got a buffer under a running command of somebody else would change what that
// one reads.
func TestNoBufferIsEverReusedUnderARunningCommand(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			c, qs := cpuContext(&quiet{t}, 3)
			p, err := pool.NewBufferPool(c, pool.Options{HiddenWait: hidden, Bins: pool.LeadingBits})
			require.NoError(t, err)
			g := gates{c: c}
			var all []*lent
			users := 0
			t.Repeat(map[string]func(*rapid.T){
				"gate": g.add,
				"open": g.open,
				"use": func(t *rapid.T) {
					users++
					q := rapid.SampledFrom(qs).Draw(t, "queue")
					size := rapid.Uint64Range(1, 4).Draw(t, "size") * 200
					h, err := p.Get(q, size, 0)
					require.NoError(t, err)
					l := &lent{h: h, q: q, want: make([]byte, size), got: make([]byte, size)}
					for i := range l.want {
						l.want[i] = byte(users + i*users)
					}
					wait := g.some(t)
					w, err := q.EnqueueWrite(bg, h.Buffer(), 0, l.want, wait...)
					require.NoError(t, err)
					r, err := q.EnqueueRead(bg, h.Buffer(), 0, l.got, w)
					require.NoError(t, err)
					require.NoError(t, w.Release())
					require.NoError(t, r.Release())
					require.NoError(t, p.PutAfter(h, q))
					all = append(all, l)
				},
				"": func(t *rapid.T) { require.NoError(t, p.Check()) },
			})
			g.openAll(t)
			for _, q := range qs {
				require.NoError(t, q.Finish(bg))
			}
			for i, l := range all {
				require.True(t, bytes.Equal(l.want, l.got), "user %d read what another wrote", i)
			}
			_, err = p.Clear()
			require.NoError(t, err)
			require.NoError(t, c.Close(bg), "nothing leaked")
		})
	}
}

// quiet lets rapid's T stand in for testing.T where helpers want a Cleanup.
type quiet struct{ *rapid.T }

func (quiet) Helper()        {}
func (quiet) Cleanup(func()) {}

func TestACeilingIsACeiling(t *testing.T) {
	const ceiling = 1 << 20
	c, _ := nullContext(t)
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: ceiling, Options: pool.Options{Bins: pool.LeadingBits}})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	var out []pool.Handle
	refused, steps := 0, 1_000_000
	if underRace && !soak() {
		steps /= 10
	}
	for i := range steps {
		if len(out) > 0 && (rng.IntN(2) == 0 || len(out) > 200) {
			k := rng.IntN(len(out))
			if err := p.Put(out[k]); err != nil {
				t.Fatal(err)
			}
			out[k] = out[len(out)-1]
			out = out[:len(out)-1]
			continue
		}
		h, err := p.Get(bg, nil, 1+uint64(rng.ExpFloat64()*9000), 0)
		if err != nil {
			refused++
		} else {
			out = append(out, h)
		}
		if held := p.Held(); held > ceiling {
			t.Fatalf("operation %d: %d bytes held over the ceiling", i, held)
		}
		if i%100_000 == 0 {
			require.NoError(t, p.Check())
		}
	}
	require.NotZero(t, refused, "the history never came near the ceiling")
	require.NotZero(t, p.Stats().Hits)
	for _, h := range out {
		require.NoError(t, p.Put(h))
	}
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, p.Check())
	require.NoError(t, c.Close(bg))
}

func TestManyGoroutinesShareABoundedPool(t *testing.T) {
	c, qs := cpuContext(t, 4)
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Ceiling: 1 << 16})
	require.NoError(t, err)
	length := 300 * time.Millisecond
	if soak() {
		length = time.Minute
	}
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	for g, q := range qs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			buf := make([]byte, 8)
			for n := uint64(0); time.Now().Before(end); n++ {
				h, err := p.Get(bg, q, 8+rng.Uint64N(4000), 0)
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				binary.LittleEndian.PutUint64(buf, n)
				ev, err := q.EnqueueWrite(bg, h.Buffer(), 0, buf)
				if err == nil {
					err = ev.Wait(bg)
				}
				if err == nil {
					err = ev.Release()
				}
				if err == nil {
					err = p.PutAfter(h, q)
				}
				if err != nil {
					t.Errorf("use: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Check())
	require.LessOrEqual(t, p.Stats().Held, uint64(1<<16))
	_, err = p.Clear()
	require.NoError(t, err)
	require.NoError(t, c.Close(bg))
}

func soak() bool { return os.Getenv("GODWIT_SOAK") != "" }
