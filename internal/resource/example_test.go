package resource_test

import (
	"fmt"

	"godwit/internal/resource"
	"godwit/internal/storage"
	"godwit/mem"
)

// Layers are stacked: here a limit over statistics over a device's memory.
func Example() {
	device := storage.NewHost("device", 0)
	counted := resource.NewStatistics(device)
	limited, _ := resource.NewLimit(counted, 1<<20)

	var b [1]mem.Block
	for _, size := range []uint64{600 << 10, 600 << 10} {
		outcome, err := limited.AllocAll([]mem.Request{{Size: size}}, b[:1], nil)
		fmt.Println(outcome, err)
		if outcome == mem.Ready {
			defer func(b mem.Block) { _ = limited.FreeAfter(b, nil) }(b[0])
		}
	}
	fmt.Println(limited.Stats().Live >> 10)
	// Output:
	// ready <nil>
	// over budget <nil>
	// 600
}
