package engine_test

import (
	"context"
	"fmt"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/devices/engine"
	"godwit/mem"
)

// slot is what slots gives for each block, in bytes.
const slot = 4096

// slots is the Store of an accelerator whose memory is slots of one size.
type slots struct {
	all  int
	free []engine.Place
}

var _ engine.Store = (*slots)(nil)

func newSlots(n int) *slots {
	s := &slots{all: n}
	for i := range n {
		s.free = append(s.free, engine.Place{Addr: uint64(n-1-i) * slot})
	}
	return s
}

// Take implements engine.Store.
func (s *slots) Take(reqs []mem.Request, at []engine.Place) bool {
	if !s.Fits(reqs, nil) {
		return false
	}
	for i := range reqs {
		last := len(s.free) - 1
		at[i], s.free = s.free[last], s.free[:last]
	}
	return true
}

// Give implements engine.Store.
func (s *slots) Give(p engine.Place, _ uint64) { s.free = append(s.free, p) }

// Fits implements engine.Store.
func (s *slots) Fits(reqs []mem.Request, gone []engine.Gone) bool {
	for _, r := range reqs {
		if r.Size > slot {
			return false
		}
	}
	return len(reqs) <= len(s.free)+len(gone)
}

// Limits implements engine.Store.
func (s *slots) Limits() (capacity, largest uint64) {
	return uint64(s.all) * slot, uint64(min(1, len(s.free))) * slot
}

// Trim implements engine.Store: nothing is cached.
func (s *slots) Trim(uint64) uint64 { return 0 }

// Cached implements engine.Store.
func (s *slots) Cached() uint64 { return 0 }

// Check implements engine.Store.
func (s *slots) Check() error {
	if len(s.free) > s.all {
		return fmt.Errorf("%d slots are free of %d", len(s.free), s.all)
	}
	return nil
}

// accelerator is a driver's device: the engine has its queues, slots its memory.
type accelerator struct {
	engine.Device
	blocks *engine.Blocks
	bytes  []byte
}

var _ engine.Executor = (*accelerator)(nil)

// Execute implements engine.Executor.
func (d *accelerator) Execute(cmd *devices.Command) error {
	dst, err := d.at(&cmd.Dst, cmd.Size)
	if err != nil {
		return err
	}
	if cmd.Op == devices.OpFill {
		engine.FillBytes(dst, cmd.Pattern)
		return nil
	}
	src, err := d.at(&cmd.Src, cmd.Size)
	copy(dst, src)
	return err
}

// at is where the bytes of an end of a command are.
func (d *accelerator) at(l *devices.Loc, size uint64) ([]byte, error) {
	if l.Device == nil {
		return l.Bytes[l.Off:][:size], nil
	}
	addr, err := d.blocks.Address(l.Block, l.Off, size)
	if err != nil {
		return nil, err
	}
	return d.bytes[addr:][:size], nil
}

// A driver says where blocks lie and what commands do; the engine does all else.
func ExampleStore() {
	const n = 4
	d := &accelerator{blocks: engine.NewBlocks("slotted", 128, newSlots(n)), bytes: make([]byte, n*slot)}
	d.Init(devices.Info{Driver: "slotted", Name: "slotted", Type: devices.Accelerator, GlobalMemory: n * slot, MaxAlloc: slot, BaseAlign: 128},
		d.blocks, d, engine.EngineOptions{Workers: 1, NoKernels: true})
	var two [2]mem.Block
	outcome, err := d.Memory().AllocAll([]mem.Request{{Size: 100}, {Size: slot}}, two[:], nil)
	fmt.Println(outcome == mem.Ready, err)

	q, err := d.NewQueue(devices.QueueOptions{})
	check(err)
	fill := devices.Command{Op: devices.OpFill, Dst: devices.Loc{Device: d, Block: two[1], Off: 8}, Size: 4, Pattern: []byte{7}}
	_, err = q.Submit(&fill, nil)
	check(err)
	got := make([]byte, 6)
	read := devices.Command{Op: devices.OpCopy, Src: devices.Loc{Device: d, Block: two[1], Off: 7}, Dst: devices.Loc{Bytes: got}, Size: 6}
	p, err := q.Submit(&read, nil)
	check(err)
	check(q.Wait(context.Background(), p, devices.BlockThread))
	fmt.Println(got)
	check(q.Close())
	for _, b := range two {
		check(d.Memory().FreeAfter(b, nil))
	}
	check(d.Memory().Check())
	check(d.Close())
	// Output:
	// true <nil>
	// [0 7 7 7 7 0]
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A device's page-locked memory may be addresses that the driver has locked once, here
// 64 KiB, and says so.
func ExampleNewPinned() {
	region, err := engine.NewRegion(1<<20, 64<<10, bufalloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	locked := struct { // as a driver's device would have it
		places *engine.Region // a Store, as the slots of ExampleStore are
		*engine.Pinned
	}{places: region}
	locked.Pinned = engine.NewPinned("pinned", 4096, locked.places, func() devices.Locking { return devices.Locking{Locked: 64 << 10} })
	b := make([]mem.Block, 1)
	outcome, err := locked.AllocAll([]mem.Request{{Size: 10_000}}, b, nil)
	fmt.Println(outcome, err, b[0].Addr >= 1<<20, locked.Locking().Locked)
	fmt.Println(locked.FreeAfter(b[0], nil), locked.Close())
	// Output:
	// ready <nil> true 65536
	// <nil> <nil>
}
