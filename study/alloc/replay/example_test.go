package replay_test

import (
	"context"
	"fmt"
	"strings"

	"godwit/bufalloc"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
)

// A trace of four allocations goes through two strategies.
func Example() {
	ctx := context.Background()
	all, err := formats.ReadAllocs(ctx, strings.NewReader("op,id,bytes,time_us\na,1,4096,0\na,2,4096,1\nf,1,,2\na,3,2048,3\na,4,2048,4\n"), "tiny.csv")
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := replay.FromTrace(all[0], 256)
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := replay.Measure(ctx, []*replay.Stream{stream}, replay.Strategies(bufalloc.BestFit, bufalloc.GoodFit), replay.Options{})
	for _, r := range results {
		fmt.Println(r.Strategy, r.PeakLive, r.Region, r.Overhead)
	}
	fmt.Println(err)
	// Output:
	// bestfit 8192 8192 1
	// goodfit 8192 10496 1.28125
	// <nil>
}
