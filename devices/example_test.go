package devices_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"godwit/devices"
	"godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

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

// Each work-group adds up its part of x in local memory. What a Go kernel takes is said by types, so that a launch
// with a number of another kind is refused.
func ExampleLocalArg() {
	sums := &devices.Program{Name: "sums", Go: []devices.GoKernel{{
		Name: "sums",
		Args: []devices.ArgInfo{
			devices.BufferArg[float32]("x", mem.Read), devices.BufferArg[float32]("sums", mem.Write),
			devices.LocalArg[float32]("part"), devices.ValueArg[float32]("scale"),
		},
		Func: func(g *work.Group) {
			x, sums, part, scale := work.Global[float32](g, 0), work.Global[float32](g, 1), work.Local[float32](g, 2), work.Value[float32](g, 3)
			g.Items(func(it work.Item) { part.Store(it.Local(0), scale*x.Load(it.Global(0))) })
			total := float32(0) // all items have got as far
			for i := range part.Len() {
				total += part.Load(i)
			}
			sums.Store(g.ID(0), total)
		},
	}}}
	ctx := context.Background()
	d, err := cpu.New(cpu.Options{Name: "a"})
	check(err)
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{d}, OwnDevices: true})
	check(err)
	q, err := c.NewQueue(d, runtime.QueueOptions{})
	check(err)
	prog, err := c.Build(ctx, sums)
	check(err)
	kernel, err := prog.Kernel("sums")
	check(err)
	x, err := runtime.CreateBufferOf(c, 4, 0, []float32{1, 2, 3, 4})
	check(err)
	y, err := runtime.CreateBufferOf[float32](c, 2, 0, nil)
	check(err)
	launch := runtime.Launch{Kernel: kernel, Global: []uint64{4}, Local: []uint64{2}, NoEvent: true,
		Args: []runtime.Arg{runtime.In(x), runtime.Out(y), runtime.Local(8), runtime.Int32(10)}}
	_, err = q.EnqueueLaunch(ctx, launch)
	fmt.Println(err)
	launch.Args[3] = runtime.Float32(10)
	_, err = q.EnqueueLaunch(ctx, launch)
	check(err)
	got := make([]float32, 2)
	check(runtime.ReadSlice(ctx, q, y, 0, got))
	fmt.Println(got)
	check(errors.Join(x.Release(), y.Release(), c.Close(ctx)))
	// Output:
	// launch of sums: argument 3 (scale) is made of an integer: the kernel wants a float: invalid argument value
	// [30 70]
}
