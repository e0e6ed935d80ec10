package work

import (
	"fmt"
)

// Group is one work-group of a launch of a Go kernel. A kernel's function is
// called once for each group, and runs the group's work-items with Items; where
// Items returns, all of them have got as far, so that two calls of Items have a
// barrier between them. What the function does outside Items it does once for
// the group.
//
// A Group is valid during the call only, and belongs to its goroutine.
type Group struct {
	run     *Launch
	id      [3]int // of the group
	first   [3]int // global id of the group's first item
	x, y    int    // local id of the item in progress
	z       int
	args    []Arg        // the launch's, with the group's own local memory
	caches  []chunkCache // by argument + 1; 0 is for raw addresses
	scratch []uint64     // storage of local arguments, where the device gives none
}

// Dims is the number of dimensions of the launch, 1 to 3.
func (g *Group) Dims() int { return g.run.shape.Dims }

// ID is the group's index in dimension d.
func (g *Group) ID(d int) int { return g.id[d] }

// Groups is the number of groups in dimension d.
func (g *Group) Groups(d int) int { return g.run.shape.Groups[d] }

// Size is the number of work-items of a group in dimension d.
func (g *Group) Size(d int) int { return g.run.shape.Local[d] }

// Len is the number of work-items of a group.
func (g *Group) Len() int { return g.run.shape.Local[0] * g.run.shape.Local[1] * g.run.shape.Local[2] }

// GlobalSize is the number of work-items of the launch in dimension d.
func (g *Group) GlobalSize(d int) int { return g.run.shape.Global[d] }

// Offset is the global offset of the launch in dimension d.
func (g *Group) Offset(d int) int { return g.run.shape.Offset[d] }

// First is the global id of the group's first work-item in dimension d.
func (g *Group) First(d int) int { return g.first[d] }

// Items runs f for every work-item of the group, dimension 0 fastest. Its
// return is a barrier.
func (g *Group) Items(f func(it Item)) {
	l := &g.run.shape.Local
	for z := range l[2] {
		for y := range l[1] {
			g.y, g.z = y, z
			for x := range l[0] {
				g.x = x
				f(Item{g, x, y, z})
			}
		}
	}
	g.x, g.y, g.z = 0, 0, 0
}

// Item is a work-item.
type Item struct {
	g       *Group
	x, y, z int
}

// Local is the item's id in its group in dimension d.
func (it Item) Local(d int) int {
	switch d {
	case 0:
		return it.x
	case 1:
		return it.y
	}
	return it.z
}

// Global is the item's id in the launch in dimension d, offset included.
func (it Item) Global(d int) int { return it.g.first[d] + it.Local(d) }

// Addr is the address of an argument: the device's, where it has integer
// addresses, or the process's.
func (g *Group) Addr(arg int) uint64 {
	return g.argument(arg, 0, false, BufferArg, LocalArg).Addr
}

// Bytes is the size of an argument in bytes.
func (g *Group) Bytes(arg int) uint64 {
	return g.argument(arg, 0, false, BufferArg, LocalArg, ValueArg).Size
}

// argument returns an argument that must be of one of the kinds.
func (g *Group) argument(arg int, size uint64, write bool, kinds ...Kind) *Arg {
	if arg < 0 || arg >= len(g.args) {
		g.fault(&Fault{Kind: WrongType, Arg: -1, Detail: fmt.Sprintf("there is no argument %d of %d", arg, len(g.args))})
	}
	b := &g.args[arg]
	for _, k := range kinds {
		if b.Kind == k {
			return b
		}
	}
	g.fault(&Fault{Kind: WrongType, Arg: arg, Size: size, Write: write, Detail: fmt.Sprintf("it is a %v, not a %v", b.Kind, kinds[0])})
	return nil
}

// fault completes f and ends the kernel with it.
func (g *Group) fault(f *Fault) {
	g.complete(f)
	panic(f)
}

func (g *Group) complete(f *Fault) {
	k := &g.run.kernel
	f.Kernel, f.Group = k.Name, g.id
	f.Item = [3]int{g.first[0] + g.x, g.first[1] + g.y, g.first[2] + g.z}
	if f.Arg >= 0 && f.Arg < len(k.Args) {
		f.Name = k.Args[f.Arg]
	}
}
