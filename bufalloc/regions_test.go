package bufalloc

import (
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
