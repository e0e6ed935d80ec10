package sweep_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/internal/journal"
	"godwit/study/machine"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// turns is a scenario in which a buffer of size bytes is written by two devices in turn,
// n times: all but the first time it is copied.
const turns = `
params:
  n: {type: integer, default: 2}
  size: {type: size, default: 1 KiB}
devices: [{name: d, driver: cpu, count: 2, memory: 64 KiB}]
buffers: [{name: a, size: size, fill: 1}]
commands:
- {repeat: n, as: i, do: [{launch: scale, queue: "d{i % 2}", global: 16, args: [a, a, {float: 1}, size / 4]}]}
`

// config sweeps text over axes.
func config(t *testing.T, text string, axes ...string) *sweep.Config {
	t.Helper()
	c := &sweep.Config{File: "turns.yaml", Data: []byte(text), Build: "test", Fast: true}
	for _, text := range axes {
		a, err := sweep.ParseAxis(text)
		require.NoError(t, err)
		c.Axes = append(c.Axes, a)
	}
	return c
}

func table(t *testing.T, res *sweep.Results) (rows [][]string, text string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, res.WriteCSV(&out, true))
	text = out.String()
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	return rows, text
}

// rowsOf are all rows.
func rowsOf(t *testing.T, res *sweep.Results) []*sweep.Row {
	t.Helper()
	rows, err := res.All()
	require.NoError(t, err)
	return rows
}

// begun are the rows of a sweep with a journal, and how many lines it has that are none.
func begun(t *testing.T, c *sweep.Config, path string) (*sweep.Rows, *journal.File, int) {
	t.Helper()
	rows, err := c.Rows(t.Context())
	require.NoError(t, err)
	j, err := journal.Open(path, sweep.JournalName)
	require.NoError(t, err)
	dropped, err := rows.Keep(j)
	require.NoError(t, err)
	return rows, j, dropped
}

// textOf is a file of rows in memory.
func textOf(text string) sweep.Text {
	return sweep.Text{Name: "text", Text: strings.NewReader(text), Size: int64(len(text))}
}

func TestRowsSayWhatEachPointMoved(t *testing.T) {
	res, err := sweep.Run(t.Context(), config(t, turns, "n=1..4", "size=1KiB,4KiB"), sweep.RunOptions{Jobs: 2})
	require.NoError(t, err)
	require.Zero(t, res.Failed)
	rows, _ := table(t, res)
	require.Len(t, rows, 9)
	column := func(name string) int { return slices.Index(rows[0], name) }
	for i, row := range rows[1:] {
		n, size := i/2+1, []int{1024, 4096}[i%2]
		require.Equal(t, []string{strconv.Itoa(n), "true", strconv.Itoa(n), strconv.Itoa(n)}, []string{row[column("n")], row[column("ok")], row[column("commands")], row[column("copies")]})
		require.Equal(t, strconv.Itoa(n*size), row[column("bytes_moved")])
		require.Equal(t, strconv.Itoa(n*size), row[column("bytes_lower_bound")])
		require.Equal(t, strconv.Itoa(size), row[column("bytes_from_host")])
		require.Equal(t, strconv.Itoa((n-1)*size), row[column("bytes_between_devices")])
		require.Equal(t, strconv.Itoa(n/2*size), row[column("bytes d0>d1")])
		require.Equal(t, strconv.Itoa((n-1)/2*size), row[column("bytes d1>d0")])
		require.Equal(t, strconv.Itoa(size), row[column("bytes_peak d0")])
	}
	require.Negative(t, column("elapsed_ns"), "no times were wanted")
}

