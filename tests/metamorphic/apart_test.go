package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/tce"
	"godwit/internal/history"
	"godwit/mem"
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
// soon as it may be (C13): a touch after that ends the process, or a command of the run.
func TestGoroutinesThatComeAndGoBesideOthers(t *testing.T) {
	all := [][]history.Config{configs(), faultyConfigs(), lateConfigs(), virtualConfigs()}
	total := history.Test(t, 6000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		some := all[dice.IntN(len(all))]
		d := history.Draw{Seed: seed, Goroutines: 4 + dice.IntN(5), Ops: 30 + dice.IntN(80), Failing: dice.IntN(3) == 0}
		return history.Generate(d), some[dice.IntN(len(some))]
	})
	require.GreaterOrEqual(t, 10*total.Lent, 3*total.Roots)
	require.Positive(t, total.Evictions)
	require.Positive(t, total.Struck)
}

// TestGoroutinesOverSharedBuffersAgreeWithTheOrderOfTheirCommands has several
// goroutines enqueue over the same buffers and queues.
func TestGoroutinesOverSharedBuffersAgreeWithTheOrderOfTheirCommands(t *testing.T) {
	all := configs()
	history.Test(t, 2000, func(seed uint64, dice *rand.Rand) (*history.History, history.Config) {
		d := history.Draw{Seed: seed, Goroutines: 4, Shared: true, Ops: 60, Failing: seed%3 == 0}
		return history.Generate(d), all[dice.IntN(len(all))]
	})
}
