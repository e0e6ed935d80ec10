package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/mem"
	"godwit/tests/internal/history"
)

// late is a device whose copies for the runtime begin some time after they could, as those over
// a bus do: what a program does meanwhile, it does beside them.
func late(d devices.Device, o devices.QueueOptions) (devices.Queue, error) {
	users := strings.HasPrefix(o.Name, history.UserQueue)
	return devicetest.Tap(d, o, func(q devices.Queue, cmd *devices.Command, waits []mem.Wait) (mem.Point, error) {
		if users || rand.IntN(2) == 0 {
			return q.Submit(cmd, waits)
		}
		line := mem.NewTimeline("late", true, nil)
		p := line.Next()
		time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, func() { line.End(p, nil) })
		return q.Submit(cmd, append(waits, mem.Wait{Point: p, Kind: mem.Order}))
	})
}

type lateCPU struct{ *cpu.Device }

func (d lateCPU) Unwrap() devices.Device { return d.Device }
func (d lateCPU) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return late(d.Device, o)
}

type lateTCE struct{ *tce.Device }

func (d lateTCE) Unwrap() devices.Device { return d.Device }
func (d lateTCE) NewQueue(o devices.QueueOptions) (devices.Queue, error) {
	return late(d.Device, o)
}

// lateConfigs are 1 to 8 devices that are short of memory and late.
func lateConfigs() []history.Config {
	var all []history.Config
	for i, kinds := range []string{"c", "t", "ct", "cct", "tttt", "ctctctct"} {
		for k := range 4 {
			all = append(all, history.Config{
				Name: fmt.Sprintf("late/%s/%d", kinds, k), Policy: []string{"lru", "cost"}[k%2], NoPeer: k/2 == 0, OutOfOrder: (i+k)%2 == 0,
				Open: func(*history.Faults) ([]devices.Device, error) {
					devs, err := open(kinds, 16<<10, bufalloc.Fit)(nil)
					for i, d := range devs {
						switch d := d.(type) {
						case *cpu.Device:
							devs[i] = lateCPU{d}
						case *tce.Device:
							devs[i] = lateTCE{d}
						}
					}
					return devs, err
				},
			})
		}
	}
	return all
}

// TestGoroutinesThatComeAndGoBesideOthers has at least four goroutines with buffers of their
// own, many over memory that they lend, make, use, map and release them under pressure, with
// user events and calls that fail, and copies that are late. What was lent is taken back as
// soon as it may be (C13): a touch after that ends the process. With GODWIT_SOAK=1 seeds are
// new, until 100,000 commands (or GODWIT_SOAK_COMMANDS) were accepted; GODWIT_SEED=N begins
// with N.
func TestGoroutinesThatComeAndGoBesideOthers(t *testing.T) {
	all := [][]history.Config{configs(), faultyConfigs(), lateConfigs()}
	goal, seed := 5000, uint64(1)
	if os.Getenv("GODWIT_SOAK") != "" {
		goal, seed = 100_000, rand.Uint64()
		if n, err := strconv.Atoi(os.Getenv("GODWIT_SOAK_COMMANDS")); err == nil {
			goal = n
		}
	}
	if n, err := strconv.ParseUint(os.Getenv("GODWIT_SEED"), 10, 64); err == nil {
		seed = n
	}
	start := rand.New(rand.NewPCG(seed, 1))
	var total history.Result
	runs, lent, roots := 0, 0, 0
	for ; total.Commands < goal && !t.Failed(); runs++ {
		some := all[runs%len(all)]
		cfg := some[start.IntN(len(some))]
		crowd := history.Apart(seed+uint64(runs), 4+start.IntN(5), 30+start.IntN(80), runs/3%3 == 0)
		for _, r := range crowd[0].Roots {
			if roots++; r.Kind == history.UserMem {
				lent++
			}
		}
		res, err := history.RunCrowd(crowd, cfg)
		require.NoError(t, err, "seed %d on %s", seed+uint64(runs), cfg.Name)
		total.Add(res)
	}
	said := total.Failures(fmt.Sprintf("goroutines apart: first seed %d, %d histories, %d blocks evicted, %d of %d buffers over lent memory", seed, runs, total.Evictions, lent, roots))
	t.Log(said)
	if os.Getenv("GODWIT_SOAK") != "" {
		fmt.Println(said)
	}
	require.GreaterOrEqual(t, 10*lent, 3*roots)
	require.Positive(t, total.Evictions)
	require.Positive(t, total.Struck)
}
