package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/yaml"
	"godwit/study/machine"
	"godwit/study/scenario"
)

// objects are what random scenarios work on.
const objects = mixed + `
svm: [{name: v, size: 4 KiB}, {name: f, size: 4 KiB, flags: fine-grain}]
buffers:
- {name: a, size: 4 KiB, random: 1}
- {name: b, size: 4 KiB}
- {name: p, size: 4 KiB, count: 2, random: 3}
- {name: k, size: 4 KiB, count: 2}
- {name: u, size: 4 KiB, random: 2, flags: use-host-ptr}
- {name: h, size: 4 KiB, flags: host-no-access}
- {name: w, over: v, offset: 1 KiB, size: 2 KiB}
sub-buffers: [{name: s, of: a, offset: 1 KiB, size: 2 KiB}, {name: t, of: a, offset: 2 KiB}, {name: x, of: w, offset: 1 KiB}]
queues: [{name: q, device: left, order: out}, {name: r, device: right, order: out}, {name: n, device: near, order: out}]
events: [go, on]
commands:
`

// writer makes random scenarios, line by line.
type writer struct {
	*rand.Rand
	maps  int
	graph bool // the command is in one
}

func (w *writer) pick(words ...string) string { return words[w.IntN(len(words))] }

func (w *writer) place() string {
	if w.graph && w.IntN(2) == 0 {
		return w.pick(`"p{i % 2}"`, `"p{(i + 1) % 2}"`, "p0", "k0", "k1")
	}
	return w.pick("a", "b", "u", "h", "s", "t", "w", "x", "v", "f", "a", "b")
}

func (w *writer) part() string {
	off := 64 * w.IntN(40)
	return fmt.Sprintf("offset: %d, size: %d", off, 64*(1+w.IntN(20)))
}

func (w *writer) rect(end string) string {
	return fmt.Sprintf("size: %d, rows: %d, slices: %d, pitch: 64, slice-pitch: 640, offset: %d, %spitch: 96, %sslice-pitch: 960, %soffset: %d",
		1+w.IntN(64), 1+w.IntN(9), 1+w.IntN(3), w.IntN(300), end, end, end, w.IntN(300))
}

// line is one command; it may break rules.
func (w *writer) line(i int) string {
	value := strconv.Itoa(i)
	if w.graph {
		value = w.pick(value, "i")
	}
	common := fmt.Sprintf("queue: %s, id: c%d", w.pick("left", "right", "near", "host", "q", "r", "n"), i)
	if after := w.IntN(max(i, 1)); w.IntN(4) == 0 && i > 0 {
		common += fmt.Sprintf(", after: [%s]", w.pick("go", "on", fmt.Sprintf("c%d", after)))
	}
	if w.IntN(6) == 0 {
		common += ", callbacks: [complete, submitted]"
	}
	m := fmt.Sprintf("m%d", w.IntN(max(w.maps, 1)))
	switch w.IntN(17) {
	case 0:
		return fmt.Sprintf("- {write: %s, %s, random: %s, %s}", w.place(), w.part(), value, common)
	case 1:
		return fmt.Sprintf("- {read: %s, %s, %s}", w.place(), w.part(), common)
	case 2:
		return fmt.Sprintf("- {fill: %s, %s, pattern: {short: %d}, %s}", w.place(), w.part(), i, common)
	case 3:
		return fmt.Sprintf("- {copy: %s, to: %s, %s, to-offset: %d, %s}", w.place(), w.place(), w.part(), w.IntN(2000), common)
	case 4:
		return fmt.Sprintf("- {copy: %s, to: %s, %s, %s}", w.place(), w.place(), w.rect("to-"), common)
	case 5:
		return fmt.Sprintf("- {write: %s, %s, random: %s, %s}", w.place(), w.rect("host-"), value, common)
	case 6:
		return fmt.Sprintf("- {read: %s, %s, %s}", w.place(), w.rect("host-"), common)
	case 7, 8:
		w.maps++
		return fmt.Sprintf("- {map: %s, %s, as: m%d, flags: %s, blocking: %v, %s}", w.place(), w.part(), w.maps-1, w.pick("read", "write", "[read, write]", "write-invalidate"), w.IntN(3) == 0, common)
	case 9:
		return fmt.Sprintf("- {unmap: %s, %s}", m, common)
	case 10, 11:
		return fmt.Sprintf("- {host-write: %s, offset: %d, size: 64, random: %d, %s}", w.pick(m, m, "f"), 64*w.IntN(4), i, common)
	case 12:
		return fmt.Sprintf("- {host-read: %s, %s}", w.pick(m, m, "f"), common)
	case 13:
		return fmt.Sprintf("- {migrate: %s, to: %s, content: %s, %s}", w.place(), w.pick("device", "host"), w.pick("kept", "kept", "undefined"), common)
	case 14:
		return fmt.Sprintf("- {launch: copy, global: 32, args: [%s, {%s, offset: 0, size: 512, access: write}, 512], %s}", w.arg(), w.arg(), common)
	case 15:
		// Arithmetic is left out: what it makes of undefined bytes may look defined.
		return fmt.Sprintf("- {launch: fill_i32, global: 16, args: [%s, {int: %s}, 128], %s}", w.arg(), value, common)
	}
	p := w.pick("v", "f")
	return w.pick("- {set: go}", "- {set: on}", "- {marker: q, id: c"+strconv.Itoa(i)+"}", "- {barrier: r, id: c"+strconv.Itoa(i)+"}", "- {free: "+p+", "+common+"}", "- {free: "+p+", now: true}", "- {alloc: "+p+"}")
}

