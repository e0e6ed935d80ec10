package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const small = "devices: [{name: l, driver: cpu, memory: 1 MiB}]\nbuffers:\n- {name: a, size: 4096, ramp: uint}\n"

// billion is ten to the n-th commands out of n lines.
func billion(n int) string {
	var b strings.Builder
	b.WriteString(small + "commands:\n- &c0 {fill: a, pattern: 1}\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "- &c%d {repeat: 10, do: [%s]}\n", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*c%d,", i-1), 10), ","))
	}
	return b.String()
}

// Little text that asks for much: it is refused after a bounded number of steps,
// which are counted, and so at the same place on every machine. The bounds of steps and of
// commands are a twentieth of what they are outside of tests, but where GODWIT_SOAK is set.
func TestWhatIsReadIsBounded(t *testing.T) {
	steps, commands := Limits()["steps"], Limits()["commands"]
	if os.Getenv("GODWIT_SOAK") == "" {
		steps, commands = steps/20, commands/20
	}
	list := func(n int, item func(i int) string) string {
		var out []string
		for i := range n {
			out = append(out, item(i))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty rounds": {small + "commands:\n- {repeat: 100000, do: [{repeat: 100000, do: [{repeat: 100000, do: [{repeat: 0, do: [{fill: a, pattern: 3}]}]}]}]}", "too much to read"},
		"aliases":      {billion(7), fmt.Sprint("commands: more than ", commands)},
		"a wait list in a repeat": {small + "commands:\n- {fill: a, pattern: 1, id: x}\n- {repeat: 90000, do: [{fill: a, pattern: 1, after: " +
			list(2000, func(int) string { return "x" }) + "}]}", "too much to read"},
		"maps and rows": {"devices: [{name: l, driver: cpu, memory: 1 GiB}]\nbuffers: [{name: a, size: 1 MiB, ramp: uint}, {name: b, size: 1 MiB}]\ncommands:\n- {repeat: 5000, as: i, do: [{map: a, as: \"m{i}\", flags: read, offset: i, size: 1}]}\n" +
			"- {repeat: 90000, do: [{copy: a, to: b, size: 1, rows: 4000, pitch: 2}]}", "too much to read"},
		"names":               {small + "sub-buffers: " + list(25, func(i int) string { return fmt.Sprintf("{name: p%d_, of: a, parts: 4096, align: 1}", i) }) + "\ncommands: []", "sub-buffers: more than 100000"},
		"devices":             {"devices:\n- {name: d, driver: cpu, count: 9000}\n- {name: e, driver: cpu, count: 9000}\n", "want at most 16384 devices in all"},
		"buffers":             {"devices: [{name: l, driver: cpu}]\nbuffers: [{name: a, size: 4, count: 60000}, {name: b, size: 4, count: 60000}]\ncommands: []", "buffers: more than 100000"},
		"faults":              {small + "commands: " + list(5000, func(i int) string { return fmt.Sprintf("\n{fill: a, p%d: 1}", i) }), "and 81 more"},
		"depth":               {"devices: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "nested more than 64 deep"},
		"length":              {strings.Repeat("#", 1<<19+1), "want at most 524288"},
		"numbers":             {"let: {a: " + strings.Repeat("(", 100_000) + "1}\n" + small + "commands: []", "nested too deep"},
		"sums of a long list": {"let: {l: " + list(9000, func(int) string { return "1" }) + "}\n" + small + "commands: [{repeat: 90000, do: [{fill: a, size: \"min(sum(l), 4096)\", pattern: 1}]}]", "too much to read"},
		"lists that double":   {"let: {a: [1, 2], b: a + a + a + a + a + a + a + a, c: b + b + b + b + b + b + b + b, d: c + c + c + c + c + c + c + c, e: d + d + d + d + d + d + d + d, f: e + e + e + e + e + e + e + e}\n" + small + "commands: []", "lists of more than 10000 elements"},
		"a word of words":     {"params: {s: {type: string, default: " + strings.Repeat("x", 60_000) + "}}\ndevices: [{name: l, driver: \"" + strings.Repeat("{s}", 60_000) + "\"}]", "longer than 65536 bytes"},
		"values of a list":    {"params: {l: {type: list, default: " + list(9000, func(i int) string { return "7" }) + ", values: " + list(9000, func(i int) string { return fmt.Sprint(i + 8) }) + "}}\n" + small + "commands: []", "too much to read"},
		"parameters": {"params:\n" + func() string {
			var b strings.Builder
			for i := range 1200 {
				fmt.Fprintf(&b, "  p%d: {type: integer, default: 1}\n", i)
			}
			return b.String()
		}() + small + "commands: []", "params: more than 1000"},
		"an alias of itself":      {"params: &p {n: *p}\nlet: &l {x: *l, y: &y [*y]}\n" + small + "commands: []", "type is missing"},
		"aliases of aliases":      {"let:\n  a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n  b: &b [*a, *a]\n" + small + "commands: []", "want a word, not a list"},
		"1e18 of everything":      {"let: {n: 1e18}\ndevices: [{name: l, driver: cpu}]\nsvm: [{name: s, size: 1, count: n}]\nbuffers: [{name: a, size: 4, count: n}]\ncommands: [{repeat: n, do: [{fill: a0, pattern: 1}]}]", "more than"},
		"a size near 2^63":        {"devices: [{name: l, driver: cpu, memory: 1 MiB}]\nbuffers:\n- {name: a, size: 9223372036854775807, ramp: uint}\ncommands:\n- {read: a}", "more than the 4 GiB"},
		"a huge host offset":      {small + "commands:\n- {read: a, size: 1, rows: 2, host-offset: 4611686018427387904}", "more than the 4 GiB"},
		"a huge host pitch":       {small + "commands:\n- {read: a, size: 1, rows: 4096, host-pitch: 1 GiB, host-slice-pitch: 1 GiB}", "slice-pitch"},
		"work-items":              {small + "commands:\n- {launch: fill, global: 4611686018427387904, args: [a, 1.0, 1]}", "global is [4611686018427387904]: with all launches before it that is more than 1073741824 work-items"},
		"work-items in a product": {small + "commands:\n- {launch: fill, global: [4294967296, 4294967296], args: [a, 1.0, 1]}", "global is [4294967296 4294967296]: with all"},
		"many sizes":              {small + fmt.Sprintf("commands: [{repeat: %d, do: [{repeat: 20, do: [{read: a, size: 4000}]}]}]", commands/10*9), fmt.Sprint("commands: more than ", commands)},
		"a fill of everything":    {small + "commands: [{write: a, size: 1, rows: 1048576, pitch: 1 TiB, host-slice-pitch: 1 TiB, slices: 1048576, fill: 1}]", "slice"},
	} {
		t.Run(name, func(t *testing.T) {
			opt := Options{Limits: map[string]int{"steps": steps}}
			if strings.HasPrefix(c.want, "commands:") {
				opt = Options{Limits: map[string]int{"commands": commands}}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(t.Context(), "s.yaml", []byte(c.text), opt)
			runtime.ReadMemStats(&after)
			var bad Errors
			require.ErrorAs(t, err, &bad)
			require.Contains(t, err.Error(), c.want)
			require.LessOrEqual(t, len(bad), maxErrors+1)
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(2048), "MiB allocated in all")
		})
	}
}

func TestLimitsAreRaisedByName(t *testing.T) {
	for limit, c := range map[string]struct {
		text string
		asks int
	}{
		"commands": {small + "commands: [{repeat: 10, do: [{read: a, size: 1}]}]", 10},
		"devices":  {"devices: [{name: l, driver: cpu, count: 3}]\nbuffers: [{name: a, size: 4}]\ncommands: []", 3},
		"objects":  {small + "events: [x, y, z]\ncommands: [{set: x}, {set: y}, {set: z}]", 3},
		"items":    {small + "commands: [{launch: fill, global: 8, args: [a, 1.0, 8]}]", 8},
	} {
		_, err := Parse(t.Context(), "s.yaml", []byte(c.text), Options{Limits: map[string]int{limit: c.asks}})
		require.NoError(t, err)
		_, err = Parse(t.Context(), "s.yaml", []byte(c.text), Options{Limits: map[string]int{limit: c.asks - 1}})
		require.ErrorContains(t, err, fmt.Sprintf("%d", c.asks-1))
		require.ErrorContains(t, err, "(--limit "+limit+"=N)")
	}
}

func TestTheMemoryOfAScenarioIsTheCallersToSay(t *testing.T) {
	text := []byte("devices: [{name: l, driver: cpu}]\nbuffers: [{name: a, size: 1 MiB, fill: 1}, {name: b, size: 1 MiB}]\ncommands: [{read: a, size: 1 KiB}]")
	_, err := Parse(t.Context(), "s.yaml", text, Options{Memory: 2<<20 + 1<<10})
	require.NoError(t, err)
	_, err = Parse(t.Context(), "s.yaml", text, Options{Memory: 2<<20 + 1023})
	require.ErrorContains(t, err, "s.yaml:3: read: 1 KiB; with all before it that is more than")
}

// A file that many commands write is read once.
func TestAFileIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Parse(t.Context(), filepath.Join(dir, "s.yaml"), []byte("devices: [{name: l, driver: cpu}]\nbuffers: [{name: a, size: 1 MiB}]\ncommands: [{repeat: 2000, do: [{write: a, file: f}]}]"), Options{})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(150), "MiB")
}

