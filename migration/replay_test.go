package migration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
	"godwit/migration"
)

type drawn struct{ t *rapid.T }

func (d drawn) n(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "choice") }

type seeded struct{ r *rand.Rand }

func (s seeded) n(n int) int { return s.r.IntN(n) }

type scripted struct{ bytes []byte }

func (s *scripted) n(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

func soaking() bool { return os.Getenv("GODWIT_SOAK") != "" }

func TestARandomHistoryAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := replay(drawn{t}, options{faults: true, steps: 60}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestManyHistories lives more and longer ones, without shrinking; GODWIT_SOAK
// makes it very many, from a new seed.
func TestManyHistories(t *testing.T) {
	n, base := 40, uint64(1)
	if soaking() {
		n, base = 10_000, rand.Uint64()
		t.Logf("%d histories of 200 steps from seed %d", n, base)
	}
	for i := range uint64(n) {
		seed := base + i
		live := func(quiet bool) error {
			c := seeded{rand.New(rand.NewPCG(seed, 0))}
			return replay(c, options{faults: i%3 > 0, gap: i%6 == 0, quiet: quiet, steps: 200})
		}
		if live(true) != nil {
			t.Fatalf("seed %d: %v", seed, live(false))
		}
	}
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 160)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := replay(&scripted{b}, options{faults: true, steps: min(len(b)/4, 150)}); err != nil {
			t.Fatal(err)
		}
	})
}

// caught lives histories with a mutant until one goes wrong, and returns how.
func caught(t *testing.T, v variant) error {
	for seed := range uint64(200) {
		c := seeded{rand.New(rand.NewPCG(seed, 2))}
		if err := replay(c, options{faults: true, steps: 200, planner: v}); err != nil {
			return err
		}
	}
	t.Fatal("no judge noticed the mutant")
	return nil
}

func TestAMutantThatCopiesWholeSegmentsMovesTooMuch(t *testing.T) {
	err := caught(t, variant{plan: func(h *history, dst *migration.Plan, accs []mem.Access) error {
		wide := append([]mem.Access{}, accs...)
		for _, a := range accs {
			segs, err := h.p.Segments(a.Buffer)
			if err != nil {
				return err
			}
			for _, s := range segs {
				if a.Mode.Reads() && s.Range.Overlaps(a.Range) {
					wide = append(wide, mem.Access{Buffer: a.Buffer, Range: s.Range, Memory: a.Memory})
				}
			}
		}
		return h.p.Plan(dst, wide)
	}})
	require.ErrorContains(t, err, "bytes moved, the lower bound is")
}

// without returns a mutant whose plans lack some waits.
func without(kind mem.WaitKind, steps bool) variant {
	return variant{plan: func(h *history, dst *migration.Plan, accs []mem.Access) error {
		err := h.p.Plan(dst, accs)
		strip := func(ws []mem.Wait) (out []mem.Wait) {
			for _, w := range ws {
				if w.Kind != kind {
					out = append(out, w)
				}
			}
			return out
		}
		if !steps {
			dst.Waits = strip(dst.Waits)
			return err
		}
		for i := range dst.Steps {
			dst.Steps[i].Waits = strip(dst.Steps[i].Waits)
		}
		return err
	}}
}

func TestMutantsThatForgetWaitsAreCaughtByTheMachine(t *testing.T) {
	for _, kind := range []mem.WaitKind{mem.Order, mem.Data} {
		for _, steps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v waits, of steps: %v", kind, steps), func(t *testing.T) {
				require.Regexp(t, "one writes what the other uses|reads version|a block may be freed", caught(t, without(kind, steps)).Error())
			})
		}
	}
}

func TestAMutantThatKeepsFailedPromisesIsCaught(t *testing.T) {
	require.Error(t, caught(t, variant{deafToFaults: true}))
}

// idle checks that nothing is remembered of points that have all ended.
func (h *history) idle() {
	h.compare()
	h.p.Retire()
	for _, b := range h.buffers {
		for m := range mem.MemoryID(h.topo.Len()) {
			rows, err := h.p.Hazards(b.id, m)
			if err != nil || len(rows) > 1 || len(rows) == 1 && (!rows[0].Writer.IsZero() || len(rows[0].Readers) > 0) {
				h.fail("hazards of %d on %d when all has ended: %v %v", b.id, m, rows, err)
			}
		}
	}
}