// block is a repeat of some commands that is a graph.
func (w *writer) block(i, n int) []string {
	w.graph = true
	defer func() { w.graph = false }()
	lines := []string{fmt.Sprintf("- repeat: %d", 1+w.IntN(4)), "  as: i", "  graph: true", w.pick("  transient: [k0, k1]", "  transient: [k0]", "  transient: []"), "  do:"}
	for k := range n {
		if line := w.line(i + k); !strings.HasPrefix(line, "- {set") { // which then would be missing elsewhere
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

// arg is a buffer or a pointer as an argument.
func (w *writer) arg() string {
	p := w.place()
	if p == "v" || p == "f" {
		return fmt.Sprintf("{svm: %s, at: %d, offset: 0, size: 512}", p, 512*w.IntN(7))
	}
	return fmt.Sprintf("{buffer: %s}", p)
}

// TestRandomScenarios runs what is left of random commands once those that break
// rules, of the language or of the runtime, are taken out: every byte, and the
// bytes moved, must be right.
func TestRandomScenarios(t *testing.T) {
	runs := 20
	if os.Getenv("GODWIT_SOAK") != "" {
		runs = 300
	}
	kinds, graphs, plain := make(map[string]int), 0, 0
	for seed := range runs {
		w := &writer{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		lines := strings.Split(objects, "\n")
		for i := 0; i < 80; i++ {
			if w.IntN(12) == 0 {
				n := 2 + w.IntN(8)
				lines, i = append(lines, w.block(i, n)...), i+n-1
				continue
			}
			lines = append(lines, w.line(i))
		}
		lines = append(lines, "- {set: go}", "- {set: on}")
		for m := range w.maps {
			lines = append(lines, fmt.Sprintf("- {unmap: m%d}", m))
		}
		res, text := runWhatIsLegal(t, slices.Clone(lines), scenario.RunOptions{})
		require.True(t, res.OK(), "seed %d: %v\n%s", seed, res.Mismatches, text)
		if seed%4 == 0 {
			inVirtualTime(t, seed, lines)
		}
		require.Equal(t, res.BytesLowerBound, res.BytesMoved, "seed %d:\n%s", seed, text)
		for _, c := range res.Commands {
			kinds[c.Kind]++
		}
		for _, g := range res.Graphs {
			graphs, plain = graphs+g.Rounds, plain+int(g.Plain)
			if g.Period > 0 && g.Rounds > 2*g.Period && g.Plain == 0 {
				require.Equal(t, g.BytesBound, g.BytesSteady, "seed %d: graph of line %d:\n%s", seed, g.Line, text)
			}
		}
	}
	require.Greater(t, graphs, 2*plain)
	require.Positive(t, plain)
	for _, kind := range []string{"write", "read", "copy", "fill", "launch", "migrate", "map", "unmap", "host-write", "host-read", "alloc", "free", "set"} {
		require.Positive(t, kinds[kind], kind)
	}
}

// runWhatIsLegal takes lines out until no rule is broken. A run that fails in
// another way ends the test.
func runWhatIsLegal(t *testing.T, lines []string, how scenario.RunOptions) (*scenario.Result, string) {
	t.Helper()
	for {
		text := strings.Join(lines, "\n")
		s, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
		var res *scenario.Result
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // a wait for what never comes
			res, err = scenario.Run(ctx, s, how)
			cancel()
		}
		if err == nil {
			return res, text
		}
		var bad scenario.Errors
		require.ErrorAs(t, err, &bad, "%s", text)
		for i := len(bad) - 1; i >= 0; i-- {
			if i == len(bad)-1 || bad[i+1].Line != bad[i].Line {
				lines = without(t, lines, bad[i])
			}
		}
	}
}

// without are lines without that of an error; where a repeat is at fault, without all of it.
func without(t *testing.T, lines []string, bad *yaml.Error) []string {
	t.Helper()
	from := bad.Line - 1
	if strings.Contains(lines[from], "- {") {
		return append(lines[:from:from], lines[from+1:]...)
	}
	for strings.HasPrefix(lines[from], " ") {
		from--
	}
	require.Contains(t, lines[from], "- repeat", "%v", bad)
	to := from + 1
	for strings.HasPrefix(lines[to], " ") {
		to++
	}
	return append(lines[:from:from], lines[to:]...)
}

// inVirtualTime runs what is legal of a scenario on a machine, which has no fine-grained memory: all bytes must be right there, too.
func inVirtualTime(t *testing.T, seed int, lines []string) {
	t.Helper()
	m, err := machine.Named("gpux4-switch", machine.Options{Devices: 3})
	require.NoError(t, err)
	coarse := strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), ", flags: fine-grain", ""), "\n")
	res, text := runWhatIsLegal(t, coarse, scenario.RunOptions{Machine: m, Seed: uint64(seed)})
	require.True(t, res.OK(), "seed %d: %v\n%s", seed, res.Mismatches, text)
}
