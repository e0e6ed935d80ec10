package formats_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/input"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/alloc/formats"
)

func read(t testing.TB, text string) *formats.Allocs {
	t.Helper()
	all, err := formats.ReadAllocs(t.Context(), strings.NewReader(text), "x.csv")
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

const (
	a = trace.OpAlloc
	f = trace.OpFree
)

// short is an event without its time.
type short struct {
	op    trace.Op
	chunk uint32
	size  uint64
}

func shorts(t *formats.Allocs) (out []short) {
	for _, e := range t.Events {
		out = append(out, short{e.Op, e.Chunk, e.Size})
	}
	return out
}

func TestEveryFormatReadsIntoTheSameEvents(t *testing.T) {
	want := []short{{a, 0, 100}, {a, 1, 50}, {f, 0, 100}, {a, 2, 7}, {f, 2, 7}}
	for name, text := range map[string]string{
		"godwit":      "op,id,bytes,time_us\n# ids come again\na,9,100,0\na,8,50,5\nf,9,100,6\n\na,9,7,7\nf,9,,8\n",
		"godwit crlf": "op,id,bytes,time_us\r\na,9,100,0\r\na,8,50,5\r\nf,9,100,6\r\na,9,7,7\r\nf,9,7,8\r\n",
		"rmm": `Thread,Time,Action,Pointer,Size,Stream
7,23:59:59:999990,allocate,0xa0,100,0x1
7,23:59:59.999995,allocate,0xb0,50,0
7,00:00:00:000001,free,0xa0,100,0x1
7,00:00:00:000002,allocate,0xa0,7,0x1
7,00:00:00:000003,deallocate,0xa0,7,0x1
`,
		"pytorch": `{"segments": [{"blocks": [{"size": 1}]}], "device_traces": [[], [
{"action": "segment_alloc", "addr": 5, "size": 4096, "stream": 0, "time_us": 1000},
{"action": "alloc", "addr": 5, "size": 100, "stream": 0, "time_us": 1001, "frames": [{"name": "f"}]},
{"action": "alloc", "addr": 1005, "size": 50, "stream": 0, "time_us": 1002},
{"action": "free_requested", "addr": 5, "size": 100, "stream": 0, "time_us": 1003},
{"action": "free_completed", "addr": 5, "size": 100, "stream": 0, "time_us": 1003},
{"action": "alloc", "addr": 5, "size": 7, "stream": 0, "time_us": 1004},
{"action": "free_completed", "addr": 5, "size": 7, "stream": 0, "time_us": 1005}]],
"allocator_settings": {"a": [1, {}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, text)
			assert.Equal(t, want, shorts(got))
			assert.Equal(t, 3, got.Chunks)
			assert.Zero(t, got.Oddities.Total())
		})
	}
}

func TestMiniMallocFreesComeFirstAtEqualTimes(t *testing.T) {
	got := read(t, "id,lower,upper,size\nx,10,20,5\ny,0,10,7\nz,10,11,3\n")
	assert.Equal(t, []short{{a, 0, 7}, {f, 0, 7}, {a, 1, 5}, {a, 2, 3}, {f, 2, 3}, {f, 1, 5}}, shorts(got))
	peak, at := got.PeakLive()
	assert.EqualValues(t, 8, peak)
	assert.Equal(t, 3, at)
	assert.Equal(t, shorts(got), shorts(read(t, "size,id,end,begin\n7,y,10,0\n5,x,20,10\n3,z,11,10\n")), "columns go by name")
	assert.Equal(t, shorts(got), shorts(read(t, "id,lower,upper,size,alignment,gaps,hint,offset\nx,10,20,5,1,,-1,0\ny,0,10,7,,,9,8\nz,10,11,3,0,,,\n")), "columns that change nothing")
}

func TestRMMTimesCountOnPastMidnight(t *testing.T) {
	got := read(t, "Thread,Time,Action,Pointer,Size,Stream\n1,23:59:59:999990,allocate,0x1,1,0\n1,00:00:00:000010,free,0x1,1,0\n")
	assert.EqualValues(t, 20, got.Events[1].Time)
}

func TestMalformedLinesNameFileAndLine(t *testing.T) {
	const g, m, r = "op,id,bytes,time_us\n", "id,lower,upper,size\n", "Thread,Time,Action,Pointer,Size,Stream\n"
	for _, c := range []struct{ text, want string }{
		{"", "x.csv:0: no line"},
		{"hello\n", `x.csv:1: "hello" starts no known format`},
		{g + "a,1,2\n", "x.csv:2: "},
		{g + "a,1,2,3,4\n", "x.csv:2: "},
		{g + "b,1,2,3\n", `x.csv:2: op "b" is neither`},
		{g + "a,-1,2,3\n", `x.csv:2: id "-1" is not`},
		{g + "a,1,99999999999999999999,3\n", `x.csv:2: bytes "99999999999999999999" is not`},
		{g + "a,1,2,x\n", `x.csv:2: time_us "x" is not`},
		{g + "a,1,0,3\n", "x.csv:2: allocation 1 of 0 bytes"},
		{g + "\n#\na,1,,3\n", `x.csv:4: bytes "" is not`},
		{g + "a,1,2,3\na,1,2,3\n", "x.csv:3: id 1 is live already (line 2)"},
		{`{"device_traces":[[{"action":"alloc","addr":1,"size":2,"time_us":9223372036854775807},{"action":"alloc","addr":2,"size":2,"time_us":-9223372036854775808}]]}`,
			"time_us 9223372036854775807 and -9223372036854775808 are more than 63 bits apart"},
		{g + "a,1,2,3\nf,1,4,3\n", "x.csv:3: free of id 1 with 4 bytes, allocated with 2 on line 2"},
		{g + "a,1,9223372036854775807,3\na,2,1,3\n", "x.csv:3: 9223372036854775807 live bytes + 1 overflow"},
		{g + strings.Repeat("x", 2<<20), "x.csv:2: bufio.Scanner: token too long"},
		{m + "1,2,3\n", "x.csv:2: "},
		{m + "1,2,2,5\n", "x.csv:2: lifetime [2,2) is empty"},
		{m + "1,2,3,0\n", "x.csv:2: allocation 0 of 0 bytes"},
		{m + "1,2,3,1\n1,4,5,1\n", `x.csv:3: id "1" was on line 2`},
		{"id,lower,upper,size,size\n", `x.csv:1: column "size": want id, lower`},
		{"id,lower,upper,size,gaps\n1,2,9,4,\n2,2,9,4,3-5\n", `x.csv:3: gaps "3-5"`},
		{"id,lower,upper,size,alignment\n1,2,9,4,1\n2,2,9,4,64\n", "x.csv:3: alignment 64: one buffer's own"},
		{"id,size,a,b\n", "x.csv:1: the header has no column lower"},
		{r + "1,2,3\n", "x.csv:2: "},
		{r + "1,25:00:00:1,allocate,0x1,1,0\n", `x.csv:2: time "25:00:00:1" is not`},
		{r + "1,1:2,allocate,0x1,1,0\n", `x.csv:2: time "1:2" is not`},
		{r + "1,10:00:00:1,steal,0x1,1,0\n", `x.csv:2: action "steal" is none of`},
		{r + "1,10:00:00:1,free,zz,1,0\n", `x.csv:2: pointer "zz" is not`},
		{"{}", "x.csv:1: a JSON object without device_traces"},
		{"{\n\"device_traces\": 3}", "x.csv:2: device_traces is not a list"},
		{"{\n\"device_traces\":\n[3]}", "x.csv:3: a device's trace is not a list"},
		{"{\"device_traces\":[[\n{\"action\":\"alloc\",\n\"size\":3}]]}", "x.csv:3: device 0, entry 0: alloc without addr"},
		{"{\"device_traces\":[[{}]]}", "x.csv:1: device 0, entry 0: an entry without action"},
		{"{\"device_traces\":[[\n{\"action\":7}]]}", "x.csv:2: "},
		{"{\"device_traces\":[[\n", "x.csv:1: unexpected EOF"},
		{"\x1f\x8bxxxxxxxx", "gzip"},
		{`{"godwit":"commands","version":1}` + "\n", "x.csv: a command trace"},
	} {
		_, err := formats.ReadAllocs(t.Context(), strings.NewReader(c.text), "x.csv")
		require.ErrorIs(t, err, input.ErrMalformed, "%.60q", c.text)
		assert.Contains(t, err.Error(), c.want)
		assert.Equal(t, mem.InvalidValue, mem.StatusOf(err))
	}
}

func TestTruncatedGzipIsMalformed(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := io.WriteString(w, "op,id,bytes,time_us\n"+strings.Repeat("f,1,1,1\n", 9999))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = formats.ReadAllocs(t.Context(), bytes.NewReader(z.Bytes()[:z.Len()-20]), "x.csv")
	require.ErrorIs(t, err, input.ErrMalformed)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestWhatIsUnknownIsCountedAndSaid(t *testing.T) {
	g := read(t, "op,id,bytes,time_us\nf,4,10,0\na,4,10,1\nf,4,10,2\nf,4,10,3\n")
	assert.Equal(t, 2, g.Oddities.UnknownFrees)
	assert.Equal(t, []formats.Oddity{{Line: 2, Text: "free of 4, which is not live"}, {Line: 5, Text: "free of 4, which is not live"}}, g.Oddities.First)
	assert.Len(t, g.Events, 2)

	r := read(t, `Thread,Time,Action,Pointer,Size,Stream
1,10:00:00:1,allocate failure,(nil),99,0
1,10:00:00:1,allocate,0x1,10,0
1,10:00:00:1,allocate,0x1,20,0
1,10:00:00:1,allocate,0x2,0,0
1,10:00:00:1,free,0x2,0,0
1,10:00:00:1,free,0x3,1,0
1,10:00:00:1,allocate,0x3,5,0
1,10:00:00:1,free,0x3,5,0
1,10:00:00:1,free,0x3,5,0
`)
	assert.Equal(t, []short{{a, 0, 1}, {a, 1, 10}, {f, 1, 10}, {a, 2, 20}, {f, 0, 1}, {a, 3, 5}, {f, 3, 5}}, shorts(r))
	assert.Equal(t, 1, r.LivedBefore, "0x3 was allocated before the log began")
	o := r.Oddities
	assert.Equal(t, []int{1, 1, 1, 2, 5}, []int{o.FailedAllocs, o.MissingFrees, o.UnknownFrees, o.ZeroSized, o.Total()})

	p := read(t, `{"device_traces":[[{"action":"oom","size":9},{"action":"alloc","addr":1,"size":0},{"action":"alloc","addr":1,"size":2},
{"action":"alloc","addr":1,"size":3},{"action":"free_completed","addr":7}]]}`)
	o = p.Oddities
	assert.Equal(t, []int{1, 1, 1, 1}, []int{o.FailedAllocs, o.MissingFrees, o.UnknownFrees, o.ZeroSized})

	many := read(t, "op,id,bytes,time_us\n"+strings.Repeat("f,1,1,1\n", 100))
	assert.Equal(t, 100, many.Oddities.UnknownFrees)
	assert.Len(t, many.Oddities.First, 16)
}

func TestASnapshotOfTwoDevicesIsTwoTraces(t *testing.T) {
	all, err := formats.ReadAllocs(t.Context(), strings.NewReader(`{"device_traces":[[{"action":"alloc","addr":1,"size":2}],[],[{"action":"alloc","addr":1,"size":3}]]}`), "s.json")
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "s.json#0", all[0].Name)
	assert.Equal(t, "s.json#2", all[1].Name)
}

func TestSharedTraces(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "testdata", "traces")
	for file, want := range map[string]struct {
		events, chunks int
		peak           uint64
	}{
		"gpt2-train.csv.gz":        {51352, 25676, 0x476e0bf68},
		"resnet50-train.csv.gz":    {33613, 16808, 0x1c2dde19c},
		"llama-generate.csv.gz":    {266468, 133234, 0x15c17cd0},
		"minimalloc/A.1048576.csv": {308, 154, 1 << 20},
		"minimalloc/E.1048576.csv": {430, 215, 1 << 20},
	} {
		all, err := formats.OpenAllocs(t.Context(), filepath.Join(dir, file))
		require.NoError(t, err)
		require.Len(t, all, 1)
		tr := all[0]
		assert.Zero(t, tr.Oddities.Total())
		assert.Equal(t, want.events, len(tr.Events), file)
		assert.Equal(t, want.chunks, tr.Chunks, file)
		assert.NotContains(t, tr.Name, ".csv")
		peak, _ := tr.PeakLive()
		assert.EqualValues(t, want.peak, peak, file)
	}
}

// draw makes a valid trace.
func draw(t *rapid.T) *formats.Allocs {
	var b formats.AllocBuilder
	var live []uint64
	for i, n := 0, rapid.IntRange(1, 60).Draw(t, "n"); i < n; i++ {
		if len(live) > 0 && rapid.Bool().Draw(t, "free") {
			k := rapid.IntRange(0, len(live)-1).Draw(t, "k")
			require.True(t, b.Free(live[k], int64(i)))
			live = append(live[:k], live[k+1:]...)
			continue
		}
		id := uint64(i)
		require.NoError(t, b.Alloc(id, rapid.Uint64Range(1, 1<<56).Draw(t, "size"), int64(i)))
		live = append(live, id)
	}
	return b.Build("drawn", formats.FormatGodwit)
}

func TestWritingAndReadingBackGivesTheSameEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := draw(rt)
		closed := shorts(tr)
		for chunk, l := range tr.Lifetimes() {
			if l.End == len(tr.Events) {
				closed = append(closed, short{f, uint32(chunk), l.Size})
			}
		}
		for name, write := range map[string]func(io.Writer) error{
			"godwit": tr.WriteGodwit, "rmm": tr.WriteRMM, "pytorch": tr.WritePyTorch, "minimalloc": tr.WriteMiniMalloc,
		} {
			want := shorts(tr)
			if name == "minimalloc" { // has an end for everything
				want = closed
			}
			var buf bytes.Buffer
			require.NoError(rt, write(&buf))
			back, err := formats.ReadAllocs(t.Context(), &buf, name)
			require.NoError(rt, err)
			require.Len(rt, back, 1)
			require.Equal(rt, want, shorts(back[0]), name)
			require.EqualValues(rt, name, back[0].Format)
			require.Zero(rt, back[0].Oddities.Total())
			if name == "godwit" {
				require.Equal(rt, tr.Events, back[0].Events)
			}
		}
		peak, at := tr.PeakLive()
		wantPeak, wantAt := peakByBrute(tr)
		require.Equal(rt, wantPeak, peak)
		require.Equal(rt, wantAt, at)
	})
}

// peakByBrute sums the lifetimes that cover each event.
func peakByBrute(t *formats.Allocs) (peak uint64, at int) {
	for i := range t.Events {
		var sum uint64
		for _, l := range t.Lifetimes() {
			if l.Start <= i && i < l.End {
				sum += l.Size
			}
		}
		if sum > peak {
			peak, at = sum, i
		}
	}
	return peak, at
}

func TestPyTorchTimesCountFromEachDevicesFirstEntry(t *testing.T) {
	got, err := formats.ReadAllocs(t.Context(), strings.NewReader(`{"segments": [], "device_traces": [
[{"action": "alloc", "addr": 1, "size": 8, "time_us": 5000}, {"action": "free_completed", "addr": 1, "size": 8, "time_us": 5007}],
[{"action": "alloc", "addr": 1, "size": 8, "time_us": 9000}, {"action": "free_completed", "addr": 1, "size": 8, "time_us": 9002}]]}`), "two")
	require.NoError(t, err)
	require.Len(t, got, 2)
	for i, took := range []int64{7, 2} {
		assert.Zero(t, got[i].Events[0].Time)
		assert.EqualValues(t, took, got[i].Events[1].Time)
	}
}

func TestSaveAndOpen(t *testing.T) {
	tr := read(t, "op,id,bytes,time_us\na,1,10,3\nf,1,10,4\n")
	for _, name := range []string{"t.csv", "t.csv.gz"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, formats.SaveAllocs(t.Context(), path, tr, "seed 7\nstrategy fit"))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, name == "t.csv.gz", raw[0] == 0x1f)
		back, err := formats.OpenAllocs(t.Context(), path)
		require.NoError(t, err)
		assert.Equal(t, tr.Events, back[0].Events)
		assert.Equal(t, "t", back[0].Name)
	}
	_, err := formats.OpenAllocs(t.Context(), "nowhere.csv")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Error(t, formats.SaveAllocs(t.Context(), filepath.Join(t.TempDir(), "no", "t.csv"), tr))
}

func TestAllocWriterRecordsFromManyGoroutines(t *testing.T) {
	var buf bytes.Buffer
	w := trace.NewAllocWriter(&buf)
	var wg sync.WaitGroup
	for g := uint64(0); g < 8; g++ {
		wg.Go(func() {
			for i := uint64(0); i < 50; i++ {
				w.Alloc(g<<32|i, i+1)
				w.Free(g<<32|i, i+1)
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Flush())
	tr := read(t, buf.String())
	assert.Equal(t, 400, tr.Chunks)
	assert.Len(t, tr.Events, 800)
	assert.Zero(t, tr.Oddities.Total())
	assert.Zero(t, testing.AllocsPerRun(100, func() { w.Alloc(1, 1); w.Free(1, 1) }))
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWritersReportTheirError(t *testing.T) {
	tr := read(t, "op,id,bytes,time_us\na,1,10,3\nf,1,10,4\n")
	for _, write := range []func(io.Writer) error{tr.WriteGodwit, tr.WriteMiniMalloc, tr.WriteRMM, tr.WritePyTorch} {
		require.ErrorIs(t, write(failingWriter{}), io.ErrClosedPipe)
	}
	require.ErrorIs(t, trace.NewAllocWriter(failingWriter{}).Flush(), io.ErrClosedPipe)
}

func TestAByteOrderMarkIsNoPartOfATrace(t *testing.T) {
	const text = "op,id,bytes,time_us\na,0,16,0\nf,0,,1\n"
	for _, begin := range []string{"", "\ufeff"} {
		all, err := formats.ReadAllocs(t.Context(), strings.NewReader(begin+text), "x.csv")
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Len(t, all[0].Events, 2)
	}
}
