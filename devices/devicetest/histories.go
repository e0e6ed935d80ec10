package devicetest

import (
	"fmt"

	"godwit/devices"
	"godwit/internal/history"
)

// testHistories runs random histories of commands over a context of one to three of the
// devices, beside one flat memory: some in order and some not, in some of which what the
// program does fails. Bytes go from device to device by the peers' copies, over links where
// there are some, or through the host, and every third history has buffers of a MiB.
func testHistories(e *env) {
	w, linked := e.dev.(devices.Windowed)
	linked = linked && w.Windows(e.ctx, e.openDevice()) == nil
	for seed := range uint64(9) {
		n := 1 + int(seed/2%3)
		cfg := history.Config{
			Name: fmt.Sprintf("%d of %s", n, e.dev.Info().Name), OutOfOrder: seed%2 == 1, Blind: !e.content,
			NoPeer: seed%4 > 1, Links: linked && n > 1 && seed%4 < 2,
			Open: func(*history.Faults) (devs []devices.Device, _ error) {
				for range n {
					devs = append(devs, e.open(e.t))
				}
				return devs, nil
			},
		}
		align, length := int(max(history.Align, e.dev.Info().BaseAlign)), 80
		if seed%3 == 2 {
			align, length, cfg.Chunk = max(align, 32<<10), 15, 100_000
		}
		h := history.GenerateAligned(seed, length, align)
		if !e.kernels {
			h.WithoutLaunches()
		}
		if _, err := history.Run(h, cfg); err != nil {
			e.t.Fatal(history.Report(h, cfg, err))
		}
	}
}
