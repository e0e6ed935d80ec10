package resource_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/lib/resource"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// A context gets its device memory through a stack of layers of the program's own.
func Example() {
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{Name: "cpu0", Memory: 1 << 20})
	check(err)
	var log bytes.Buffer
	w := trace.NewAllocWriter(&log)
	var stack mem.Resource
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true, NoEviction: true,
		Resource: func(id mem.MemoryID, base mem.Resource) mem.Resource {
			if id == mem.Host {
				return base
			}
			stack = layers(base, w)
			return stack
		}})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	fill := func(name string, size uint64) *runtime.Buffer {
		b, err := c.CreateNamedBuffer(name, size, 0, nil)
		check(err)
		e, err := q.EnqueueFill(ctx, b, []byte{1}, 0, size)
		var full *resource.OutOfMemory
		if errors.As(err, &full) {
			fmt.Println(name, "is over the budget:", full.Verdict == resource.Budget)
			return b
		}
		check(err)
		check(e.Wait(ctx))
		check(e.Release())
		return b
	}
	a, b := fill("a", 300<<10), fill("b", 300<<10)
	s, _ := resource.Find[*resource.Statistics](stack)
	f := s.Figures()
	fmt.Println(f.Allocated.Current>>10, "KiB, refused", f.OutOfMemory)
	track, _ := resource.Find[*resource.Track](stack)
	held := track.Holdings()
	fmt.Println(len(held), "block of", held[0].Block.Size>>10, "KiB")
	check(a.Release())
	check(b.Release())
	check(c.Close(ctx))
	check(w.Flush())
	fmt.Println(resource.Describe(stack)[:28], strings.Count(log.String(), "\na,"), "traced")
	// Output:
	// b is over the budget: true
	// 300 KiB, refused 1
	// 1 block of 300 KiB
	// trace > track > statistics > 1 traced
}

// What a stack can be made of, and why there is no room in one.
var (
	_ = []resource.Layer{(*resource.Trace)(nil), (*resource.Track)(nil), (*resource.Statistics)(nil), (*resource.Retry)(nil),
		(*resource.Limit)(nil), (*resource.Bins)(nil), (*resource.Pool)(nil), (*resource.Fail)(nil)}
	_    = map[resource.Verdict]resource.Holder{resource.Capacity: {}, resource.Budget: {}, resource.Fragmentation: {}, resource.Cached: {}, resource.Pending: {}}
	_, _ = resource.Figures{Allocated: resource.Stat{}}, resource.Holding{}
)

func layers(r mem.Resource, w *trace.AllocWriter) mem.Resource {
	pool, err := resource.NewPool(r, resource.PoolOptions{Slab: 256 << 10})
	check(err)
	bins, err := resource.NewBins(pool, 64<<10, 256, 4096)
	check(err)
	fixed, err := resource.NewFixed(bins, 128, 64)
	check(err)
	limit, err := resource.NewLimit(fixed, 512<<10)
	check(err)
	up := resource.NewTrack(resource.NewStatistics(resource.NewRetry(resource.NewFail(limit))), 0)
	return resource.NewTrace(up, w)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A pool carves blocks out of slabs, so that a buffer costs no allocation of its device's, and keeps what is freed
// for the next.
func ExampleNewPool() {
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{Name: "cpu0", Memory: 8 << 20})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true,
		Resource: func(id mem.MemoryID, base mem.Resource) mem.Resource {
			if id == mem.Host {
				return base
			}
			carved, err := resource.NewPool(base, resource.PoolOptions{Slab: 1 << 20})
			check(err)
			return carved
		}})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	for range 3 {
		b, err := c.CreateBuffer(300<<10, 0, nil)
		check(err)
		e, err := q.EnqueueFill(ctx, b, []byte{1}, 0, 300<<10)
		check(err)
		check(e.Wait(ctx))
		check(errors.Join(e.Release(), b.Release()))
	}
	s := c.Resource(1).Stats()
	fmt.Println(s.Allocs, "blocks,", d.Memory().Stats().Allocs, "slab;", s.Cached>>10, "KiB cached")
	fmt.Println(c.Resource(1).Trim(0)>>10, "KiB given back")
	check(c.Close(ctx))
	// Output:
	// 3 blocks, 1 slab; 1024 KiB cached
	// 1024 KiB given back
}
