//go:build linux

package icd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// figures is what a program of testdata prints of what it measured.
type figures map[string]float64

// printed runs such a program.
func printed(t testing.TB, p platform, prog string, args ...string) (f figures) {
	t.Helper()
	r := p.run(t, 3*time.Minute, "", prog, args...)
	require.True(t, r.ok(), "%s on %s: %v", filepath.Base(prog), p.name, r)
	_, text, _ := strings.Cut(r.out, "\n") // the platform's name, on standard error
	require.NoError(t, json.NewDecoder(strings.NewReader(text)).Decode(&f), "%s", r.out)
	return f
}

// bench runs bench.c, and each of its parts for so many seconds.
func bench(t testing.TB, p platform, seconds string) figures {
	t.Helper()
	return printed(t, p, compile(t, "bench"), p.part, "16777216", seconds)
}

// TestThreadsDoNotGrowWithCommandsInFlight: ten thousand commands that wait for
// one event need no more threads than ten.
func TestThreadsDoNotGrowWithCommandsInFlight(t *testing.T) {
	f := bench(t, on(1), "0.01")
	require.Positive(t, f["threads_at_10"])
	require.LessOrEqual(t, f["threads_at_10000"], f["threads_at_10"]+2)
}

// BenchmarkBesidePlainPoCL runs bench.c on plain PoCL and on Godwit in turns.
func BenchmarkBesidePlainPoCL(b *testing.B) {
	inTurns(b, plain(b, 1), on(1), func(p platform) figures { return bench(b, p, "0.05") })
}

// BenchmarkSmallSteps is small.c on one device and on two. Think times are microseconds that the
// program does something else for between two steps: PoCL's own threads have just gone to sleep then.
func BenchmarkSmallSteps(b *testing.B) {
	prog := compile(b, "small")
	for _, n := range []int{1, 2} {
		for _, think := range []string{"0", "1", "10"} {
			b.Run(fmt.Sprintf("%d-devices/think=%sus", n, think), func(b *testing.B) {
				inTurns(b, plain(b, n), on(n), func(p platform) figures {
					return printed(b, p, prog, p.part, strconv.Itoa(n), "0.2", think)
				})
			})
		}
	}
}

// BenchmarkLaunches is lbench.c.
func BenchmarkLaunches(b *testing.B) {
	prog := compile(b, "lbench")
	inTurns(b, plain(b, 1), on(1), func(p platform) figures { return printed(b, p, prog, p.part) })
}

// BenchmarkReplay is replay.c, on a driver whose commands take no time and on PoCL: medians of as many runs as -benchtime asks for.
func BenchmarkReplay(b *testing.B) {
	prog := compile(b, "replay")
	for name, p := range map[string]platform{"no time": instant(b), "PoCL": on(4)} {
		for _, n := range []string{"1", "4"} {
			b.Run(name+"/"+n, func(b *testing.B) {
				var runs []figures
				for b.Loop() {
					runs = append(runs, printed(b, p.with("GODWIT_DEVICES=4"), prog, p.part, n))
				}
				for key := range runs[0] {
					b.ReportMetric(spread(runs, key)[1], key)
				}
			})
		}
	}
}

// inTurns runs a program that prints figures on two platforms in turns, as many rounds as
// -benchtime asks for (9x: nine), and reports the medians of the rounds' ratios: what Godwit takes
// over what PoCL takes, so that less is better. The two runs of a round come one after the other, so
// that what else the machine does bears on both. With -v it logs the medians of both, and the lowest
// and the highest ratio.
func inTurns(b *testing.B, plain, godwit platform, run func(platform) figures) {
	b.Helper()
	var pocl, ours, ratio []figures
	for b.Loop() {
		p, g := run(plain), run(godwit)
		r := make(figures)
		for name := range p {
			if r[name] = g[name] / p[name]; slices.Contains(rates, name) {
				r[name] = p[name] / g[name]
			}
		}
		pocl, ours, ratio = append(pocl, p), append(ours, g), append(ratio, r)
	}
	for _, name := range slices.Sorted(maps.Keys(pocl[0])) {
		r := spread(ratio, name)
		b.ReportMetric(r[1], name+"/PoCL's")
		b.Logf("%-22s PoCL %10.3f  Godwit %10.3f  %.2f of %.2f to %.2f", name, spread(pocl, name)[1], spread(ours, name)[1], r[1], r[0], r[2])
	}
}

// rates are the figures of which more is better.
var rates = []string{"write_gbs", "read_gbs", "copy_gbs", "triad_gbs", "gflops"}

// spread is the lowest, the median and the highest of a figure.
func spread(runs []figures, name string) [3]float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, r[name])
	}
	slices.Sort(v)
	return [3]float64{v[0], v[len(v)/2], v[len(v)-1]}
}
