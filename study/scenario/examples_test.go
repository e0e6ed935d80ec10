package scenario_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/study/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run loads and runs a scenario; every fault of the runtime's or the planner's
// ends the test.
func run(t *testing.T, file string, opt scenario.Options) *scenario.Result {
	t.Helper()
	s, err := scenario.Load(t.Context(), file, opt)
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{})
	require.NoError(t, err)
	return res
}

// TestExamples runs every scenario of examples/ and shows it as godwit run does.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == "matmul-tiles" || name == "training-step" || name == "kv-cache" { // what moves there depends on the time: TestMoreDataThanMemory
			continue
		}
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", "examples", name)
			if _, err := os.Stat(golden); err != nil {
				require.NoError(t, os.WriteFile(golden, []byte("run\n----\n"), 0o600))
			}
			datadriven.RunTest(t, golden, func(t *testing.T, _ *datadriven.TestData) string {
				res := run(t, file, scenario.Options{})
				require.True(t, res.OK(), "%v", res)
				require.True(t, res.Verified)
				require.Equal(t, res.BytesCompulsory+res.BytesCapacity, res.BytesMoved)
				if len(res.Evictions) == 0 {
					require.Equal(t, res.BytesLowerBound, res.BytesMoved)
				}
				require.Positive(t, res.BytesCompared)
				var moved uint64
				for _, c := range res.Copies {
					moved += c.Bytes - c.RideAlong
				}
				require.Equal(t, moved, res.BytesMoved)
				var out strings.Builder
				res.Print(&out, scenario.PrintOptions{})
				return out.String()
			})
		})
	}
}

// TestTheReadmeShowsTheOverlapExample: what the README promises is what runs.
func TestTheReadmeShowsTheOverlapExample(t *testing.T) {
	var out strings.Builder
	run(t, "../../examples/overlap.yaml", scenario.Options{}).Print(&out, scenario.PrintOptions{})
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), out.String())
}

// TestResultsAreTheSameEachTime guards against what depends on timing.
func TestResultsAreTheSameEachTime(t *testing.T) {
	show := func() string {
		out, err := json.Marshal(run(t, "../../examples/histogram.yaml", scenario.Options{}))
		require.NoError(t, err)
		return string(out)
	}
	first := show()
	for range 3 {
		require.Equal(t, first, show())
	}
}

// TestHistogramOfShortFiles: short files are padded, not refused.
func TestHistogramOfShortFiles(t *testing.T) {
	for _, size := range []int{1, 127, 128, 129, 511, 513, 100_000} {
		file := filepath.Join(t.TempDir(), "f")
		content := make([]byte, size)
		want := make([]int, 256)
		for i := range content {
			content[i] = byte(i * i)
			want[content[i]]++
		}
		require.NoError(t, os.WriteFile(file, content, 0o600))
		s, err := scenario.Load(t.Context(), "../../examples/histogram.yaml", scenario.Options{Inputs: map[string]string{"text": file}})
		require.NoError(t, err)
		reads := make(map[int][]byte)
		res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Read: func(command int, data []byte) { reads[command] = data }})
		require.NoError(t, err)
		require.True(t, res.OK(), "%d bytes: %v %v", size, res.Mismatches, res.Expect)
		require.Len(t, reads, 1)
		for _, data := range reads {
			for v, n := range want {
				require.Equal(t, n, int(data[4*v])|int(data[4*v+1])<<8|int(data[4*v+2])<<16, "byte %d of %d", v, size)
			}
		}
	}
}

// runText runs a scenario given as text.
func runText(t *testing.T, text string) (*scenario.Result, error) {
	t.Helper()
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(text), scenario.Options{})
	require.NoError(t, err)
	return scenario.Run(t.Context(), s, scenario.RunOptions{})
}