// TestWhatIsKnownIsNotRunAgain: of a journal that was cut off after any byte, or in which a bit has
// flipped, the rows that are whole are taken, the others are made again, and the results are the same.
func TestWhatIsKnownIsNotRunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	c := config(t, turns, "n=1..3")
	rows, journal, _ := begun(t, c, path)
	res, err := sweep.Run(t.Context(), c, sweep.RunOptions{Rows: rows})
	require.NoError(t, err)
	_, want := table(t, res)
	require.NoError(t, journal.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	again := func(text []byte, what string) (taken int) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		rows, journal, _ := begun(t, c, path)
		res, err := sweep.Run(t.Context(), c, sweep.RunOptions{Rows: rows})
		require.NoError(t, err)
		_, got := table(t, res)
		require.Equal(t, want, got, what)
		require.NoError(t, journal.Close())
		rows, journal, _ = begun(t, c, path)
		require.Equal(t, 3, rows.Have(), what)
		require.NoError(t, journal.Close())
		return res.Taken
	}
	for cut := 0; cut <= len(whole); cut += 61 {
		lines := max(bytes.Count(whole[:cut], []byte("\n"))-1, 0) // but for the journal's own
		require.Equal(t, lines, again(whole[:cut], fmt.Sprint("cut at ", cut)))
	}
	for at := bytes.IndexByte(whole, '\n') + 1; at < len(whole); at += 37 {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1
		require.Less(t, again(flipped, fmt.Sprint("flipped at ", at)), 3)
	}
}

// TestAnotherFileIsNoJournal: it is left as it is.
func TestAnotherFileIsNoJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	for _, text := range []string{"my notes", "my notes\n", "{}\n", "\n", `{"journal":"godwit sweep"} and more` + "\n", `{"point":"x"}` + "\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := journal.Open(path, sweep.JournalName)
		require.ErrorIs(t, err, journal.ErrNone, "%q", text)
		require.ErrorContains(t, err, path)
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(have))
	}
	_, err := journal.Open(t.TempDir(), sweep.JournalName)
	require.ErrorIs(t, err, journal.ErrNone)
}

// TestAPointIsKnownByAllThatItsFiguresDependOn: another value, text, input, build,
// policy or machine is another point.
func TestAPointIsKnownByAllThatItsFiguresDependOn(t *testing.T) {
	seen := make(map[string]string)
	key := func(name string, change func(c *sweep.Config)) {
		c := config(t, turns)
		change(c)
		res, err := sweep.Run(t.Context(), c, sweep.RunOptions{})
		require.NoError(t, err, name)
		point := rowsOf(t, res)[0].Point
		require.Empty(t, seen[point], "%s is as %s", name, seen[point])
		seen[point] = name
	}
	dir := t.TempDir()
	input := func(content string) string {
		path := filepath.Join(dir, "input")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	given := "inputs: {x: {about: any}}\n" + strings.Replace(turns, "size: size, fill: 1", "input: x", 1)
	key("as it is", func(*sweep.Config) {})
	key("a value", func(c *sweep.Config) { c.Base.Set = map[string]string{"n": "3"} })
	key("a build", func(c *sweep.Config) { c.Build = "other" })
	key("times", func(c *sweep.Config) { c.Fast = false })
	key("a policy", func(c *sweep.Config) { c.Base.Policy = "lru" })
	key("a driver", func(c *sweep.Config) { c.Base.Driver = "tce" })
	key("a text", func(c *sweep.Config) { c.Data = []byte(strings.Replace(turns, "fill: 1", "fill: 2", 1)) })
	key("an input", func(c *sweep.Config) {
		c.Data, c.Base.Inputs = []byte(given), map[string]string{"x": input(strings.Repeat("a", 1024))}
	})
	key("an input's content", func(c *sweep.Config) {
		c.Data, c.Base.Inputs = []byte(given), map[string]string{"x": input(strings.Repeat("b", 1024))}
	})
	for _, text := range []string{"", "chunk: 64 KiB", "staging: 8 MiB", "exact: true", "host: {enqueue: 1 us}"} {
		key("a machine with "+text, func(c *sweep.Config) {
			c.Axes = []sweep.Axis{{Kind: sweep.Machine, Name: "machine", Values: []string{"m"}}}
			c.Machine = func(context.Context, string, machine.Options) (*machine.Machine, error) {
				return machine.Parse("m.yaml", []byte("devices: [{name: gpu, count: 2}]\nlinks: [{between: [host, gpu], latency: 1 us, bandwidth: 10 GB/s}]\n"+text), machine.Options{})
			}
		})
	}
	same, err := sweep.Run(t.Context(), config(t, "# a remark\nabout: the same\n"+turns), sweep.RunOptions{})
	require.NoError(t, err)
	require.Equal(t, "as it is", seen[rowsOf(t, same)[0].Point], "a remark changes nothing")
}

// TestWhatIsKnownIsWrittenAsThisSweepSetsIt: a row that is taken has the parameters of the
// point that takes it, so that a sweep that goes on ends as one that nobody disturbed,
// also where two values come to the same, or an axis is new.
func TestWhatIsKnownIsWrittenAsThisSweepSetsIt(t *testing.T) {
	text := strings.Replace(turns, "params:\n", "params:\n  how: {type: string, default: a}\n", 1)
	lines := func(known string, axes ...string) string {
		c := config(t, text, axes...)
		have, err := c.Rows(t.Context())
		require.NoError(t, err)
		_, err = have.Take("known", strings.NewReader(known), int64(len(known)))
		require.NoError(t, err)
		res, err := sweep.Run(t.Context(), c, sweep.RunOptions{Rows: have})
		require.NoError(t, err)
		if known != "" {
			require.Equal(t, res.Points, res.Taken)
		}
		var out bytes.Buffer
		require.NoError(t, res.WriteJSONLines(&out))
		rows, _ := table(t, res)
		require.NotContains(t, slices.Concat(rows...), "<nil>")
		return out.String()
	}
	for _, c := range []struct{ before, now []string }{
		{[]string{"n=1..3"}, []string{"n=1..3", "size=1KiB"}},
		{[]string{"n=1..3", "size=1KiB"}, []string{"n=3"}},
		{[]string{"how=a,b"}, []string{"how=b,a,c"}},
		{[]string{"how=a"}, []string{"how=a,inf,nan"}},
	} {
		require.Equal(t, lines("", c.now...), lines(lines("", c.before...), c.now...), "%v after %v", c.now, c.before)
	}
}

// TestAWordIsNoNumber: what a column says of a text that reads as one without end.
func TestAWordIsNoNumber(t *testing.T) {
	text := strings.Replace(turns, "params:\n", "params:\n  how: {type: string, default: a}\n", 1)
	res, err := sweep.Run(t.Context(), config(t, text, "how=inf,nan,+Infinity,1.5"), sweep.RunOptions{})
	require.NoError(t, err)
	var got []any
	for _, row := range rowsOf(t, res) {
		got = append(got, res.Columns(false)[0].Value(row))
	}
	require.Equal(t, []any{"inf", "nan", "+Infinity", 1.5}, got)
}

// TestALineWithoutEndIsNotKept: of a journal that is none no more is held than a row may
// have.
func TestALineWithoutEndIsNotKept(t *testing.T) {
	const size = 512 << 20
	rows, err := config(t, turns).Rows(t.Context())
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	dropped, err := rows.Take("x", endless{}, size)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, 1, dropped)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(256), "MiB allocated in all")
}

