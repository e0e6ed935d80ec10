package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"godwit/internal/input"
	"godwit/study/alloc/replay"
)

// gate is what --fail-over and --baseline ask of results. The yardsticks beside the
// strategies (offline, recorded) are not judged.
type gate struct {
	over     float64 // 0: no limit
	baseline map[gateKey]replay.Result
	judged   map[gateKey]bool
}

type gateKey struct {
	trace, strategy string
	align           uint64
}

func (k gateKey) compare(o gateKey) int {
	return cmp.Or(cmp.Compare(k.trace, o.trace), cmp.Compare(k.strategy, o.strategy), cmp.Compare(k.align, o.align))
}

func keyOf(r *replay.Result) gateKey { return gateKey{r.Trace, r.Strategy, r.Align} }

func judgedRow(r *replay.Result) bool {
	return r.Strategy != replay.OfflineName && r.Strategy != replay.RecordedName
}

// maxBaseline is how many bytes of a baseline are read.
const maxBaseline = 64 << 20

// newGate is the gate that the flags ask for; nil for none. It fails for what would let
// everything pass: a limit below 1, a baseline without results.
func (f *replayFlags) newGate(ctx context.Context, overGiven bool) (*gate, error) {
	if !overGiven && f.baseline == "" {
		return nil, nil
	}
	if f.region != "min" {
		return nil, errors.New("--fail-over and --baseline judge the smallest and the safe region: without --region")
	}
	g := &gate{judged: make(map[gateKey]bool)}
	if overGiven {
		if g.over = f.failOver; !(g.over >= 1) {
			return nil, fmt.Errorf("--fail-over %v: want 1 or more: no region is smaller than the peak", f.failOver)
		}
	}
	if f.baseline == "" {
		return g, nil
	}
	text, err := input.ReadFile(ctx, f.baseline, maxBaseline)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	var was replayOutput
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, fmt.Errorf("--baseline %s: not what godwit replay --json prints: %w", f.baseline, err)
	}
	g.baseline = make(map[gateKey]replay.Result)
	for i := range was.Results {
		r := was.Results[i]
		if !judgedRow(&r) {
			continue
		}
		if _, twice := g.baseline[keyOf(&r)]; twice {
			return nil, fmt.Errorf("--baseline %s: %s, %s is in it twice", f.baseline, r.Trace, r.Strategy)
		}
		g.baseline[keyOf(&r)] = r
	}
	if len(g.baseline) == 0 {
		return nil, fmt.Errorf("--baseline %s: no result of a strategy in it", f.baseline)
	}
	return g, nil
}

// judge says on a line of w what it finds of every trace and strategy, and fails where
// one fails, where the baseline has one that was not run, and where there is none.
func (g *gate) judge(w io.Writer, results []replay.Result) error {
	bad := 0
	say := func(verdict, trace, strategy, text string) {
		if verdict != "ok" {
			bad++
		}
		_, _ = fmt.Fprintf(w, "%-4s %s, %s: %s\n", verdict, trace, strategy, text) // as every table
	}
	for i := range results {
		r := &results[i]
		if !judgedRow(r) {
			continue
		}
		text := fmt.Sprintf("safe %s, smallest %s", orDash(float64(r.Safe)), orDash(float64(r.Overhead)))
		if why := g.fails(r); why != "" {
			say("FAIL", r.Trace, r.Strategy, text+": "+why)
		} else {
			say("ok", r.Trace, r.Strategy, text)
		}
		if g.judged[keyOf(r)] && g.baseline != nil {
			say("FAIL", r.Trace, r.Strategy, "it was run twice, and the baseline has one")
		}
		g.judged[keyOf(r)] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.baseline), gateKey.compare) {
		if was := g.baseline[key]; !g.judged[key] {
			say("FAIL", was.Trace, was.Strategy, fmt.Sprintf("in the baseline with alignment %d, and was not run", was.Align))
		}
	}
	if len(g.judged) == 0 {
		return errors.New("--fail-over, --baseline: no strategy was run that could be judged")
	}
	if bad > 0 {
		return failed{fmt.Errorf("%d of %d traces and strategies fail", bad, max(len(results), bad))}
	}
	return nil
}

func orDash(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}

// fails says why a result fails; "" for one that passes.
func (g *gate) fails(r *replay.Result) string {
	switch worst := max(float64(r.Safe), float64(r.Overhead)); {
	case r.Fault != nil:
		return r.Fault.Error()
	case r.Overhead == 0:
		return "never fits"
	case g.over > 0 && worst > g.over:
		return fmt.Sprintf("over %v", g.over)
	}
	if g.baseline == nil {
		return ""
	}
	was, known := g.baseline[keyOf(r)]
	switch {
	case !known:
		return fmt.Sprintf("with alignment %d not in the baseline", r.Align)
	case was.PeakLive != r.PeakLive || was.Ops != r.Ops:
		return fmt.Sprintf("the baseline is of another trace: %d operations with a peak of %d bytes, not %d and %d", was.Ops, was.PeakLive, r.Ops, r.PeakLive)
	case was.Overhead > 0 && r.MinRegion > was.MinRegion:
		return fmt.Sprintf("the smallest region grew from %d to %d bytes", was.MinRegion, r.MinRegion)
	case was.SafeRegion > 0 && r.SafeRegion == 0:
		return "the baseline has a safe region"
	case was.SafeRegion > 0 && r.SafeRegion > was.SafeRegion:
		return fmt.Sprintf("the safe region grew from %d to %d bytes", was.SafeRegion, r.SafeRegion)
	}
	return ""
}
