package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSweepsSayWhatIsWrong: with the exit code that scripts can trust.
func TestSweepsSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left.csv")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "left.rows"), []byte(`{"journal":"godwit sweep"}`+"\n{}\n"), 0o600))
	notes := filepath.Join(dir, "notes.rows")
	require.NoError(t, os.WriteFile(notes, []byte("mine\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.csv"), 0o700))
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"sweep"}, 2, "want a scenario's file"},
		{[]string{"sweep", "--example", "overlap", "x"}, 2, "not both"},
		{[]string{"sweep", "--example", "overlap", "--set", "n"}, 2, `--set "n": want NAME=VALUES`},
		{[]string{"sweep", "--example", "matmul-tiles", "--set", "percnt=1"}, 2, `did you mean "percent"?`},
		{[]string{"sweep", "--example", "matmul-tiles", "--set", "percent=1,2", "--set", "percent=3"}, 2, "percent is swept twice"},
		{[]string{"sweep", "--example", "matmul-tiles", "--set", "percent=9..1"}, 2, "its end is below its beginning"},
		{[]string{"sweep", "--example", "overlap", "--policy", "lru,lur"}, 2, `policy "lur"`},
		{[]string{"sweep", "--example", "overlap", "--driver", "cpu,tec"}, 2, `did you mean "tce"?`},
		{[]string{"sweep", "--example", "overlap", "--out", "x.txt"}, 2, "want a name that ends in .csv or .jsonl"},
		{[]string{"sweep", "--example", "overlap", "--resume"}, 2, "--resume: of which sweep?"},
		{[]string{"sweep", "--example", "overlap", "--shard", "1/2", "--fast"}, 2, "--shard: where are its rows to be?"},
		{[]string{"sweep", "--example", "overlap", "--shard", "0/2"}, 2, "want K/N"},
		{[]string{"sweep", "--example", "matmul-tiles", "--set", "percent=1..100000", "--fast"}, 2, "more than 10,000 want --out"},
		{[]string{"sweep", "--example", "overlap", "--jobs", "0"}, 2, "--jobs 0: want at least 1"},
		{[]string{"sweep", "--example", "overlap", "--jobs", "2"}, 2, "--jobs 2: points whose times are measured run one at a time"},
		{[]string{"sweep", "--example", "overlap", "--jobs", "2", "--fast"}, 0, ""},
		{[]string{"sweep", "--example", "overlap", "--jobs", "2", "--machine", "h200x2-pcie"}, 0, ""},
		{[]string{"sweep", "--example", "overlap", "--machine", ""}, 2, "--machine: want MACHINE, not an empty word"},
		{[]string{"sweep", "--example", "overlap", "--machine", "h200x2-pcie,,h200x4-pcie"}, 2, "want names with commas between"},
		{[]string{"sweep", "--example", "overlap", "--policy", ","}, 2, `--policy ",": want names with commas between`},
		{[]string{"sweep", "--example", "overlap", "--out", filepath.Join(dir, "folder.csv")}, 2, "want a regular file, or none yet"},
		{[]string{"sweep", "--example", "overlap", "--fast", "--out", filepath.Join(dir, "notes.csv")}, 2, "it is no journal of this kind, and is left as it is"},
		{[]string{"sweep", "--example", "overlap", "--fast", "--out", filepath.Join(dir, "notes.csv"), "--resume"}, 2, "it is no journal of this kind, and is left as it is"},
		{[]string{"sweep", "--example", "overlap", "--plot", "-", "--json"}, 2, "both are to be standard output"},
		{[]string{"sweep", "--example", "overlap", "--x", "n"}, 2, "are for --plot"},
		{[]string{"sweep", "--example", "overlap", "--plot", filepath.Join(dir, "p.html"), "--y", "byts_moved"}, 2, `did you mean "bytes_moved"?`},
		{[]string{"sweep", "--example", "overlap", "--out", left}, 2, "is of a sweep that did not end"},
		{[]string{"sweep", "--example", "overlap", "--fast", "--out", left, "--resume"}, 0, ""},
		{[]string{"sweep", "--example", "overlap", "--driver", "cpu,tce", "--fast"}, 0, ""},
		{[]string{"sweep", "--example", "matmul-tiles", "--set", "passes=1", "--set", "percent=70", "--policy", "none", "--fast"}, 1, "1 point of 1 not as expected; the first: "},
	} {
		out, _, err := godwit(t, c.args...)
		code := exitCode(new(interrupts), err)
		require.Equal(t, c.exit, code, "%v: %s %v", c.args, out, err)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
		}
	}
	have, err := os.ReadFile(notes)
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(have))
}

// TestASweepThatHasDoneNothingLeavesNothing: where its first point is at fault there is
// nothing to go on from, and the next sweep begins.
func TestASweepThatHasDoneNothingLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "out.csv")
	require.NoError(t, os.WriteFile(file, []byte("params: {n: {type: integer, default: 1}}\ndevices: [{name: d, driver: cpu}]\nbuffers: [{name: a, size: 4096 / n}]\ncommands:\n- {fill: a, offset: n, size: 4096, pattern: 1}\n"), 0o600))
	for range 2 {
		_, _, err := godwit(t, "sweep", file, "--set", "n=1,2", "--fast", "--out", out)
		require.Equal(t, 2, exitCode(new(interrupts), err), "%v", err)
		require.ErrorContains(t, err, "s.yaml:5")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, left, 1, "%v", left)
	}
}

// TestSweepsPrintTablesAndLines: a table that fits, or a row of JSON a line.
func TestSweepsPrintLines(t *testing.T) {
	out, _, err := godwit(t, "sweep", "--example", "overlap", "--driver", "cpu,tce", "--json")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	for i, driver := range []string{"cpu", "tce"} {
		var row struct {
			Parameters map[string]string
			Times      string
			Elapsed    int64  `json:"elapsed_ns"`
			Moved      uint64 `json:"bytes_moved"`
		}
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &row))
		require.Equal(t, driver, row.Parameters["driver"])
		require.Equal(t, "measured", row.Times)
		require.Positive(t, row.Elapsed)
		require.EqualValues(t, 9472, row.Moved)
	}
}

// TestASweepDrawsItsPlot: the page has every row, and what is to be drawn at first.
func TestASweepDrawsItsPlot(t *testing.T) {
	page := filepath.Join(t.TempDir(), "p.html")
	_, _, err := godwit(t, "sweep", "--example", "overlap", "--driver", "cpu,tce", "--fast", "--plot", page, "--y", "copies,bytes_moved", "--plot", page+".svg")
	require.NoError(t, err)
	require.FileExists(t, page+".svg", "both are drawn")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), `"x":"driver"`)
	require.Contains(t, string(html), `"y":["copies","bytes_moved"]`)
	require.Contains(t, string(html), "<td>9472</td>")
}

// A figure that one point has none of leaves that point out of the plot, and no more.
func TestAPointWithoutAFigureIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "s.html")
	require.NoError(t, os.WriteFile(file, []byte(`
params: {n: {type: integer, default: 1}}
devices: [{name: d, driver: cpu, memory: 64 KiB}]
buffers: [{name: a, size: 256, fill: 1}]
commands: [{fill: a, offset: 0, size: 4 * n, pattern: 1}]
`), 0o600))
	_, _, err := godwit(t, "sweep", file, "--set", "n=1..3", "--fast", "--plot", page, "--column", "r=(n - 2) / (n - 2)", "--y", "r")
	require.NoError(t, err)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), `"name":"r","parameter":false,"values":[1,null,1]`)
}
