package history

import (
	"fmt"
	"maps"
	"slices"
)

// eachCall replays h on cfg once as it is, and then once for every call that a driver gets and
// every fault, with that call struck: at most cfg.EachCall calls of a kind, spread over all. It
// stops at the first run that fails, of which it returns the configuration, too.
func eachCall(h *History, cfg Config) (total Result, failed Config, err error) {
	most := cfg.EachCall
	cfg.EachCall, cfg.strike = 0, &strike{} // none: it counts
	plain, err := once(h, cfg)
	if err != nil {
		return plain, cfg, err
	}
	total.Add(plain)
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		n := plain.Calls[call]
		for k := 1; k <= n; k += max(1, n/most) {
			for f := faultRefused; f <= faultDone; f++ {
				one := cfg
				one.strike = &strike{call, k, f}
				one.Name = fmt.Sprintf("%s, %s %d of %d %v", cfg.Name, call, k, n, f)
				res, err := once(h, one)
				if total.Add(res); err != nil {
					return total, one, err
				}
			}
		}
	}
	return total, cfg, nil
}
