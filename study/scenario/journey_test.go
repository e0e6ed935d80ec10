package scenario_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"godwit/study/scenario"
)

// examples are the scenarios of examples/ that need no more than they bring.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// explained runs a scenario with the journeys of all its buffers.
func explained(t *testing.T, file string, places ...string) *scenario.Result {
	t.Helper()
	s, err := scenario.Load(t.Context(), file, scenario.Options{})
	require.NoError(t, err)
	var opt scenario.RunOptions
	for i := range s.Buffers {
		if len(places) == 0 {
			p, err := s.Place(s.Buffers[i].Name)
			require.NoError(t, err)
			opt.Explain = append(opt.Explain, p)
		}
	}
	for _, text := range places {
		p, err := s.Place(text)
		require.NoError(t, err, text)
		opt.Explain = append(opt.Explain, p)
	}
	res, err := scenario.Run(t.Context(), s, opt)
	require.NoError(t, err)
	return res
}

// TestViewsOfARun shows what godwit run --explain, --summary and --dot show.
func TestViewsOfARun(t *testing.T) {
	datadriven.RunTest(t, "testdata/views", func(t *testing.T, d *datadriven.TestData) string {
		var name string
		d.ScanArgs(t, "of", &name)
		var out strings.Builder
		res := explained(t, "../../examples/"+name+".yaml", strings.Fields(strings.ReplaceAll(d.Input, " ", ""))...)
		switch d.Cmd {
		case "explain":
			res.Print(&out, scenario.PrintOptions{Width: 120})
		case "summary":
			res.Journeys = nil
			res.Print(&out, scenario.PrintOptions{Width: 120, Summary: true})
		case "dot":
			require.NoError(t, res.WriteDOT(&out))
		}
		return out.String()
	})
}

// TestJourneysAgreeWithTheRun: of a whole buffer, a journey has every copy that the run
// made of it and every block that went, and it ends where the run ends.
func TestJourneysAgreeWithTheRun(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			res := explained(t, file)
			ends, copied, gone := make(map[string][]scenario.Segment), make(map[string]int), make(map[string]int)
			for _, s := range res.Segments {
				ends[s.Buffer] = append(ends[s.Buffer], s)
			}
			for _, c := range res.Copies {
				copied[c.Buffer]++
			}
			for _, e := range res.Evictions {
				gone[e.Buffer]++
			}
			named := make(map[string]int)
			for _, j := range res.Journeys {
				named[j.Buffer]++
			}
			for _, j := range res.Journeys {
				if named[j.Buffer] > 1 {
					continue // memory that was allocated again by its name
				}
				last := j.Before
				copies, evictions := 0, 0
				for _, e := range j.Events {
					last = e.After
					switch e.What {
					case "copy", "write-back":
						copies++
						require.NotEmpty(t, e.Why)
					case "evict":
						evictions++
					}
				}
				if of := ends[j.Buffer]; of != nil { // freed memory has no end
					require.Equal(t, of, last, j.Buffer)
				}
				require.Equal(t, copied[j.Buffer], copies, j.Buffer)
				require.Equal(t, gone[j.Buffer], evictions, j.Buffer)
			}
		})
	}
}

// TestDigestsAddUp: the totals by kind, link and buffer are the run's.
func TestDigestsAddUp(t *testing.T) {
	for _, file := range examples(t) {
		res := run(t, file, scenario.Options{})
		d := res.Digest()
		var kinds, links, buffers scenario.CopyTotal
		commands := 0
		add := func(to *scenario.CopyTotal, copies int, bytes uint64) {
			to.Copies, to.Bytes = to.Copies+copies, to.Bytes+bytes
		}
		for _, k := range d.Kinds {
			add(&kinds, k.Copies, k.Bytes)
			commands += k.Commands
		}
		for _, l := range d.Links {
			add(&links, l.Copies, l.Bytes)
		}
		for _, b := range d.Buffers {
			add(&buffers, b.Copies, b.Bytes)
		}
		want := scenario.CopyTotal{Copies: len(res.Copies), Bytes: res.BytesMoved}
		require.Equal(t, []scenario.CopyTotal{want, want, want}, []scenario.CopyTotal{kinds, links, buffers}, file)
		require.Equal(t, len(res.Commands), commands, file)
		require.Len(t, d.Peaks, len(res.Devices))
	}
}

