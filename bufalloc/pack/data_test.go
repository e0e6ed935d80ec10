package pack_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc/pack"
	"godwit/study/alloc/formats"
)

// miniCapacity is the size that each of MiniMalloc's instances is known to fit.
const miniCapacity = 1 << 20

// miniMalloc reads one of MiniMalloc's challenging instances, A to E.
func miniMalloc(t testing.TB, name string) []pack.Item {
	return fromFile(t, filepath.Join("minimalloc", name+".1048576.csv"), 1)
}

// pytorch reads one of the traces recorded from PyTorch.
func pytorch(t testing.TB, name string) []pack.Item {
	return fromFile(t, name+".csv.gz", 256)
}

func fromFile(t testing.TB, file string, align uint64) []pack.Item {
	t.Helper()
	traces, err := formats.OpenAllocs(t.Context(), filepath.Join("..", "..", "testdata", "traces", file))
	require.NoError(t, err)
	require.Len(t, traces, 1)
	items, err := traces[0].Items(align)
	require.NoError(t, err)
	return items
}
