package formats_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"godwit/study/alloc/formats"
)

// fuzzReader holds a reader to its promise on any input: an error wrapping
// input.ErrMalformed, or traces that survive being written and read: the reader of
// Godwit's own format holds them to the rules of traces.
func fuzzReader(f *testing.F, format formats.AllocFormat, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := formats.ReadAllocs(t.Context(), bytes.NewReader(data), "fuzz")
		if err != nil {
			if all != nil {
				t.Fatalf("traces beside the error %v", err)
			}
			return
		}
		for _, tr := range all {
			if tr.Format != format {
				continue
			}
			var buf bytes.Buffer
			if err := tr.WriteGodwit(&buf); err != nil {
				t.Fatal(err)
			}
			back, err := formats.ReadAllocs(t.Context(), &buf, "back")
			if err != nil {
				t.Fatal(err)
			}
			if len(back[0].Events) != len(tr.Events) {
				t.Fatalf("%d events became %d", len(tr.Events), len(back[0].Events))
			}
		}
	})
}

func FuzzReadGodwit(f *testing.F) {
	gz, err := os.ReadFile(filepath.Join("testdata", "tiny.csv.gz"))
	if err != nil {
		f.Fatal(err)
	}
	fuzzReader(f, formats.FormatGodwit, string(gz), "op,id,bytes,time_us\na,1,10,0\nf,1,10,1\nf,2,,-5\n# end\n")
}

func FuzzReadMiniMalloc(f *testing.F) {
	fuzzReader(f, formats.FormatMiniMalloc, "id,lower,upper,size\n0,5,10,3\n1,0,5,9223372036854775807\n",
		"size,begin,end,id\n3,-5,10,x\n")
}

func FuzzReadRMM(f *testing.F) {
	fuzzReader(f, formats.FormatRMM, `Thread,Time,Action,Pointer,Size,Stream
1,23:59:59:999999,allocate,0x7f01,10,0x0
1,00:00:00.1,allocate,0x7f01,10,0x0
1,12:00:00.1,free,(nil),0,0x0
1,1634567890.123456,allocate failure,(nil),10,0x0
`)
}

func FuzzReadPyTorch(f *testing.F) {
	fuzzReader(f, formats.FormatPyTorch, `{"segments":[{"a":[1]}],"device_traces":[[],[
{"action":"alloc","addr":139712,"size":512,"stream":0,"time_us":17,"frames":[]},
{"action":"free_requested","addr":139712},{"action":"free_completed","addr":139712},{"action":"oom","size":1}]]}`)
}
