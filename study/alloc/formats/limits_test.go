package formats

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/input"
)

func allocated(f func()) (mib uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func TestATraceIsReadWithinBounds(t *testing.T) {
	for name, text := range map[string]string{
		"white space":     "{" + strings.Repeat("\n", 64<<20),
		"a long value":    `{"a": "` + strings.Repeat("x", 64<<20) + `"}`,
		"a long entry":    `{"device_traces": [[{"action":"` + strings.Repeat("x", 64<<20) + `"}]]}`,
		"depth":           `{"a": ` + strings.Repeat("[", 10<<20),
		"depth in events": `{"device_traces": [[` + strings.Repeat(`{"a":`, 2<<20),
		"a long line":     "op,id,bytes,time_us\n" + strings.Repeat("1", 64<<20),
		"no line at all":  strings.Repeat(",", 64<<20),
		"a long piece":    `{"Details":{"Suballocations":[{"Type":"` + strings.Repeat("x", 64<<20) + `"}]}}`,
		"depth in pools":  `{"DefaultPools":{"Type 0":{"x":` + strings.Repeat("[", 10<<20),
		"pools":           `{"CustomPools":{"Type 0":[` + strings.Repeat("{},", 1<<20) + `{}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReader(text)
			require.Less(t, allocated(func() {
				_, err := ReadAllocs(t.Context(), r, "x")
				require.ErrorIs(t, err, input.ErrMalformed)
				require.Less(t, len(err.Error()), 500)
			}), uint64(160), "MiB")
		})
	}
}

// A compressed file counts as what it becomes.
func TestACompressedTraceIsBoundedToo(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(bytes.Repeat([]byte{'1'}, 64<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Less(t, allocated(func() {
		_, err := ReadAllocs(t.Context(), &z, "x")
		require.ErrorIs(t, err, input.ErrMalformed)
	}), uint64(16), "MiB")
	_, err = readAllocs(t.Context(), input.Limit(t.Context(), strings.NewReader("op,id,bytes,time_us\na,1,2,3\n"), "x", 25), "x")
	require.ErrorIs(t, err, input.ErrTooLarge)
}

// Each pair of lines is another day: the days are counted, not walked through.
func TestMidnightAgainAndAgain(t *testing.T) {
	text := rmmHeader + "\n" + strings.Repeat("1,23:00:00.0,free,0x1,1,0\n1,01:00:00.0,free,0x1,1,0\n", 150_000)
	all, err := ReadAllocs(t.Context(), strings.NewReader(text), "x")
	require.NoError(t, err)
	require.Equal(t, 299_999, all[0].Oddities.UnknownFrees)
	require.Equal(t, 1, all[0].LivedBefore, "the first is the free of what was there")
}

func TestReadingATraceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{"op,id,bytes,time_us\na,1,2,3\n", `{"device_traces": []}`} {
		_, err := ReadAllocs(ctx, strings.NewReader(text), "x")
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err := OpenAllocs(t.Context(), "/dev/zero")
	require.Error(t, err)
}

// Lines of entries are told right though the newlines before them are forgotten.
func TestLinesOfEntriesInJSON(t *testing.T) {
	var b strings.Builder
	b.WriteString("{\"x\":\n[1,\n2],\n\"device_traces\":\n[[\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "{\"action\":\"alloc\",\"addr\":%d,\"size\":1}\n,\n", i)
	}
	b.WriteString("{\"action\":\"alloc\",\"size\":1}]]}")
	_, err := ReadAllocs(t.Context(), strings.NewReader(b.String()), "x")
	require.ErrorContains(t, err, "x:10006: device 0, entry 5000: alloc without addr")
}

// Pickles are held whole, but what they would become is counted before it is built.
func TestAPickleIsReadWithinBounds(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"dicts":   {"\x80\x02]" + strings.Repeat("}a", 16<<20), "values of more than 2147483648 bytes"},
		"marks":   {"\x80\x02" + strings.Repeat("(", 16<<20), "nested more than 1000 deep"},
		"lists":   {"\x80\x02" + strings.Repeat("]", 1<<15) + strings.Repeat("a", 1<<15) + ".", "nested more than 1000 deep"},
		"tuples":  {"\x80\x02N" + strings.Repeat("\x85", 16<<20), "nested more than 1000 deep"},
		"memo":    {"\x80\x04]\x94" + nestedByMemo(1<<14), "nested more than 1000 deep"},
		"values":  {"\x80\x02" + strings.Repeat("N", 16<<20), "more than 65536 values at a time"},
		"cut":     {"\x80\x02}X\xff\xff\xff\x03" + strings.Repeat("x", 63<<20), "are left"},
		"pops":    {"\x80\x02Na.", "a value is missing"},
		"no mark": {"\x80\x02}u.", "a mark is missing"},
		"devices": {"\x80\x02}\x8c\x0ddevice_traces](" + strings.Repeat("N", 1<<15) + "e(" + strings.Repeat("N", 1<<15) + "e(NNes.", "more than 65536 devices"},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReader(c.text)
			require.Less(t, allocated(func() {
				_, err := ReadAllocs(t.Context(), r, "x")
				require.ErrorIs(t, err, input.ErrMalformed)
				require.ErrorContains(t, err, c.says)
			}), uint64(64+len(c.text)>>20), "MiB, the file among them")
		})
	}
}

// nestedByMemo is n lists, each in the next, of which two are on the stack at a time.
func nestedByMemo(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("]")
		b.WriteString("j" + string([]byte{byte(i), byte(i >> 8), 0, 0}) + "a\x94")
	}
	return b.String()
}

// One list of entries that stands for many devices: what is looked at is counted,
// and not what the file holds.
func TestAPickleThatNamesOneValueManyTimes(t *testing.T) {
	entry := "}(\x8c\x06action\x8c\x03oom" + strings.Repeat("NN", 1000) + "u"
	text := "\x80\x02}\x8c\x0ddevice_traces](]q\x01(" + entry + "q\x02" + strings.Repeat("h\x02", 1<<12) + "e" + strings.Repeat("h\x01", 1<<12) + "es."
	_, err := ReadAllocs(t.Context(), strings.NewReader(text), "x")
	require.ErrorIs(t, err, input.ErrMalformed)
	require.ErrorContains(t, err, "more fields than the file has bytes")
}

func TestReadingAPickleEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := ReadAllocs(ctx, strings.NewReader("\x80\x02}."), "x")
	require.ErrorIs(t, err, context.Canceled)
	err = new(pyDevices).read(ctx, func(int) (e pyEntry, line int, more bool, err error) { return pyEntry{Action: "oom"}, 0, true, nil })
	require.ErrorIs(t, err, context.Canceled)
}

// VMA's statistics of a large program are longer than one value may be.
func TestVMAsStatisticsMayBeLong(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"DefaultPools":{"Type 0":{"Blocks":{"0":{"TotalBytes":1000000,"Suballocations":[{"Offset":0,"Size":1,"Type":"A"}`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `,{"Offset":%d,"Size":1,"Type":"A","CustomData":"0x0000000000000000"}`, i+1)
	}
	b.WriteString(`]}}}}}`)
	all, err := ReadAllocs(t.Context(), strings.NewReader(b.String()), "x")
	require.NoError(t, err)
	require.Len(t, all[0].Events, 100_001)
}
