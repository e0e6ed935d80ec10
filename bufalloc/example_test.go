package bufalloc_test

import (
	"errors"
	"fmt"

	"godwit/bufalloc"
	"godwit/mem"
)

// A region of 1 MiB gives out chunks. It never touches the bytes: addresses are numbers.
func Example() {
	r, _ := bufalloc.NewRegion(0x1000, 1<<20, bufalloc.Options{Strategy: bufalloc.BestFit})
	a, _ := r.Alloc(300<<10, 256)
	b, _ := r.Alloc(300<<10, 256)
	addr, _ := r.Addr(b)
	fmt.Printf("b is at %#x\n", addr)

	_, err := r.Alloc(600<<10, 256)
	fmt.Println("no room:", errors.Is(err, mem.ErrNoMemory))
	_ = r.Free(a)
	fmt.Println("freed twice:", errors.Is(r.Free(a), bufalloc.ErrStaleChunk))
	s := r.Stats()
	fmt.Printf("%d KiB live, %d KiB in the largest hole\n", s.Live>>10, s.LargestFree>>10)
	// Output:
	// b is at 0x4c000
	// no room: true
	// freed twice: true
	// 300 KiB live, 424 KiB in the largest hole
}
