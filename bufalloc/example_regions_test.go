package bufalloc_test

import (
	"fmt"

	"godwit/bufalloc"
)

// A device with a small fast memory and a large slow one: what fits goes to the first.
func ExampleRegions() {
	fast, _ := bufalloc.NewRegion(0, 64<<10, bufalloc.Options{})
	slow, _ := bufalloc.NewRegion(1<<32, 1<<30, bufalloc.Options{})
	both, _ := bufalloc.NewRegions(fast, slow)

	for _, size := range []uint64{40 << 10, 40 << 10, 20 << 10} {
		p, err := both.Alloc(size, 1)
		fmt.Printf("%d KiB in region %d %v\n", size>>10, p.Region, err)
	}
	fmt.Println(both.Stats().Live>>10, "KiB in use")
	// Output:
	// 40 KiB in region 0 <nil>
	// 40 KiB in region 1 <nil>
	// 20 KiB in region 0 <nil>
	// 100 KiB in use
}
