package scenario_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/study/scenario"
)

// objects are what random scenarios work on.
const objects = mixed + `
svm: [{name: v, size: 4 KiB}, {name: f, size: 4 KiB, flags: fine-grain}]
buffers:
- {name: a, size: 4 KiB, random: 1}
- {name: b, size: 4 KiB}
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
	maps int
}

func (w *writer) pick(words ...string) string { return words[w.IntN(len(words))] }

func (w *writer) place() string {
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
		return fmt.Sprintf("- {write: %s, %s, random: %d, %s}", w.place(), w.part(), i, common)
	case 1:
		return fmt.Sprintf("- {read: %s, %s, %s}", w.place(), w.part(), common)
	case 2:
		return fmt.Sprintf("- {fill: %s, %s, pattern: {short: %d}, %s}", w.place(), w.part(), i, common)
	case 3:
		return fmt.Sprintf("- {copy: %s, to: %s, %s, to-offset: %d, %s}", w.place(), w.place(), w.part(), w.IntN(2000), common)
	case 4:
		return fmt.Sprintf("- {copy: %s, to: %s, %s, %s}", w.place(), w.place(), w.rect("to-"), common)
	case 5:
		return fmt.Sprintf("- {write: %s, %s, random: %d, %s}", w.place(), w.rect("host-"), i, common)
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
		return fmt.Sprintf("- {launch: fill_i32, global: 16, args: [%s, {int: %d}, 128], %s}", w.arg(), i, common)
	}
	p := w.pick("v", "f")
	return w.pick("- {set: go}", "- {set: on}", "- {marker: q, id: c"+strconv.Itoa(i)+"}", "- {barrier: r, id: c"+strconv.Itoa(i)+"}", "- {free: "+p+", "+common+"}", "- {free: "+p+", now: true}", "- {alloc: "+p+"}")
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
	kinds := make(map[string]int)
	for seed := range runs {
		w := &writer{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		lines := strings.Split(objects, "\n")
		for i := range 80 {
			lines = append(lines, w.line(i))
		}
		lines = append(lines, "- {set: go}", "- {set: on}")
		for m := range w.maps {
			lines = append(lines, fmt.Sprintf("- {unmap: m%d}", m))
		}
		res, text := runWhatIsLegal(t, lines)
		require.True(t, res.OK(), "seed %d: %v\n%s", seed, res.Mismatches, text)
		require.Equal(t, res.BytesLowerBound, res.BytesMoved, "seed %d:\n%s", seed, text)
		for _, c := range res.Commands {
			kinds[c.Kind]++
		}
	}
	for _, kind := range []string{"write", "read", "copy", "fill", "launch", "migrate", "map", "unmap", "host-write", "host-read", "alloc", "free", "set"} {
		require.Positive(t, kinds[kind], kind)
	}
}

// runWhatIsLegal takes lines out until no rule is broken. A run that fails in
// another way ends the test.
func runWhatIsLegal(t *testing.T, lines []string) (*scenario.Result, string) {
	t.Helper()
	for {
		text := strings.Join(lines, "\n")
		s, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
		var res *scenario.Result
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // a wait for what never comes
			res, err = scenario.Run(ctx, s, scenario.RunOptions{})
			cancel()
		}
		if err == nil {
			return res, text
		}
		var bad scenario.Errors
		require.ErrorAs(t, err, &bad, "%s", text)
		require.Contains(t, lines[bad[0].Line-1], "- {", "%v", err)
		for i := len(bad) - 1; i >= 0; i-- {
			if line := bad[i].Line - 1; i == len(bad)-1 || bad[i+1].Line-1 != line {
				lines = append(lines[:line:line], lines[line+1:]...)
			}
		}
	}
}
