package devicefile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/input"
	"godwit/mem"
)

func TestAFileOfDevices(t *testing.T) {
	f, err := Parse("f.yaml", []byte("\ufeffdevices:\n- {name: a, count: 2, memory: 64 MiB, type: cpu, device: 0}\n- {name: b}\nlinks:\n- {between: [a0, b], way: direct, latency: 5 us, bandwidth: 2 GB/s}\n- {from: host, to: b}\n"))
	require.NoError(t, err)
	require.Equal(t, []Device{{Name: "a0", Memory: 64 << 20, Real: "0", Type: "cpu"}, {Name: "a1", Memory: 64 << 20, Real: "0", Type: "cpu"}, {Name: "b"}}, f.Devices)
	link := mem.Link{Direct: mem.Path{There: true, Latency: 5000, Bandwidth: 2e9}}
	require.Equal(t, []Link{{"a0", "b", link}, {"b", "a0", link}, {"host", "b", mem.Link{Ring: mem.Path{There: true}}}}, f.Links)
}

func TestFaultsOfAFileOfDevices(t *testing.T) {
	many := strings.Repeat("x, ", 30_000)
	for text, says := range map[string]string{
		"devices: []":                                         "0 devices",
		"devices: [{name: a, count: 100000000}]":              "count 100000000: there can be 1 to 1024 devices in all",
		"devices: [{name: a, count: 1025}]":                   "1 to 1024",
		"devices: [{name: a, count: -1}]":                     `count "-1"`,
		"devices: [{name: a, count: 0}]":                      `count "0"`,
		"devices: [{count: 1000}, {count: 1000}]":             "count 1000",
		"devices: [{count: 99999999999999999999}]":            "f.yaml:1: ",
		"devices: [{name: a}, {name: a}]":                     "two devices",
		"devices: [{name: host}]":                             "two devices",
		`devices: [{name: "a\e[2J"}]`:                         "no control characters",
		"devices: [{name: " + strings.Repeat("a", 65) + "}]":  "at most 64 bytes",
		"devices: [{memory: much}]":                           "memory",
		"devices: [{memory: 99999999 EiB}]":                   "memory",
		"devices: [{type: quantum}]":                          "type",
		"devices: [{driver: tce}]":                            "driver",
		"devices: [{colour: red}]":                            "colour",
		"devices: [{name: a}]\nlinks: [{from: a}]":            "no such devices",
		"devices: [{name: a}]\nlinks: [{from: a, to: a}]":     `"a" is linked to itself`,
		"devices: [{name: a}]\nlinks: [{way: over}]":          "way",
		"devices: [{name: a}]\nlinks: [{latency: -5us}]":      "latency",
		"devices: [{name: a}]\nlinks: [{between: [a]}]":       "want two devices",
		"devices: " + strings.Repeat("[", 100_000):            "nested more than 64 deep",
		"devices: &x [" + many + "]\nlinks: [{between: *x}]":  "an alias",
		strings.Repeat("#", 300_000):                          "want at most 262144",
		"root:x:0:0:secret:/root:/bin/sh\ndaemon:x:1:secret:": "f.yaml:1: ",
		"root: x: secret\n":                                   "f.yaml:1: ",
		"\xff\xfe":                                            "not UTF-8",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse("f.yaml", []byte(text))
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, says, text[:min(len(text), 100)])
		require.NotContains(t, err.Error(), "secret", "what else is in the file is nobody's business")
		require.Less(t, len(err.Error()), 300)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(64), "MiB")
	}
	_, err := Read(t.Context(), "/dev/zero")
	require.ErrorIs(t, err, input.ErrKind)
	_, err = Read(t.Context(), filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Whatever the file, reading it ends without a panic and gives devices within
// bounds, whose links lead to them.
func FuzzParse(f *testing.F) {
	f.Add([]byte("devices:\n- {name: a, count: 2, memory: 64 MiB, type: cpu, device: 0}\n- {name: b}\nlinks:\n- {between: [a0, b], way: direct, latency: 5 us, bandwidth: 2 GB/s}\n"))
	f.Add([]byte("devices: [{count: 1000000000, memory: 1e300 EiB}]"))
	f.Add([]byte("devices: &x [*x]\nlinks: {<<: *x}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Parse("f.yaml", data)
		if err != nil {
			return
		}
		names := map[string]bool{"host": true}
		for _, d := range out.Devices {
			names[d.Name] = true
		}
		if n := len(out.Devices); n < 1 || n > maxDevices {
			t.Fatalf("%d devices", n)
		}
		for _, l := range out.Links {
			if !names[l.From] || !names[l.To] {
				t.Fatalf("%v leads nowhere", l)
			}
		}
	})
}
