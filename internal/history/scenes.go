package history

import "godwit/runtime"

// Scenes: operations that belong together, drawn between the others. What they try
// would come about by chance too, but seldom: that several commands meet within a word
// while one of them is held back, or several maps at one address.

// scene draws one.
func (g *generator) scene() {
	if g.IntN(2) == 0 {
		g.neighbours()
	} else {
		g.oneStart()
	}
}

// push adds an operation, and returns its name.
func (g *generator) push(op operation) int {
	op.ID = len(g.h.Ops)
	if op.Kind != opSet && op.Kind != opUnmap && op.Salt == 0 {
		op.Salt = g.Uint32()
	}
	g.h.Ops = append(g.h.Ops, op)
	return op.ID
}

// neighbours has a write held back on one device, while bytes that it writes, and then
// bytes right beside, are read on another.
func (g *generator) neighbours() {
	view := g.IntN(len(g.h.Views))
	size := g.h.Views[view].Size
	if size < 48 {
		return
	}
	at := 16 + g.IntN(size-40) // where the held write begins or ends
	here, there := g.IntN(logicalQueues), g.IntN(logicalQueues)
	g.push(operation{Kind: opFill, Queue: here, Dst: view, Size: size})
	u := g.push(operation{Kind: opUser})
	held, beside := operation{DstOff: at - 1 - g.IntN(15)}, operation{DstOff: at, Size: 1 + g.IntN(8)}
	held.Size = at - held.DstOff
	if g.IntN(2) == 0 { // the other way around
		held, beside = operation{DstOff: at, Size: 1 + g.IntN(16)}, operation{DstOff: at - 1 - g.IntN(8)}
		beside.Size = at - beside.DstOff
	}
	kinds := []kind{opFill, opWrite, opProduce}
	g.push(operation{Kind: kinds[g.IntN(3)], Queue: here, Dst: view, DstOff: held.DstOff, Size: held.Size, Wait: []int{u}})
	for _, r := range []operation{held, beside, beside} {
		op := operation{Kind: opRead, Queue: there, Dst: view, DstOff: r.DstOff, Size: r.Size}
		if to := g.IntN(len(g.h.Views)); g.IntN(2) == 0 && g.h.Views[to].Root != g.h.Views[view].Root && g.h.Views[to].Size >= r.Size {
			op = operation{Kind: []kind{opCopy, opReverse, opMix}[g.IntN(3)], Queue: there, Dst: to, Src: view, SrcOff: r.DstOff, Size: r.Size}
		}
		g.push(op)
	}
	g.endSoon(u)
}

// endSoon ends a user event now or some time.
func (g *generator) endSoon(u int) {
	if g.IntN(2) == 0 {
		g.push(operation{Kind: opSet, Ref: u, Fail: g.h.Failing && g.IntN(4) > 0})
		return
	}
	g.users = append(g.users, u)
}

// oneStart maps several ranges from one start, and unmaps them in any order.
func (g *generator) oneStart() {
	view := g.IntN(len(g.h.Views))
	size := g.h.Views[view].Size
	off := g.IntN(size)
	var maps []int
	for i := range 2 + g.IntN(2) {
		n := size - off
		if i == 0 || g.IntN(2) == 0 {
			n = 1 + g.IntN(min(n, 64))
		}
		maps = append(maps, g.push(operation{Kind: opMap, Queue: g.IntN(logicalQueues), Dst: view, DstOff: off, Size: n, Flags: runtime.MapRead}))
	}
	for len(maps) > 0 {
		if g.IntN(6) == 0 {
			g.maps = append(g.maps, maps...)
			return
		}
		g.push(operation{Kind: opUnmap, Queue: g.IntN(logicalQueues), Ref: g.take(&maps)})
	}
	if g.IntN(3) == 0 { // a free ends them
		g.push(operation{Kind: opMap, Queue: g.IntN(logicalQueues), Dst: view, DstOff: off, Size: 1 + g.IntN(size-off), Flags: mapFlags[g.IntN(len(mapFlags))]})
		g.push(operation{Kind: opFreePointer, Queue: g.IntN(logicalQueues), Dst: g.h.Views[view].Root})
		g.push(operation{Kind: opFill, Queue: g.IntN(logicalQueues), Dst: view, Size: size})
		return
	}
	flags := []runtime.MapFlags{runtime.MapWrite, runtime.MapInvalidate}
	g.maps = append(g.maps, g.push(operation{Kind: opMap, Queue: g.IntN(logicalQueues), Dst: view, DstOff: off, Size: 1 + g.IntN(size-off), Flags: flags[g.IntN(2)]}))
}
