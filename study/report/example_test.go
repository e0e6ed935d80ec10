package report_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"godwit/bufalloc"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
	"godwit/study/report"
)

// A page of one trace with its memory map: all in one file, to be opened anywhere.
func ExampleWrite() {
	ctx := context.Background()
	all, _ := formats.ReadAllocs(ctx, strings.NewReader("op,id,bytes,time_us\na,1,4096,0\nf,1,,2\n"), "tiny.csv")
	stream, _ := replay.FromTrace(all[0], 256)
	fit := replay.Of(bufalloc.Fit)
	recording, _ := replay.Record(ctx, stream, fit, 1<<20)
	var page bytes.Buffer
	err := report.Write(&page, report.Page{Title: "tiny", Views: []report.View{{Trace: all[0], Stream: stream, Recordings: []*replay.Recording{recording}}}})
	fmt.Println(err, strings.Contains(page.String(), "<title>tiny</title>"))
	// Output: <nil> true
}
