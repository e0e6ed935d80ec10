package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Long says how many accepted commands a test of drawn histories goes on for, and the seed of
// its first one: in CI short ones from seed 1, with GODWIT_SOAK=1 100,000 (or
// GODWIT_SOAK_COMMANDS) from a new seed. GODWIT_SEED=N begins with N in either.
func Long(t testing.TB, short int) (commands int, seed uint64) {
	t.Helper()
	commands, seed = short, 1
	if os.Getenv("GODWIT_SOAK") != "" {
		commands, seed = int(number(t, "GODWIT_SOAK_COMMANDS", 100_000)), rand.Uint64()
	}
	return commands, number(t, "GODWIT_SEED", seed)
}

// number is the value of an environment variable, or other where it is not set.
func number(t testing.TB, name string, other uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return other
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Crowds is what histories of Apart came to.
type Crowds struct {
	Result
	Seed        uint64 // of the first
	Histories   int
	Roots, Lent int // buffers, and those of them over memory that is lent
}

// RunCrowds replays histories of Apart of four to eight goroutines until so many commands were
// accepted, on what draw draws. A seed is a history and a configuration, whatever ran before it.
// In a soak each says first that it begins, since a touch of memory that was taken back ends
// the process.
func RunCrowds(commands int, seed uint64, draw func(dice *rand.Rand) Config) (all Crowds, err error) {
	for all.Seed = seed; all.Commands < commands && err == nil; all.Histories++ {
		at := seed + uint64(all.Histories)
		dice := rand.New(rand.NewPCG(at, 2))
		cfg := draw(dice)
		crowd := Apart(at, 4+dice.IntN(5), 30+dice.IntN(80), dice.IntN(3) == 0)
		for _, r := range crowd[0].Roots {
			if all.Roots++; r.Kind == UserMem {
				all.Lent++
			}
		}
		if os.Getenv("GODWIT_SOAK") != "" {
			fmt.Printf("after %d commands: seed %d on %s\n", all.Commands, at, cfg.Name)
		}
		var res Result
		if res, err = RunCrowd(crowd, cfg); err != nil {
			err = fmt.Errorf("after %d commands: seed %d on %s: %w", all.Commands, at, cfg.Name, err)
		}
		all.Add(res)
	}
	return all, err
}

// String is for logs.
func (c *Crowds) String() string {
	return c.Failures(fmt.Sprintf("goroutines apart: first seed %d, %d histories, %d blocks evicted, %d of %d buffers over lent memory, %d bytes read and compared", c.Seed, c.Histories, c.Evictions, c.Lent, c.Roots, c.BytesRead))
}