// endless reads as x.
type endless struct{}

func (endless) ReadAt(b []byte, _ int64) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// TestAPointThatFailsHasARow: and is tried again; one that is at fault ends the sweep.
func TestAPointThatFailsHasARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	c := config(t, `
params: {size: {type: size, default: 1 KiB}}
devices: [{name: d, driver: cpu, memory: 64 KiB}]
buffers: [{name: a, size: size, fill: 1}, {name: b, size: size}]
commands: [{copy: a, to: b, queue: d}]
`, "size=1KiB,48KiB")
	rows, journal, _ := begun(t, c, path)
	res, err := sweep.Run(t.Context(), c, sweep.RunOptions{Rows: rows})
	require.NoError(t, err)
	require.Equal(t, 1, res.Failed)
	require.Contains(t, rowsOf(t, res)[1].Error, "out of memory")
	require.NoError(t, journal.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	merged, err := sweep.Merge([]sweep.Text{textOf(string(text))})
	require.NoError(t, err)
	require.Equal(t, 1, merged.Failed, "a point that failed has a row")
	rows, journal, dropped := begun(t, c, path)
	require.Equal(t, 1, dropped, "the point that failed is tried again")
	require.Equal(t, 1, rows.Have())
	require.NoError(t, journal.Close())

	_, err = sweep.Run(t.Context(), config(t, turns, "size=1KiB,0"), sweep.RunOptions{})
	var bad scenario.Errors
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, "size=0: turns.yaml")
}