func TestACancelledRunEndsAndLeavesNothing(t *testing.T) {
	s, err := scenario.Load(t.Context(), "../../examples/pingpong.yaml", scenario.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := scenario.Run(ctx, s, scenario.RunOptions{Progress: func(_ string, done, _ int) {
		if done == 5 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, res.OK())
	require.Equal(t, context.Canceled.Error(), res.Error)
}

const two = `
devices: [{name: left, driver: cpu, memory: 1 MiB}, {name: right, driver: tce, memory: 1 MiB}]
buffers: [{name: a, size: 4 KiB, fill: 1}, {name: b, size: 4 KiB}]
`

func TestExpectationsCanFail(t *testing.T) {
	res, err := runText(t, two+`
commands:
- {fill: a, size: 1 KiB, pattern: 2, queue: left}
- {read: a, queue: right}
expect:
- {buffer: a, fill: 2}
- {buffer: a, size: 1 KiB, fill: 2}
- {moved: 1}
- {copies: 0}
- {only: [b]}
- {moved: lower-bound}
- {buffer: a, sha256: "0000000000000000000000000000000000000000000000000000000000000000"}
- {buffer: b, equals: reference}
`)
	require.NoError(t, err)
	require.False(t, res.OK())
	var met []bool
	for _, e := range res.Expect {
		met = append(met, e.Met)
		require.Equal(t, e.Met, e.Got == "", e.Text)
	}
	require.Equal(t, []bool{false, true, false, false, false, true, false, true}, met)
}

func TestUndefinedBytesAreFoundAndNotCompared(t *testing.T) {
	res, err := runText(t, two+`
commands:
- {fill: b, offset: 1 KiB, size: 1 KiB, pattern: 3, queue: left}
- {launch: copy, queue: right, global: 64, args: [b, a, 2 KiB]} # the first KiB of a is undefined now
- {read: a, queue: left}
`)
	require.NoError(t, err)
	require.True(t, res.OK(), "%v", res.Mismatches)
	// 1 KiB of the read, 1 KiB of a and 3 KiB of b at the end.
	require.EqualValues(t, 5<<10, res.BytesUndefined)
	require.EqualValues(t, 4<<10, res.BytesRead)
	require.EqualValues(t, 3<<10+3<<10+1<<10, res.BytesCompared)
}

func TestReasonsNameTheWriterAndTheSource(t *testing.T) {
	res, err := runText(t, two+`
commands:
- {read: a, queue: right}
- {fill: a, size: 1 KiB, pattern: 2, queue: left}
- {read: a, queue: right}
- {migrate: a, queue: left}
- {migrate: a, queue: left, to: host}
`)
	require.NoError(t, err)
	require.True(t, res.OK())
	var got []string
	for _, c := range res.Copies {
		got = append(got, fmt.Sprintf("#%d %s %d+%d %s→%s: %s", c.Command, c.Buffer, c.Offset, c.Bytes, c.From, c.To, c.Reason))
	}
	require.Equal(t, []string{
		"#1 a 0+4096 host→right: right never held it; its initial content is on host",
		"#3 a 0+1024 left→right: right held its initial content, stale since #2 fill wrote it, fresh on left",
		"#4 a 1024+3072 right→left: left never held it; its initial content is on right",
		"#5 a 0+1024 left→host: host held its initial content, stale since #2 fill wrote it, fresh on left",
	}, got)
}

func TestFailedRunsSayWhere(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no room on a device": {`
devices: [{name: d, driver: tce, memory: 64 KiB}]
buffers: [{name: a, size: 40 KiB}, {name: b, size: 40 KiB}]
commands:
- {fill: a, pattern: 1}
- {copy: a, to: b}`, "s.yaml:6: #2 copy "},
		"no room in a graph, of whose steady rounds nothing is known": {`
devices: [{name: d, driver: tce, memory: 64 KiB}]
buffers: [{name: a, size: 40 KiB}, {name: b, size: 40 KiB}]
commands:
- repeat: 2
  graph: true
  do:
  - {fill: a, pattern: 1}
  - {copy: a, to: b}`, "s.yaml:9: #2 copy "},
		"a kernel leaves its buffer": {two + `
commands:
- {launch: copy, queue: right, global: 1, args: [a, b, 5000]}`, "s.yaml:6: #1 copy(a, b, 5000): "},
		"a buffer no device can hold": {`
whole-below: 2 MiB
devices: [{name: d, driver: tce, memory: 64 KiB}]
buffers: [{name: a, size: 1 MiB}]
commands: []`, "s.yaml:4: buffer a: "},
		"a work-group that does not divide": {two + `
commands:
- {launch: copy, queue: left, global: 10, local: 3, args: [a, b, 5]}`, "s.yaml:6: #1 copy(a, b, 5): "},
		"an unaligned sub-buffer": {two + `
sub-buffers: [{name: s, of: a, offset: 3}]
commands: []`, "s.yaml:5: sub-buffer s: "},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := runText(t, c.text)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), c.want), "%v", err)
			require.Equal(t, err.Error(), res.Error)
			require.False(t, res.OK())
			var out strings.Builder
			res.Print(&out, scenario.PrintOptions{})
			require.Contains(t, out.String(), "not finished: "+c.want)
			require.NotContains(t, out.String(), "least possible")
		})
	}
}
