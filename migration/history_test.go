package migration_test

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/history"
)

// Random histories of a context over this planner, on devices whose commands run in any order
// that their waits allow: package history judges them.

// on is where the i-th history runs: devices that hold all of it, or not, and store buffers
// whole or by range.
func on(h *history.History, i uint64) history.Config {
	cfg := history.Config{NoPeer: i%3 == 0, OutOfOrder: i%2 == 0, Whole: i%7 == 0}
	if least := h.WorkingSet(); i%5 > 1 {
		cfg.Policy, cfg.Cap = []string{"lru", "cost"}[i%2], max(least+(h.Bytes()-least)*(i%4)/4, 1<<10) // a table lies there, too
	}
	return history.InAnyOrder(i, 1+int(i%4), cfg)
}

func TestManyHistories(t *testing.T) {
	total := history.Test(t, 6000, func(i uint64, _ *rand.Rand) (*history.History, history.Config) {
		h := history.Generate(history.Draw{Seed: i, Ops: 100, Failing: i%4 == 3})
		return h, on(h, i)
	})
	require.Positive(t, total.WrittenBack)
	require.Positive(t, total.Regrown)
	require.Positive(t, total.Lost)
}

// FuzzHistory has what a history is drawn from be any bytes.
func FuzzHistory(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		hash := fnv.New64a()
		_, _ = hash.Write(b)
		i := hash.Sum64()
		h := history.Generate(history.Draw{Source: &bytesFirst{b, rand.NewPCG(i, 0)}, Ops: min(len(b)/4, 150)})
		_, err := history.Run(h, on(h, i))
		require.NoError(t, err)
	})
}

// bytesFirst gives bytes, one at a time, and then what the source has.
type bytesFirst struct {
	bytes []byte
	rand.Source
}

func (s *bytesFirst) Uint64() uint64 {
	if len(s.bytes) == 0 {
		return s.Source.Uint64()
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return 0x0101010101010101 * uint64(b)
}
