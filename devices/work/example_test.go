package work_test

import (
	"errors"
	"fmt"

	"godwit/devices/work"
	"godwit/mem"
)

// memory is a device's, of one chunk, which kernels reach by checked addresses.
type memory struct{ chunk work.Chunk }

var _ work.Space = (*memory)(nil)

// Epoch implements work.Space.
func (m *memory) Epoch() uint64 { return 1 }

// Find implements work.Space.
func (m *memory) Find(addr uint64) (work.Chunk, bool) {
	return m.chunk, addr-m.chunk.Addr < uint64(len(m.chunk.Bytes))
}

// double doubles an element of any type that kernels know.
func double[T work.Scalar](v work.View[T], i int) { v.Store(i, 2*v.Load(i)) }

// Whoever runs kernels begins a launch, runs its work-groups in any order, and ends it. A
// launch that does what it did not promise fails, and only that.
func ExampleLaunch() {
	bytes := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	m := &memory{work.Chunk{Addr: 0x1000, ID: 1, Bytes: bytes}}
	k := work.Kernel{Name: "double", Args: []string{"numbers"}, Func: func(g *work.Group) {
		numbers := work.Global[uint8](g, 0)
		g.Items(func(it work.Item) { double(numbers, it.Global(0)) })
	}}
	shape := work.Shape{Dims: 1, Global: [3]int{8, 1, 1}, Local: [3]int{4, 1, 1}, Groups: [3]int{2, 1, 1}}
	arg := work.Arg{Kind: work.BufferArg, Addr: 0x1000, Size: 8, ID: 1}
	var l work.Launch
	run := func() error {
		l.Run(0, l.Begin(k, shape, []work.Arg{arg}, work.Options{Space: m}))
		return l.End()
	}
	fmt.Println(run(), bytes)
	arg.Promise = work.Promise{Made: true, Access: mem.ReadWrite, Range: mem.Range{End: 4}}
	fmt.Println([]work.Kind{arg.Kind, work.LocalArg}, arg.Promise.Allows(0, 4, true), arg.Promise.Allows(4, 1, false))
	fmt.Println(errors.Is(run(), mem.ErrFault), bytes)
	// Output:
	// <nil> [2 4 6 8 10 12 14 16]
	// [buffer local] true false
	// true [4 8 12 16 10 12 14 16]
}
