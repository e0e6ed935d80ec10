package devices_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/devices"
	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/mem"
)

// A driver is imported for its name, as with database/sql, and opened by it.
func ExampleOpen() {
	ctx := context.Background()
	devs, err := devices.Open(ctx, "tce", devices.Config{Name: "sim", Memory: 1 << 20})
	fmt.Println(len(devs), err)
	info := devs[0].Info()
	fmt.Println(info.Name, info.Type, info.GlobalMemory)
	fmt.Println(devs[0].Close())

	_, err = devices.Open(ctx, "tec", devices.Config{})
	fmt.Println(errors.Is(err, mem.ErrDeviceNotFound))
	// Output:
	// 1 <nil>
	// sim accelerator 1048576
	// <nil>
	// true
}

// two is a driver that opens two devices of another's.
type two struct{ of string }

// Open implements devices.Driver.
func (d two) Open(ctx context.Context, cfg devices.Config) (all []devices.Device, err error) {
	for range 2 {
		one, err := devices.Open(ctx, d.of, cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// A driver enters itself by its name; from then on it is opened as any.
func ExampleRegister() {
	var d devices.Driver = two{"cpu"}
	devices.Register("two", d)
	fmt.Println(slices.Contains(devices.Drivers(), "two"))
	devs, err := devices.Open(context.Background(), "two", devices.Config{})
	fmt.Println(len(devs), err)
	for _, d := range devs {
		fmt.Println(d.Info().Type == devices.CPU, d.Close())
	}
	// Output:
	// true
	// 2 <nil>
	// true <nil>
	// true <nil>
}

// A driver tests a command before it accepts it; errors name the value and the rule.
func ExampleCheckCommand() {
	info := &devices.Info{Name: "d", MaxWorkGroup: 64, MaxWorkItems: [3]uint64{64, 64, 64}}
	err := devices.CheckCommand(&devices.Command{Op: devices.OpFill, Size: 10, Pattern: []byte{1, 2, 3, 4}}, info)
	fmt.Println(errors.Is(err, mem.ErrInvalidValue))
	err = devices.CheckSpace(1, &[3]uint64{}, &[3]uint64{100}, &[3]uint64{128}, info)
	fmt.Println(errors.Is(err, mem.ErrWorkGroupSize))
	fmt.Println(devices.LocalSize(1, &[3]uint64{100}, &[3]uint64{50}, info))
	fmt.Println(devices.RectSpan([3]uint64{8, 2, 1}, 64, 0))
	fmt.Println(errors.Is(devices.NoSVM(info), mem.ErrInvalidOperation), errors.Is(devices.NoKernel("add", "p", nil), mem.ErrKernelName))
	// Output:
	// true
	// true
	// [50 0 0]
	// 72 true
	// true true
}

// half is a copy of which the second half turns out to be needless.
type half struct{ size uint64 }

// Part implements devices.Late.
func (h half) Part() mem.Range { return mem.Range{End: h.size / 2} }

// Moved implements devices.Late.
func (half) Moved() {}

func ExamplePartOf() {
	var l devices.Late = half{64}
	fmt.Println(devices.PartOf(l, 64), devices.PartOf(l, 16))
	// Output: [0,32) [0,16)
}

// flag is set by one goroutine and waited for by another.
type flag struct {
	mu      sync.Mutex
	set     bool         // protected by mu
	changed devices.Cond // of set; its L is mu
}

// wait returns when by has run something that sets the flag.
func (f *flag) wait(by devices.Executor) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = by.Cond(&f.mu)
	by.Go(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.set = true
		f.changed.Signal()
	})
	for !f.set && err == nil {
		err = f.changed.Wait()
	}
	return err
}

// What waits in a driver waits by its executor, so that it may wait in virtual time, too.
func ExampleExecutorOr() {
	var f flag
	fmt.Println(f.wait(devices.ExecutorOr(nil)), f.set)

	line := mem.NewTimeline("q", true, nil)
	p := line.Next()
	var err error = devices.Dependency(p, mem.ErrFault)
	var d *devices.DependencyError
	fmt.Println(errors.As(err, &d), errors.Is(err, mem.ErrDependency), errors.Is(err, mem.ErrFault))
	// Output:
	// <nil> true
	// true true true
}
