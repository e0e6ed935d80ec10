// Package metamorphic_test replays random histories over many configurations.
package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes the devices whose kinds are the letters of kinds: c for cpu, s for
// cpu that shares the host's memory, t for tce, w for tce that copies words of 8 bytes, b
// for tce behind a bus (B: one whose batches ask for staging at once), l for tce with links
// to others of its kind, and L for one of which only larger blocks lie in windows, with
// bufalloc regions of size bytes each (0: cpu memory without limit; those with links have
// windowMemory at least, so that windows can be staging).
func open(kinds string, size uint64, s bufalloc.Strategy) func(*history.Faults) ([]devices.Device, error) {
	return func(f *history.Faults) (devs []devices.Device, err error) {
		family := &devicetest.Family{Native: strings.Contains(kinds, "B")}
		for i, k := range kinds {
			name := fmt.Sprintf("%c%d", k, i)
			if o, ok := map[rune]tce.Options{'t': {}, 'b': {}, 'B': {}, 'w': {DMAWord: 8}, 'l': {Windows: 1}, 'L': {Windows: 600, DMAWord: 8}}[k]; ok {
				o.Name, o.Memory, o.Strategy = name, size, s
				if o.Windows != 0 {
					o.Memory = max(size, windowMemory)
				}
				var d *tce.Device
				if d, err = tce.New(o); err == nil && (k == 'b' || k == 'B') {
					devs = append(devs, f.Wrap(devicetest.NewBus(d, family), false))
				} else if err == nil {
					devs = append(devs, f.Wrap(d, false))
				}
			} else {
				var d *cpu.Device
				if d, err = cpu.New(cpu.Options{Name: name, Memory: size, Strategy: s, Workers: 2, SharesHost: k == 's'}); err == nil {
					devs = append(devs, f.Wrap(d, false))
				}
			}
			if err != nil {
				return nil, err
			}
		}
		return devs, nil
	}
}

// windowMemory is enough for windows as staging.
const windowMemory = 8 << 20

// configs is every combination: devices, peer routes, strategies, queue order,
// and memory that suffices or does not.
func configs() []history.Config {
	var all []history.Config
	for _, kinds := range []string{"c", "t", "st", "tt", "cst", "ctct", "cw", "wtw", "bb", "Bct", "ll", "LLLc"} {
		for _, s := range bufalloc.Strategies() {
			for _, size := range []uint64{8 << 10, 256 << 10} {
				for _, noPeer := range []bool{false, true} {
					for _, ooo := range []bool{false, true} {
						whole := len(all)%5 == 4
						cfg := history.Config{
							Name:  fmt.Sprintf("%s/%v/%dKiB/noPeer=%t/outOfOrder=%t/whole=%t", kinds, s, size>>10, noPeer, ooo, whole),
							Whole: whole,
							Open:  open(kinds, size, s), NoPeer: noPeer, OutOfOrder: ooo, Figures: noPeer && kinds != "bb" && kinds != "Bct",
							Links: !noPeer && strings.ContainsAny(kinds, "lL"),
						}
						if all = append(all, cfg); size > 8<<10 || strings.ContainsAny(kinds, "lL") {
							continue // never short
						}
						cfg.Policy = []string{"lru", "cost"}[len(all)/2%2]
						cfg.Name += "/" + cfg.Policy
						if len(all)%4 == 1 {
							cfg.Open = open(kinds, 2*size, s)
							cfg.Name += "/x2"
						}
						all = append(all, cfg)
					}
				}
			}
		}
	}
	return all
}

// TestHistoriesAgreeWithOneFlatMemory draws histories and configurations.
func TestHistoriesAgreeWithOneFlatMemory(t *testing.T) {
	all := configs()
	total := history.Test(t, 4000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		return history.Generate(history.Draw{Seed: seed, Ops: 20 + dice.IntN(200)}), all[dice.IntN(len(all))]
	})
	require.Positive(t, total.WrittenBack, "nothing was evicted")
	require.Positive(t, total.Regrown, "no block was exchanged")
	require.Positive(t, total.Refused, "no configuration was short of memory")
	require.Positive(t, total.BytesMoved)
}

// faultyConfigs are 1 to 8 devices, with copies in words and without, on which calls
// are struck.
func faultyConfigs() []history.Config {
	var all []history.Config
	for i, kinds := range []string{"w", "cw", "wtw", "st", "cwcw", "ww", "ctwsw", "wwtcws", "c", "cstwcwt", "wcwtwswc", "tt", "ll", "LLLL", "LcLw", "bb", "Bcb", "bBst", "cbw"} {
		for k := range 8 {
			noPeer, ooo, size := k&1 != 0, k&2 != 0, []uint64{0, 256 << 10, 12 << 10}[min(k>>2+i%2, 2)]
			if size == 0 {
				size = 1 << 20
			}
			every := []int{6, 12, 40}[(i+k)%3]
			policy := []string{"", "lru", "cost"}[(i+k/2)%3]
			all = append(all, history.Config{
				Name:   fmt.Sprintf("faults/%s/%dKiB/noPeer=%t/outOfOrder=%t/whole=%t/every=%d/%s", kinds, size>>10, noPeer, ooo, (i+k)%5 == 4, every, policy),
				Policy: policy, Whole: (i+k)%5 == 4,
				Open: open(kinds, size, bufalloc.Fit), NoPeer: noPeer, OutOfOrder: ooo, Every: every, Waits: (i+k)%4 == 1,
				Links: !noPeer && strings.ContainsAny(kinds, "lL"),
			})
		}
	}
	return all
}

// TestFailuresLoseExactlyWhatTheyMust replays histories in which user events and host
// calls fail, maps are given up, and, in most, any call that a driver gets may be
// refused, or fail late, or twice, those that the runtime makes by itself too. What must
// fail fails, what need not succeeds with the right bytes (C9), lost bytes are never read
// in silence, what was given up is gone (C11), and Check is clean after every step.
func TestFailuresLoseExactlyWhatTheyMust(t *testing.T) {
	all, faulty := configs(), faultyConfigs()
	total := history.Test(t, 6000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		cfg := faulty[dice.IntN(len(faulty))]
		if dice.IntN(6) == 0 {
			cfg = all[dice.IntN(len(all))]
		}
		return history.Generate(history.Draw{Seed: seed, Ops: 30 + dice.IntN(150), Failing: true}), cfg
	})
	require.Positive(t, total.Struck)
	require.Positive(t, total.Lost)
	require.Less(t, total.Excused, total.Failed/2)
	require.Greater(t, 2*total.Readable, total.Asked, "of the bytes asked for at the end")
}

func TestAHistoryIsReadBackAsItWasSaved(t *testing.T) {
	draw := history.Draw{Seed: 3, Ops: 50}
	h := history.Generate(draw)
	path := filepath.Join(t.TempDir(), "h.json")
	require.NoError(t, h.Save(path))
	again, err := history.Load(path)
	require.NoError(t, err)
	require.Equal(t, h, again)
	require.Equal(t, h, history.Generate(draw), "a seed is a history")
}

// TestHistoriesThatFoundSomething replays those that soaks have found and shrunk, on every
// configuration with faults: what was at fault stays mended.
func TestHistoriesThatFoundSomething(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		h, err := history.Load(file)
		require.NoError(t, err)
		for _, cfg := range faultyConfigs() {
			_, err := history.Run(h, cfg)
			require.NoError(t, err, "%s on %s", file, cfg.Name)
		}
	}
}
