package devicetest

import (
	"fmt"

	"godwit/devices"
	"godwit/internal/history"
)

// testHistories runs random histories of commands over a context of one or two of the
// devices, beside one flat memory: some in order and some not, in some of which what the
// program does fails.
func testHistories(e *env) {
	for seed := range uint64(8) {
		n := 1 + int(seed/2%2)
		cfg := history.Config{
			Name: fmt.Sprintf("%d of %s", n, e.dev.Info().Name), OutOfOrder: seed%2 == 1, Blind: !e.content,
			Open: func(*history.Faults) (devs []devices.Device, _ error) {
				for range n {
					devs = append(devs, e.open(e.t))
				}
				return devs, nil
			},
		}
		h := history.GenerateAligned(seed, 80, int(max(history.Align, e.dev.Info().BaseAlign)))
		if !e.kernels {
			h.WithoutLaunches()
		}
		if _, err := history.Run(h, cfg); err != nil {
			e.t.Fatal(history.Report(h, cfg, err))
		}
	}
}
