//go:build linux

package icd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// benchRounds is how often each platform has its turn.
const benchRounds = 9

// BenchmarkBesidePlainPoCL runs bench.c on plain PoCL and on Godwit in turns and
// reports medians of the rounds' ratios: what Godwit takes over what PoCL takes, so
// that less is better. The two runs of a round come one after the other, so that
// what else the machine does bears on both. With -v it logs all figures, with the
// lowest and the highest ratio.
func BenchmarkBesidePlainPoCL(b *testing.B) {
	need(b, "gcc")
	compile(b, "bench")
	rates := []string{"write_gbs", "read_gbs", "copy_gbs", "triad_gbs", "gflops"}
	for b.Loop() {
		var pocl, godwit, ratio []figures
		for range benchRounds {
			p, g := bench(b, plain(b, 1), "0.05"), bench(b, on(1), "0.05")
			r := make(figures)
			for name := range p {
				if r[name] = g[name] / p[name]; slices.Contains(rates, name) {
					r[name] = p[name] / g[name]
				}
			}
			pocl, godwit, ratio = append(pocl, p), append(godwit, g), append(ratio, r)
		}
		for _, name := range append([]string{
			"ndrange_finish_us", "launch_us", "launch_with_args_us", "enqueue_us", "write_4_us", "write_1mib_us",
			"read_1mib_us", "buffer_us", "gated_write_us", "retain_ns",
		}, rates...) {
			b.ReportMetric(spread(ratio, name)[1], name+"/PoCL's")
		}
		b.ReportMetric(spread(godwit, "retain_ns")[1], "retain_ns")
		for _, name := range slices.Sorted(maps.Keys(pocl[0])) {
			r := spread(ratio, name)
			b.Logf("%-22s PoCL %10.3f  Godwit %10.3f  %.2f of %.2f to %.2f", name, spread(pocl, name)[1], spread(godwit, name)[1], r[1], r[0], r[2])
		}
	}
}

// BenchmarkSmallSteps is testdata/small.c on plain PoCL and on Godwit in turns, on one device and on
// two, as BenchmarkBesidePlainPoCL has it. Think times are microseconds that the program does
// something else for between two steps: PoCL's own threads have just gone to sleep then.
func BenchmarkSmallSteps(b *testing.B) {
	need(b, "gcc")
	prog := compile(b, "small")
	for b.Loop() {
		for _, n := range []int{1, 2} {
			for _, think := range []string{"0", "1", "10"} {
				inTurns(b, fmt.Sprintf("%d devices, %2s us between", n, think), plain(b, n), on(n), prog, strconv.Itoa(n), "0.2", think)
			}
		}
	}
}

// BenchmarkLaunches is testdata/lbench.c in the same way.
func BenchmarkLaunches(b *testing.B) {
	need(b, "gcc")
	prog := compile(b, "lbench")
	for b.Loop() {
		inTurns(b, "launches", plain(b, 1), on(1), prog)
	}
}

// inTurns runs a program that prints figures on two platforms in turns, and logs the medians of each
// and of their ratios, with the lowest and the highest.
func inTurns(b *testing.B, what string, plain, godwit platform, prog string, args ...string) {
	b.Helper()
	once := func(p platform) (f figures) {
		r := p.run(b, time.Minute, "", prog, append([]string{p.part}, args...)...)
		require.True(b, r.ok(), "%v", r)
		_, text, _ := strings.Cut(r.out, "\n")
		require.NoError(b, json.NewDecoder(strings.NewReader(text)).Decode(&f), "%s", r.out)
		return f
	}
	var pocl, ours, ratio []figures
	for range benchRounds {
		p, g := once(plain), once(godwit)
		r := make(figures)
		for name := range p {
			r[name] = g[name] / p[name]
		}
		pocl, ours, ratio = append(pocl, p), append(ours, g), append(ratio, r)
	}
	for _, name := range slices.Sorted(maps.Keys(pocl[0])) {
		r := spread(ratio, name)
		b.ReportMetric(r[1], strings.ReplaceAll(what, " ", "_")+"/"+name)
		b.Logf("%s: %-16s PoCL %8.2f  Godwit %8.2f  %.2f of %.2f to %.2f", what, name, spread(pocl, name)[1], spread(ours, name)[1], r[1], r[0], r[2])
	}
}

// spread is the lowest, the median and the highest of a figure.
func spread(runs []figures, name string) [3]float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, r[name])
	}
	slices.Sort(v)
	return [3]float64{v[0], v[len(v)/2], v[len(v)-1]}
}

// middle is the median of each figure.
func middle(runs []figures) figures {
	m := make(figures)
	for name := range runs[0] {
		m[name] = spread(runs, name)[1]
	}
	return m
}
