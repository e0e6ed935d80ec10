package history

import (
	"fmt"
	"slices"
)

// Every replays h on cfg once as it is, and then once for every call that a driver gets
// and every fault, with that call struck: at most most calls of a kind, spread over all.
// It stops at the first run that fails, of which it returns the configuration, too.
func Every(h *History, cfg Config, most int) (total Result, runs int, failed Config, err error) {
	cfg.Strike = &Strike{} // none: it counts
	plain, err := Run(h, cfg)
	if err != nil {
		return plain, 1, cfg, err
	}
	for _, call := range Calls() {
		n := plain.Calls[call]
		for k := 1; k <= n; k += max(1, n/most) {
			for f := Refused; f <= Done; f++ {
				one := cfg
				one.Strike = &Strike{call, k, f}
				one.Name = fmt.Sprintf("%s, %s %d of %d %v", cfg.Name, call, k, n, f)
				res, err := Run(h, one)
				total.Add(res)
				if runs++; err != nil {
					return total, runs, one, err
				}
			}
		}
	}
	return total, runs, cfg, nil
}

// GenerateRich draws a history of n operations that has maps, shared virtual memory,
// rectangles and content sizes: the first after seed.
func GenerateRich(seed uint64, n int) *History {
	for ; ; seed++ {
		h := Generate(seed, n)
		has := func(kinds ...Kind) bool {
			return slices.ContainsFunc(h.Ops, func(op Op) bool { return slices.Contains(kinds, op.Kind) })
		}
		svm := slices.ContainsFunc(h.Roots, func(r Root) bool { return r.Kind == SVM || r.Kind == FineSVM })
		if svm && has(Map) && has(WriteRect, ReadRect) && has(CopyRect) && has(Count) && has(CountBy) && has(Renew, FreePointer) {
			return h
		}
	}
}
