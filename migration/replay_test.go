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
	agreesWithTheOracle(t, options{faults: true, steps: 60})
}

// agreesWithTheOracle replays drawn histories.
func agreesWithTheOracle(t *testing.T, o options) {
	rapid.Check(t, func(t *rapid.T) {
		if err := replay(drawn{t}, o); err != nil {
			t.Fatal(err)
		}
	})
}

// mustLive replays the history of a seed, and where it goes wrong once more, so
// that it is told. Each test has a stream of histories of its own.
func mustLive(t *testing.T, seed, stream uint64, o options) {
	t.Helper()
	live := func(quiet bool) error {
		o.quiet = quiet
		return replay(seeded{rand.New(rand.NewPCG(seed, stream))}, o)
	}
	if live(true) != nil {
		t.Fatalf("seed %d: %v", seed, live(false))
	}
}

// many is n, or very many under GODWIT_SOAK.
func many(n int) int {
	if soaking() {
		return 250 * n
	}
	return n
}

// TestManyHistories lives more and longer ones, without shrinking; GODWIT_SOAK
// makes it very many, from a new seed.
func TestManyHistories(t *testing.T) {
	n, base := many(40), uint64(1)
	if soaking() {
		base = rand.Uint64()
		t.Logf("%d histories of 200 steps from seed %d", n, base)
	}
	for i := range uint64(n) {
		mustLive(t, base+i, 0, options{faults: i%3 > 0, steps: 200})
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
	return caughtIn(t, 2, options{faults: true, planner: v})
}

// caughtIn is caught with histories of another stream and other options.
func caughtIn(t *testing.T, stream uint64, o options) error {
	o.steps = 200
	for seed := range uint64(200) {
		if err := replay(seeded{rand.New(rand.NewPCG(seed, stream))}, o); err != nil {
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
