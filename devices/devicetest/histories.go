package devicetest

import (
	"fmt"
	"math/rand/v2"

	"godwit/devices"
	"godwit/internal/history"
)

// testHistories runs random histories of commands over a context of one to three of the
// devices, beside one flat memory: some in order and some not, in some of which what the
// program does fails, or is replayed. Bytes go from device to device by the peers' copies, over links where
// there are some, or through the host, and some histories have buffers of up to a MiB.
func testHistories(e *env) {
	w, linked := e.dev.(devices.Windowed)
	linked = linked && w.Windows(e.ctx, e.openDevice()) == nil
	history.Test(e.t, 400, func(seed uint64, _ *rand.Rand) (*history.History, history.Config) {
		n := 1 + int(seed/2%3)
		cfg := history.Config{
			Name: fmt.Sprintf("%d of %s", n, e.dev.Info().Name), OutOfOrder: seed%2 == 1, Blind: !e.content, Graphs: seed/4%2 == 1,
			NoPeer: seed%4 > 1, Links: linked && n > 1 && seed%4 < 2,
			Open: func(*history.Faults) (devs []devices.Device, _ error) {
				for range n {
					devs = append(devs, e.open(e.t))
				}
				return devs, nil
			},
		}
		d := history.Draw{Seed: seed, Ops: 80, Align: int(max(history.Align, e.dev.Info().BaseAlign)), NoLaunches: !e.kernels}
		if seed%3 == 2 {
			d.Align, d.Ops = max(d.Align, 8<<10), 15
			if seed%9 == 2 { // a MiB costs the model most of the time
				d.Align = max(d.Align, 32<<10)
			}
			cfg.Chunk = uint64(3*d.Align + 1000)
		}
		return history.Generate(d), cfg
	})
}