// TestASummaryFitsAScreenHoweverManyDevicesThereAre: what took thousands of lines.
func TestASummaryFitsAScreenHoweverManyDevicesThereAre(t *testing.T) {
	s, err := scenario.Parse(t.Context(), "s.yaml", []byte(`
devices: [{name: d, driver: cpu, count: 64, memory: 1 MiB}]
buffers: [{name: a, size: 256, count: 64}]
commands:
- {repeat: 64, as: i, do: [{fill: "a{i}", pattern: 1, queue: "d{i}"}]}
- {repeat: 64, as: i, do: [{repeat: 63, as: k, do: [{read: "a{(i + k) % 64}", queue: "d{i}"}]}]}
`), scenario.Options{})
	require.NoError(t, err)
	res, err := scenario.Run(t.Context(), s, scenario.RunOptions{})
	require.NoError(t, err)
	for _, width := range []int{60, 120} {
		var out strings.Builder
		res.Print(&out, scenario.PrintOptions{Width: width, Summary: true})
		lines := strings.Split(out.String(), "\n")
		require.Less(t, len(lines), 60)
		for _, line := range lines {
			if !strings.HasPrefix(line, "✓") { // the terminal wraps those
				require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), width, "%q", line)
			}
		}
		require.Contains(t, out.String(), "d0 to d63")
		require.Regexp(t, `and [0-9,]+ more`, out.String())
	}
}

func TestPlacesAreNamedAsReportsNameThem(t *testing.T) {
	s, err := scenario.Load(t.Context(), "../../examples/overlap.yaml", scenario.Options{})
	require.NoError(t, err)
	for _, c := range []struct{ text, want string }{
		{"a", "[0,4096)"}, {"a[0,4096)", "[0,4096)"}, {" a [1 KiB, 2 KiB) ", "[1024,2048)"}, {"a[512:]", "[512,4096)"}, {"a[:1KiB]", "[0,1024)"},
		{"a[7]", "[7,8)"}, {"high[0:1KiB]", "[1024,2048)"}, {"a[0,min(8,9)]", "[0,8)"}, {"a[size(low):]", "[3072,4096)"},
		{"aa", `no buffer or sub-buffer is named "aa"`}, {"a[0,5000)", "[0,5000): want some of its 4 KiB"}, {"a[5,5)", "[5,5): want some"},
		{"a[-1:3]", "-1: want at least 0"}, {"a[1:2", "want a range such as"}, {"a[x]", `"x"`}, {"low[start(low):]", `no function is named "start"`}, {"a[1:2:3]", "unexpected"}, {"", "no buffer"},
	} {
		p, err := s.Place(c.text)
		if err != nil {
			require.Contains(t, err.Error(), c.want, c.text)
			continue
		}
		require.Equal(t, c.want, p.Range.String(), c.text)
	}
}

// TestGraphsHaveEveryCommandAndCopy: a node for each, arrows between nodes that are
// there, and into each copy as many bytes as it read.
func TestGraphsHaveEveryCommandAndCopy(t *testing.T) {
	node, edge := regexp.MustCompile(`(?m)^\s+(n\d+)\[.*shape="(\w+)"`), regexp.MustCompile(`(?m)^\s+(n\d+)->(n\d+)\[`)
	for _, file := range examples(t) {
		if strings.Contains(file, "training-step") || strings.Contains(file, "matmul-tiles") {
			continue // thousands of commands: for a graph, too many
		}
		res := run(t, file, scenario.Options{})
		var out bytes.Buffer
		require.NoError(t, res.WriteDOT(&out))
		shapes, into := make(map[string]string), make(map[string]int)
		for _, m := range node.FindAllStringSubmatch(out.String(), -1) {
			shapes[m[1]] = m[2]
		}
		for _, m := range edge.FindAllStringSubmatch(out.String(), -1) {
			require.Contains(t, shapes, m[1])
			require.Contains(t, shapes, m[2])
			into[m[2]]++
		}
		count := make(map[string]int)
		for n, shape := range shapes {
			count[shape]++
			if shape == "ellipse" {
				require.Positive(t, into[n], "%s: a copy of nothing: %s", file, n)
			}
		}
		require.Equal(t, len(res.Commands), count["box"], file)
		require.Equal(t, len(res.Copies), count["ellipse"], file)
	}
	res := run(t, "../../examples/overlap.yaml", scenario.Options{})
	require.ErrorIs(t, res.WriteDOT(shut{}), io.ErrClosedPipe)
	require.ErrorContains(t, scenario.Failed("f", fmt.Errorf("no")).WriteDOT(io.Discard), "did not start")
}

type shut struct{}

func (shut) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
