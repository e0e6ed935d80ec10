package replay

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
)

// The strategies that reproduce PoCL's allocator put everything where PoCL's
// own code does, failures included.
func TestPoCLStrategiesPlaceAsPoCLDoes(t *testing.T) {
	p, err := BuildPoCL(t.Context(), t.TempDir(), "", 0)
	if errors.Is(err, ErrNoPoCL) {
		t.Skip(err)
	}
	require.NoError(t, err)
	small, err := W1(100, 5000, 0, 3)
	require.NoError(t, err)
	large, err := W1(1000, 5000, 0, 3)
	require.NoError(t, err)
	mix, err := W2(W2Mix, 1000, 3)
	require.NoError(t, err)
	for _, st := range []*Stream{small, large, mix} {
		for _, size := range []uint64{st.PeakLive, 3 * st.PeakLive} {
			for name, s := range map[string]bufalloc.Strategy{"tight": bufalloc.PoCLTight, "wasteful": bufalloc.PoCLWasteful} {
				run, err := p.Run(t.Context(), st, name, size, 1, 5)
				require.NoError(t, err)
				assert.Equal(t, placement(t, st, s, size), run.Hash, "%s, %s, region %d", st.Name, name, size)
				assert.Positive(t, run.NSPerOp[0])
			}
		}
	}
}

// placement hashes the addresses of the first 20,000 operations as the harness does.
func placement(t *testing.T, st *Stream, strategy bufalloc.Strategy, size uint64) uint64 {
	s, err := newState(st, strategy, size)
	require.NoError(t, err)
	h := fnv.New64a()
	for _, op := range st.Ops[:min(len(st.Ops), 20000)] {
		ok := s.perform(op)
		if op.Size == 0 {
			s.chunks[op.Slot] = bufalloc.Chunk{}
			continue
		}
		addr := uint64(math.MaxUint64)
		if ok {
			addr, err = s.r.Addr(s.chunks[op.Slot])
			require.NoError(t, err)
		}
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, addr))
	}
	return h.Sum64()
}

func TestPoCLMissingIsSaid(t *testing.T) {
	_, err := BuildPoCL(t.Context(), t.TempDir(), t.TempDir()+"/none", 0)
	require.ErrorIs(t, err, ErrNoPoCL)
	_, err = BuildPoCL(t.Context(), t.TempDir(), t.TempDir(), 0)
	require.ErrorIs(t, err, ErrNoPoCL)
}
