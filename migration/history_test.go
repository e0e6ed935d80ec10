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
	goal, seed := history.Long(t, 6000)
	var total history.Result
	for i := seed; total.Commands < goal; i++ {
		draw := history.Generate
		if i%4 == 3 {
			draw = history.GenerateFailing
		}
		h := draw(i, 100)
		res, err := history.Run(h, on(h, i))
		total.Add(res)
		if err != nil {
			t.Fatal(history.Report(h, on(h, i), err))
		}
	}
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
		h := history.GenerateFrom(&bytesFirst{b, rand.NewPCG(i, 0)}, min(len(b)/4, 150))
		if _, err := history.Run(h, on(h, i)); err != nil {
			t.Fatal(history.Report(h, on(h, i), err))
		}
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
