package formats_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/internal/input"
	"godwit/mem/trace"
	"godwit/study/alloc/formats"
)

// The pickles were written by Python's pickle.dumps at protocols 2 and 4, in the
// form of torch.cuda.memory._snapshot().
func TestASnapshotsPickle(t *testing.T) {
	for _, file := range []string{"snapshot2.pickle", "snapshot4.pickle"} {
		all, err := formats.OpenAllocs(t.Context(), filepath.Join("testdata", file))
		require.NoError(t, err, file)
		require.Len(t, all, 1, "the second device recorded nothing")
		tr := all[0]
		assert.Equal(t, formats.FormatPyTorch, tr.Format)
		assert.Equal(t, file[:len(file)-len(".pickle")], tr.Name)
		assert.Equal(t, []formats.AllocEvent{
			{Size: 77, Chunk: 0, Op: trace.OpAlloc}, // lived before
			{Size: 512, Time: 5, Chunk: 1, Op: trace.OpAlloc},
			{Size: 1 << 20, Time: 9, Chunk: 2, Op: trace.OpAlloc},
			{Size: 512, Time: 12, Chunk: 1, Op: trace.OpFree},
			{Size: 1024, Time: 20, Chunk: 3, Op: trace.OpAlloc},
			{Size: 1 << 20, Time: 30, Chunk: 2, Op: trace.OpFree},
			{Size: 77, Time: 31, Chunk: 0, Op: trace.OpFree},
		}, tr.Events)
		assert.Equal(t, 1, tr.Oddities.FailedAllocs)
		assert.Zero(t, tr.Oddities.UnknownFrees)
	}
}

func TestAPickleThatNamesAClassIsRefused(t *testing.T) {
	_, err := formats.OpenAllocs(t.Context(), filepath.Join("testdata", "evil.pickle"))
	require.ErrorIs(t, err, input.ErrMalformed)
	assert.Contains(t, err.Error(), "a memory snapshot has no need of it")
	for name, text := range map[string]string{
		"a global":              "\x80\x02cos\nsystem\n.",
		"a length beyond":       "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
		"a frame beyond":        "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
		"frames in frames":      "\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x95\x00\x00\x00\x00\x00\x00\x00\x00.",
		"nothing on the stack":  "\x80\x02.",
		"an append to nothing":  "\x80\x02a.",
		"no dict":               "\x80\x02]q\x00.",
		"no device_traces":      "\x80\x02}q\x00.",
		"cut short":             "\x80\x02}q\x00",
		"another protocol":      "\x80\x02\x80\x06}.",
		"device_traces, a dict": "\x80\x04}\x8c\x0ddevice_traces}s.",
	} {
		all, err := formats.ReadAllocs(t.Context(), bytes.NewReader([]byte(text)), "x")
		require.ErrorIs(t, err, input.ErrMalformed, name)
		assert.Nil(t, all, name)
	}
}

func TestVMAsStatistics(t *testing.T) {
	all, err := formats.OpenAllocs(t.Context(), filepath.Join("testdata", "vma.json"))
	require.NoError(t, err)
	require.Len(t, all, 2, "memory type 1 is empty")
	assert.Equal(t, "vma#Type 0", all[0].Name)
	assert.Equal(t, "vma#Type 0, textures", all[1].Name)
	var sizes []uint64
	for _, e := range all[0].Events {
		sizes = append(sizes, e.Size)
	}
	assert.Equal(t, []uint64{256, 255, 1024, 4096}, sizes, "block 2 before block 10, the dedicated ones last")
	virtual := `{"Stats":{},"Details":{"TotalBytes":100,"UnusedBytes":60,"Suballocations":[{"Offset":10,"Type":"VirtualAllocation","Size":40}]}}`
	all, err = formats.ReadAllocs(t.Context(), bytes.NewReader([]byte(virtual)), "x")
	require.NoError(t, err)
	assert.Equal(t, uint64(40), all[0].Events[0].Size)
	for name, text := range map[string]string{
		"overlapping": `{"Details":{"TotalBytes":100,"Suballocations":[{"Offset":10,"Type":"A","Size":40},{"Offset":49,"Type":"A","Size":4}]}}`,
		"outside":     `{"Details":{"TotalBytes":100,"Suballocations":[{"Offset":90,"Type":"A","Size":11}]}}`,
		"overflow":    `{"Details":{"TotalBytes":100,"Suballocations":[{"Offset":18446744073709551615,"Type":"A","Size":2}]}}`,
		"no size":     `{"Details":{"TotalBytes":100,"Suballocations":[{"Offset":0,"Type":"A"}]}}`,
		"a list":      `{"DefaultPools":[]}`,
	} {
		_, err := formats.ReadAllocs(t.Context(), bytes.NewReader([]byte(text)), "x")
		require.ErrorIs(t, err, input.ErrMalformed, name)
	}
}

func seed(f *testing.F, file string) string {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(f, err)
	return string(text)
}

func FuzzReadPickle(f *testing.F) {
	fuzzReader(f, formats.FormatPyTorch, seed(f, "snapshot2.pickle"), seed(f, "snapshot4.pickle"), seed(f, "evil.pickle"))
}

func FuzzReadVMA(f *testing.F) {
	fuzzReader(f, "vma", seed(f, "vma.json"), `{"Details":{"TotalBytes":9,"Suballocations":[{"Offset":0,"Type":"A","Size":9}]}}`)
}
