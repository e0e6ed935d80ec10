package icd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// figures is what testdata/bench.c prints.
type figures map[string]float64

func bench(t testing.TB, p platform, seconds string) figures {
	t.Helper()
	r := p.run(t, 3*time.Minute, "", compile(t, "bench"), p.part, "16777216", seconds)
	require.True(t, r.ok(), "bench on %s: %v", p.name, r)
	var f figures
	_, text, _ := strings.Cut(r.out, "\n") // the platform's name, on standard error
	require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&f), "%s", r.out)
	return f
}

// TestThreadsDoNotGrowWithCommandsInFlight: ten thousand commands that wait for
// one event need no more threads than ten.
func TestThreadsDoNotGrowWithCommandsInFlight(t *testing.T) {
	f := bench(t, on(1), "0.01")
	require.Positive(t, f["threads_at_10"])
	require.LessOrEqual(t, f["threads_at_10000"], f["threads_at_10"]+2)
}

// BenchmarkBesidePlainPoCL runs bench.c on plain PoCL and on Godwit in turns, three
// times each, and reports the medians' ratios: what Godwit takes over what PoCL
// takes, so that less is better. With -v it logs all figures.
func BenchmarkBesidePlainPoCL(b *testing.B) {
	need(b, "gcc")
	compile(b, "bench")
	for b.Loop() {
		runs := map[string][]figures{}
		for range 3 {
			for _, p := range []platform{plain(b, 1), on(1)} {
				runs[p.part] = append(runs[p.part], bench(b, p, "0.2"))
			}
		}
		pocl, godwit := middle(runs["Portable"]), middle(runs["Godwit"])
		for _, name := range []string{
			"ndrange_finish_us", "launch_us", "launch_with_args_us", "enqueue_us", "write_4_us", "write_1mib_us",
			"read_1mib_us", "buffer_us", "gated_write_us", "retain_ns",
		} {
			b.ReportMetric(godwit[name]/pocl[name], name+"/PoCL's")
		}
		for _, name := range []string{"write_gbs", "read_gbs", "copy_gbs", "triad_gbs", "gflops"} { // rates
			b.ReportMetric(pocl[name]/godwit[name], name+"/PoCL's")
		}
		b.ReportMetric(godwit["retain_ns"], "retain_ns")
		for name := range pocl {
			b.Logf("%-22s PoCL %10.3f  Godwit %10.3f  %.2f", name, pocl[name], godwit[name], godwit[name]/pocl[name])
		}
	}
}

// middle is the median of each figure.
func middle(runs []figures) figures {
	m := make(figures)
	for name := range runs[0] {
		var v []float64
		for _, r := range runs {
			v = append(v, r[name])
		}
		slices.Sort(v)
		m[name] = v[len(v)/2]
	}
	return m
}
