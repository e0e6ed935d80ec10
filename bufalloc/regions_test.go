package bufalloc

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestRegionsAreSearchedInOrder(t *testing.T) {
	low, high := newRegion(t, 0, 100, Options{}), newRegion(t, 1000, 1000, Options{})
	g, err := NewRegions(low, high)
	require.NoError(t, err)
	require.ErrorIs(t, g.Add(newRegion(t, 50, 100, Options{})), mem.ErrOverlap)
	require.ErrorIs(t, g.Add(nil), mem.ErrInvalidValue)
	a, err := g.Alloc(80, 1)
	require.NoError(t, err)
	require.Equal(t, 0, a.Region)
	b, err := g.Alloc(80, 1)
	require.NoError(t, err)
	require.Equal(t, 1, b.Region)
	out := make([]Place, 3)
	require.NoError(t, g.AllocAll([]mem.Request{{Size: 20}, {Size: 20}, {Size: 900}}, out), "only by taking both regions")
	require.ErrorIs(t, g.AllocAll([]mem.Request{{Size: 1}, {Size: 1}, {Size: 900}}, out), mem.ErrNoMemory)
	require.Equal(t, make([]Place, 3), out)
	require.NoError(t, g.Check())
	p, ok := g.Lookup(1000)
	require.True(t, ok)
	require.Equal(t, 1, p.Region)
	require.ErrorIs(t, g.FreeAddr(500), ErrNoChunk)
	require.ErrorIs(t, g.Free(Place{Region: 2, Chunk: b.Chunk}), ErrForeignChunk)
	require.ErrorIs(t, g.Free(Place{Region: 0, Chunk: b.Chunk}), ErrForeignChunk)
	require.NoError(t, g.Free(a))
	require.NoError(t, g.FreeAddr(1000))
	require.NoError(t, g.Check())
	g.Reset()
	require.Zero(t, g.Stats().Live)
}

func TestLockedServesManyGoroutines(t *testing.T) {
	l := NewLocked(newRegion(t, 0, 1<<20, Options{Granularity: 64}))
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			var held []Chunk
			for i := range 2000 {
				if i%3 == 2 {
					c := held[(i*7+k)%len(held)]
					if err := l.Free(c); err != nil {
						t.Error(err)
					}
					held = append(held[:(i*7+k)%len(held)], held[(i*7+k)%len(held)+1:]...)
					continue
				}
				c, err := l.Alloc(uint64(64+i%512), 64)
				if err != nil {
					t.Error(err)
					return
				}
				held = append(held, c)
				if len(held) > 20 {
					if err := l.Free(held[0]); err != nil {
						t.Error(err)
					}
					held = held[1:]
				}
			}
			for _, c := range held {
				if err := l.Free(c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Check())
	require.Zero(t, l.Stats().Live)
}
