package scenario_test

import (
	"context"
	"fmt"

	"godwit/study/scenario"
)

// A scenario is read, run and verified; what moved stands beside the lower bound.
func Example() {
	ctx := context.Background()
	s, err := scenario.Parse(ctx, "two.yaml", []byte(`
devices: [{name: left, driver: cpu}, {name: right, driver: tce, memory: 1 MiB}]
buffers: [{name: a, size: 4 KiB, fill: 7}]
commands:
- {fill: a, pattern: 1, size: 1 KiB, queue: left}
- {read: a, queue: right}
`), scenario.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := scenario.Run(ctx, s, scenario.RunOptions{})
	fmt.Println(r.OK(), err)
	fmt.Println(r.BytesMoved, "of at least", r.BytesLowerBound)
	for _, c := range r.Copies {
		fmt.Printf("%d bytes from %s to %s\n", c.Bytes, c.From, c.To)
	}
	// Output:
	// true <nil>
	// 4096 of at least 4096
	// 1024 bytes from left to right
	// 3072 bytes from host to right
}
