package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Test draws histories and what they run on, and replays them until so many commands were accepted,
// or one fails, which it shrinks, saves and reports: in CI short ones from seed 1, in a soak
// (GODWIT_SOAK=1) 100,000 or GODWIT_SOAK_COMMANDS from a new seed. GODWIT_SEED=N begins with seed N,
// and out of a soak is that one alone; GODWIT_HISTORY=FILE is a history that was saved, on what it
// was drawn to run on. draw must depend on nothing but the seed, of which the dice are. In a soak each
// history first says that it begins, since a touch of memory that was taken back ends the process.
func Test(t testing.TB, short int, draw func(seed uint64, dice *rand.Rand) (*History, Config)) (total Result) {
	t.Helper()
	soak := os.Getenv("GODWIT_SOAK") != ""
	seed := uint64(1)
	if soak {
		short, seed = int(number(t, "GODWIT_SOAK_COMMANDS", 100_000)), rand.Uint64()
	}
	first := number(t, "GODWIT_SEED", seed)
	saved, replays := os.LookupEnv("GODWIT_HISTORY")
	var file *History
	if replays {
		var err error
		if file, err = Load(saved); err != nil {
			t.Fatal(err)
		}
		first = file.Drawn
	}
	for seed = first; ; seed++ {
		h, cfg := draw(seed, rand.New(rand.NewPCG(seed, 2)))
		if h.Drawn = seed; replays {
			h = file
		}
		if soak {
			fmt.Printf("after %d commands: seed %d on %s\n", total.Commands, seed, cfg.Name)
		}
		res, failed, err := replayed(h, cfg)
		if total.Add(res); err != nil {
			t.Fatalf("first seed %d, %s\nseed %d: %s", first, total.String(), seed, report(h, failed, err))
		}
		if replays || os.Getenv("GODWIT_SEED") != "" && !soak {
			t.Skipf("seed %d alone: %s", seed, total.String())
		}
		if total.Commands >= short {
			t.Logf("first seed %d, %s", first, total.String())
			return total
		}
	}
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