func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Parse(ctx, "s.yaml", []byte(billion(4)), Options{})
	require.ErrorIs(t, err, context.Canceled)
	var bad Errors
	require.NotErrorAs(t, err, &bad)
	_, err = Load(ctx, "../../examples/pingpong.yaml", Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// A buffer that no device takes is refused before its content is made.
func TestContentIsNotMadeForWhatIsRefused(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte("whole-below: 4 GiB\ndevices: [{name: l, driver: cpu, memory: 1 MiB}]\nbuffers:\n- {name: a, size: 2 GiB, ramp: uint}\ncommands:\n- {read: a, size: 4}"), Options{})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Run(t.Context(), s, RunOptions{})
	runtime.ReadMemStats(&after)
	var bad Errors
	require.ErrorAs(t, err, &bad)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(64), "MiB")
}

func TestNamesHoldNothingThatATerminalObeys(t *testing.T) {
	for _, text := range []string{`name: "a\e[2J"`, `about: "a\u009b2J"`, "queues: [{name: \"l\\e[1m\", device: l}]", `name: "a\x07"`} {
		_, err := Parse(t.Context(), "s.yaml", []byte(text+"\n"+small+"commands: []"), Options{})
		require.ErrorContains(t, err, "want no control characters")
		require.NotContains(t, err.Error(), "\x1b")
	}
	_, err := Parse(t.Context(), "s.yaml", []byte("\ufeff"+small+"commands: []"), Options{})
	require.NoError(t, err, "a byte order mark")
}