func TestJSONLinesHaveLinksAndPeaks(t *testing.T) {
	res, err := sweep.Run(t.Context(), config(t, turns, "n=2,3"), sweep.RunOptions{})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, res.WriteJSONLines(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	var row struct {
		Parameters map[string]int
		Links      []scenario.LinkTotal
		Peaks      []scenario.DevicePeak
		Moved      uint64 `json:"bytes_moved"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &row))
	require.Equal(t, map[string]int{"n": 3}, row.Parameters)
	require.Len(t, row.Links, 3)
	require.Equal(t, []scenario.DevicePeak{{Device: "d0", Bytes: 1024}, {Device: "d1", Bytes: 1024}}, row.Peaks)
	require.EqualValues(t, 3072, row.Moved)
}

// TestASweepThatIsCancelledEnds and leaves nothing; what is done is in the journal.
func TestASweepThatIsCancelledEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	c := config(t, turns, "n=1..50")
	rows, journal, _ := begun(t, c, path)
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int64
	_, err := sweep.Run(ctx, c, sweep.RunOptions{Jobs: 2, Rows: rows, Ended: func(int, bool, string) {
		if done.Add(1) == 3 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, journal.Close())
	rows, journal, dropped := begun(t, c, path)
	require.NoError(t, journal.Close())
	require.Zero(t, dropped)
	require.GreaterOrEqual(t, rows.Have(), 3)
	require.Less(t, rows.Have(), 50)
}

// TestASweepThatNeverBeginsSaysSo: not that it has ended well, with rows that are nil.
func TestASweepThatNeverBeginsSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sweep.Run(ctx, config(t, turns, "n=1..3"), sweep.RunOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestMachinesAreSwept: in virtual time, the same times however many points run at once.
func TestParametersOfAMachineAreSwept(t *testing.T) {
	c := config(t, turns)
	c.Fast = false
	c.Axes = append(c.Axes, sweep.Axis{Kind: sweep.Machine, Name: "machine", Values: []string{"m"}})
	axis, err := sweep.ParseAxis("machine.nic=1 GB/s,4 GB/s")
	require.NoError(t, err)
	c.Axes = append(c.Axes, axis)
	c.Machine = func(_ context.Context, _ string, opt machine.Options) (*machine.Machine, error) {
		return machine.Parse("m.yaml", []byte("params: {nic: {type: bandwidth}}\ndevices: [{name: gpu, count: any}]\nlinks: [{between: [host, gpu], bandwidth: nic}]"), opt)
	}
	res, err := sweep.Run(t.Context(), c, sweep.RunOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, res.Points)
	require.Equal(t, "4 GB/s", rowsOf(t, res)[1].Parameters["machine.nic"])
	require.InEpsilon(t, 4, float64(rowsOf(t, res)[0].ElapsedNS)/float64(rowsOf(t, res)[1].ElapsedNS), 0.01)
	require.NotEqual(t, rowsOf(t, res)[0].Point, rowsOf(t, res)[1].Point)
}

func TestMachinesAreSwept(t *testing.T) {
	var first string
	for _, jobs := range []int{1, 3} {
		c := config(t, turns, "n=2..8*2")
		c.Fast = false
		c.Axes = append(c.Axes, sweep.Axis{Kind: sweep.Machine, Name: "machine", Values: []string{"h200-pcie", "h200-nvlink"}})
		c.Machine = func(_ context.Context, name string, opt machine.Options) (*machine.Machine, error) {
			return machine.Named(name, opt)
		}
		res, err := sweep.Run(t.Context(), c, sweep.RunOptions{Jobs: jobs})
		require.NoError(t, err)
		rows, text := table(t, res)
		times, total := slices.Index(rows[0], "times"), slices.Index(rows[0], "elapsed_ns")
		part := slices.Index(rows[0], "critical_compute_ns")
		points := make(map[string]bool)
		for _, row := range rows[1:] {
			require.Equal(t, "modelled", row[times])
			sum := 0
			for i := range 4 { // compute, copy, memory and host tile the makespan
				n, err := strconv.Atoi(row[part+i])
				require.NoError(t, err)
				sum += n
			}
			require.Equal(t, row[total], strconv.Itoa(sum))
			points[row[len(row)-1]] = true
		}
		require.Len(t, points, 6, "a machine is part of what a point is known by")
		if first == "" {
			first = text
		}
		require.Equal(t, first, text)
	}
}
