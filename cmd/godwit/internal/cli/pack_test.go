package cli

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rows are those of a CSV file without its header.
func csvRows(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	all, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	return all[1:]
}

func TestPackWritesOffsetsForMiniMallocsRows(t *testing.T) {
	in, out := traceFile("minimalloc/B.1048576.csv"), filepath.Join(t.TempDir(), "offsets.csv")
	_, errOut, err := godwit(t, "pack", in, "--capacity", "1048576", "-o", out)
	require.NoError(t, err)
	assert.Contains(t, errOut, "170 chunks in 10")
	type box struct{ lower, upper, size, offset uint64 }
	number := func(text string) uint64 {
		v, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return v
	}
	boxes := map[string]box{}
	for _, r := range csvRows(t, out) {
		boxes[r[0]] = box{number(r[1]), number(r[2]), number(r[3]), number(r[4])}
	}
	require.Len(t, boxes, 170)
	for _, r := range csvRows(t, in) {
		b := boxes[r[0]]
		require.Equal(t, []uint64{number(r[1]), number(r[2]), number(r[3])}, []uint64{b.lower, b.upper, b.size}, "the row of id %s", r[0])
		require.LessOrEqual(t, b.offset+b.size, uint64(1048576))
		for id, o := range boxes {
			apart := o.upper <= b.lower || b.upper <= o.lower || o.offset+o.size <= b.offset || b.offset+b.size <= o.offset
			require.True(t, apart || id == r[0], "%s and %s", id, r[0])
		}
	}
	// Its own output is a trace again.
	_, _, err = godwit(t, "pack", out, "--capacity", "1048576", "-o", filepath.Join(t.TempDir(), "again.csv"))
	require.NoError(t, err)
}

func TestPackOfOtherTracesAndItsExitStatus(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.csv")
	require.NoError(t, os.WriteFile(own, []byte("op,id,bytes,time_us\na,7,100,0\na,8,50,1\nf,7,,2\na,9,300,3\n"), 0o600))
	out, errOut, err := godwit(t, "pack", own, "--align", "1")
	require.NoError(t, err)
	assert.Contains(t, errOut, "in 350 bytes (350 B), which is the least")
	assert.True(t, strings.HasPrefix(out, "id,lower,upper,size,offset\n0,0,2,100,"), out)
	assert.Contains(t, out, "\n1,1,4,50,")

	file := filepath.Join(t.TempDir(), "none.csv")
	_, _, err = godwit(t, "pack", own, "--align", "1", "--capacity", "349", "-o", file)
	require.ErrorContains(t, err, "no placement needs less than 350 bytes")
	require.True(t, isFailed(err))
	assert.NoFileExists(t, file)
	for _, args := range [][]string{{}, {own, "--capacity", "0"}, {own, "--capacity", "much"}, {own, "--limit", "0"}, {own, "--align", "3"}, {own, "-o", own}, {"nowhere.csv"}} {
		_, _, err := godwit(t, append([]string{"pack"}, args...)...)
		require.Error(t, err, "%v", args)
		require.False(t, isFailed(err), "%v", args)
	}
}
