package history

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"godwit/runtime"
)

// generator draws a history.
type generator struct {
	*rand.Rand
	h     *History
	align int   // bytes: of sub-buffers' origins
	users []int // user events not set yet
	maps  []int // maps not unmapped yet
	// How often each kind is drawn, itself drawn, so that histories differ in
	// character: some write, some read, some are held back most of the time.
	weights []weight
	total   int
	waits   float64
	held    float64 // how much of what is waited for is a user event that is not set
	scenes  float64 // how often one is drawn in place of an operation
	beside  float64 // how often an operation is put beside an earlier one
}

type weight struct {
	kind kind
	n    int
}

// Draw says what Generate draws.
type Draw struct {
	Seed    uint64
	Ops     int         // of each goroutine
	Source  rand.Source // where not nil, draws come from there
	Align   int         // bytes: sub-buffers begin at multiples of it, a power of two; 0 is Align
	Failing bool        // about every other user event fails, some host calls do, and some maps are given up
	Rich    bool        // it has maps, shared virtual memory, rectangles and content sizes
	Evicts  bool        // its largest command does not need all buffers (see History.Short)
	// NoLaunches is for devices that run no kernels: copies and fills come in place of launches.
	NoLaunches bool
	// Goroutines, where not 0, is how many there are: over the same buffers (Shared), or each over
	// buffers of its own, which it renews and maps while the others press on the memories.
	Goroutines int
	Shared     bool
}

// Generate draws a history.
func Generate(d Draw) (h *History) {
	switch {
	case d.Goroutines > 0 && d.Shared:
		h = d.shared()
	case d.Goroutines > 0:
		h = d.apart()
	default:
		for h = d.one(); d.Rich && !h.rich() || d.Evicts && h.WorkingSet() == h.Bytes(); h = d.one() {
			d.Seed += 1 << 32
		}
	}
	if d.NoLaunches {
		h.withoutLaunches()
	}
	h.addSizes()
	return h
}

// one draws what one goroutine does.
func (d *Draw) one() *History {
	src, stream := d.Source, uint64(0)
	if d.Failing {
		stream = 1
	}
	if src == nil {
		src = rand.NewPCG(d.Seed, stream)
	}
	g := &generator{Rand: rand.New(src), h: &History{Seed: d.Seed, Failing: d.Failing}, align: cmp.Or(d.Align, Align)}
	g.character()
	if d.Failing {
		g.weigh(opUser, 2)
		g.weigh(opSet, 4)
		g.weigh(opFail, 1)
		g.weigh(opMapBriefly, 1+g.IntN(3))
	}
	g.buffers()
	g.ops(d.Ops)
	return g.h
}

// rich reports whether the history has a bit of everything.
func (h *History) rich() bool {
	has := func(kinds ...kind) bool {
		return slices.ContainsFunc(h.Ops, func(op operation) bool { return slices.Contains(kinds, op.Kind) })
	}
	svm := slices.ContainsFunc(h.Roots, func(r rootSpec) bool { return r.Kind == svmRoot || r.Kind == fineRoot })
	return svm && has(opMap) && has(opWriteRect, opReadRect) && has(opCopyRect) && has(opCount) && has(opCountBy) && has(opRenew, opFreePointer)
}

// character draws how often each kind comes.
func (g *generator) character() {
	for _, k := range []kind{opWrite, opRead, opCopy, opFill, opMix, opProduce, opReverse} {
		g.weigh(k, 1+g.IntN(10))
	}
	for _, k := range []kind{opWriteRect, opReadRect, opCopyRect} {
		g.weigh(k, g.IntN(6))
	}
	maps := g.IntN(8)
	g.weigh(opMap, maps)
	g.weigh(opUnmap, maps*2)
	for _, k := range []kind{opMigrate, opMarker, opBarrier, opUser, opSet} {
		g.weigh(k, g.IntN(4))
	}
	for _, k := range []kind{opFinish, opRenew, opRefuse, opMapBriefly, opFreePointer} {
		g.weigh(k, g.IntN(2))
	}
	g.scenes = g.Float64() * 0.1
	g.waits, g.held = g.Float64()*0.6, 0.1+g.Float64()*0.6
	if g.IntN(2) == 0 {
		g.weigh(opCount, 1+g.IntN(6))
		g.weigh(opCountBy, 1+g.IntN(3))
	}
}

func (g *generator) weigh(k kind, n int) {
	g.weights = append(g.weights, weight{k, n})
	g.total += n
}

func (g *generator) ops(n int) {
	for len(g.h.Ops) < n {
		if g.Float64() < g.scenes {
			g.scene()
			continue
		}
		g.h.Ops = append(g.h.Ops, g.op(len(g.h.Ops)))
	}
}

// kinds are drawn from for roots.
var kinds = []rootKind{plainRoot, plainRoot, contentRoot, lentRoot, lentRoot, lentRoot, lentRoot, hostRoot, svmRoot, svmRoot, fineRoot}

// buffers draws roots and views, sub-buffers mostly overlapping.
func (g *generator) buffers() {
	g.beside = g.Float64() * 0.6
	for root := range 1 + g.IntN(4) {
		size, kind := g.align*(1+g.IntN(32)), kinds[g.IntN(len(kinds))]
		if g.IntN(3) == 0 {
			size += g.IntN(g.align)
		}
		if kind == svmRoot && g.IntN(2) == 0 { // rights come in pages
			size = min(3*size, 64*g.align)
		}
		g.h.Roots = append(g.h.Roots, rootSpec{Size: size, Kind: kind})
		g.h.Views = append(g.h.Views, viewSpec{Root: root, Size: size})
		for range g.IntN(4) {
			v := viewSpec{Root: root, Origin: g.align * g.IntN((size+g.align-1)/g.align), Sub: true}
			v.Size = 1 + g.IntN(size-v.Origin)
			if last := g.h.Views[len(g.h.Views)-1]; last.Sub && g.IntN(2) == 0 { // beside the last
				if at := (last.Origin + last.Size) &^ (g.align - 1); at > last.Origin && at < size {
					g.h.Views[len(g.h.Views)-1].Size = at - last.Origin
					v.Origin, v.Size = at, 1+g.IntN(size-at)
				}
			}
			g.h.Views = append(g.h.Views, v)
		}
	}
}

func (g *generator) kind() kind {
	n := g.IntN(g.total)
	for _, w := range g.weights {
		if n -= w.n; n < 0 {
			return w.kind
		}
	}
	panic("weights do not add up")
}

// mapFlags are drawn from for maps.
var mapFlags = []runtime.MapFlags{runtime.MapRead, runtime.MapRead, runtime.MapWrite, runtime.MapRead | runtime.MapWrite, runtime.MapInvalidate}

func (g *generator) op(id int) operation {
	op := operation{ID: id, Kind: g.kind(), Queue: g.IntN(logicalQueues), Salt: g.Uint32()}
	for g.Float64() < g.waits && id > 0 && len(op.Wait) < 4 {
		w := g.IntN(id)
		if len(g.users) > 0 && g.Float64() < g.held {
			w = g.users[g.IntN(len(g.users))]
		}
		op.Wait = append(op.Wait, w)
	}
	if op.Kind == opUnmap && len(g.maps) == 0 {
		op.Kind = opMap
	}
	switch op.Kind {
	case opWriteRect, opReadRect:
		g.hostRect(&op)
	case opCopyRect:
		if !g.rectPair(&op) {
			op.Kind = opMarker
		}
	case opWrite, opRead, opFill, opProduce, opMap, opMapBriefly, opRefuse:
		op.Dst = g.IntN(len(g.h.Views))
		op.DstOff, op.Size = g.span(g.h.Views[op.Dst].Size)
		if g.nextTo(&op); op.Kind == opFill && g.IntN(2) == 0 { // by patterns of more than a byte
			op.DstOff, op.Size = op.DstOff&^7, max(op.Size&^7, 1)
		}
	case opCopy, opMix, opReverse:
		if !g.pair(&op) {
			op.Kind = opMarker
			break
		}
		g.sourceNextTo(&op)
	case opMigrate:
		op.Dst, op.Host, op.Undefined = g.IntN(len(g.h.Views)), g.IntN(3) == 0, g.IntN(6) == 0
		if len(g.maps) > 0 && g.IntN(2) == 0 { // round what the host has mapped
			op.Dst, op.Host, op.Undefined = g.h.Ops[g.maps[g.IntN(len(g.maps))]].Dst, true, false
		}
		if !op.Undefined && g.IntN(2) == 0 {
			g.more(&op)
		}
	case opUser:
		g.users = append(g.users, id)
	case opSet:
		if len(g.users) == 0 {
			op.Kind = opMarker
			break
		}
		op.Ref, op.Fail = g.take(&g.users), g.h.Failing && g.IntN(2) == 0
	case opUnmap:
		op.Ref = g.take(&g.maps)
	case opFinish:
		g.users = nil
	case opRenew, opFreePointer:
		op.Dst = g.IntN(len(g.h.Roots))
	case opCount, opCountBy:
		g.countOp(&op)
	}
	switch op.Kind {
	case opMap:
		if op.Flags == 0 {
			op.Flags = mapFlags[g.IntN(len(mapFlags))]
		}
		g.maps = append(g.maps, id)
	case opMapBriefly:
		op.Flags = mapFlags[g.IntN(len(mapFlags))]
		g.users = append(g.users, id)
	}
	return op
}

// more draws the other buffers of an opMigrate, some of them more than once.
func (g *generator) more(op *operation) {
	for range 1 + g.IntN(3)*g.IntN(6) {
		i := g.IntN(len(g.h.Views)+sizeBuffers) - sizeBuffers
		if i < 0 || g.h.Roots[g.h.Views[i].Root].Kind != fineRoot { // the device may have none
			op.More = append(op.More, i)
		}
	}
}

// nextTo moves an operation now and then right beside, or to the start of, what an
// earlier one used: within a word of it, as often as not.
func (g *generator) nextTo(op *operation) {
	if len(g.h.Ops) == 0 || g.Float64() > g.beside {
		return
	}
	last := g.h.Ops[len(g.h.Ops)-1-g.IntN(min(len(g.h.Ops), 6))]
	size := g.h.Views[last.Dst].Size
	if last.Size == 0 || last.Rows > 0 || last.DstOff+last.Size > size {
		return
	}
	if len(g.maps) > 0 && op.Kind == opMap && g.IntN(2) == 0 { // several from one start
		last = g.h.Ops[g.maps[g.IntN(len(g.maps))]]
		op.Dst, op.DstOff, op.Flags = last.Dst, last.DstOff, last.Flags
		op.Size = 1 + g.IntN(g.h.Views[last.Dst].Size-last.DstOff)
		return
	}
	op.Dst = last.Dst
	switch end := last.DstOff + last.Size; {
	case end < size && g.IntN(3) > 0:
		op.DstOff = end
		op.Size = 1 + g.IntN(min(size-end, 16))
	case last.DstOff > 0 && g.IntN(2) == 0:
		op.Size = 1 + g.IntN(min(last.DstOff, 16))
		op.DstOff = last.DstOff - op.Size
	default:
		op.DstOff, op.Size = last.DstOff, last.Size
	}
}

// sourceNextTo moves the source of an operation as nextTo does the destination, where
// the two share no byte then.
func (g *generator) sourceNextTo(op *operation) {
	try := operation{Kind: opRead, Dst: -1}
	if g.nextTo(&try); try.Dst < 0 || try.Size == 0 || try.Size > op.Size {
		return
	}
	dst, src := g.h.Views[op.Dst], g.h.Views[try.Dst]
	if d, s := dst.Origin+op.DstOff, src.Origin+try.DstOff; dst.Root == src.Root && d < s+try.Size && s < d+try.Size {
		return
	}
	op.Src, op.SrcOff, op.Size = try.Dst, try.DstOff, try.Size
}

// take removes any of a list.
func (g *generator) take(list *[]int) int {
	i := g.IntN(len(*list))
	v := (*list)[i]
	*list = append((*list)[:i], (*list)[i+1:]...)
	return v
}

// span draws a range of a view: often all of it, often its ends.
func (g *generator) span(size int) (off, n int) {
	if g.IntN(4) == 0 {
		return 0, size
	}
	off = g.IntN(size)
	n = 1 + g.IntN(size-off)
	switch g.IntN(8) {
	case 0, 1:
		n = size - off
	case 2, 3:
		n = 1 + g.IntN(min(size-off, 24))
	}
	return off, n
}

// rect draws a rectangle that fits into limit bytes, every third with slices.
func (g *generator) rect(op *operation, limit int) {
	op.Size = 1 + g.IntN(min(limit, 64))
	op.DstRow = op.Size + g.IntN(32)
	op.Rows = 1 + g.IntN(min((limit-op.Size)/op.DstRow+1, 16))
	op.DstSlice, op.Slices = op.DstRow*(op.Rows+g.IntN(3)), 1
	if g.IntN(3) == 0 {
		op.Slices = 1 + g.IntN(min((limit-extent(op, op.DstRow, 0))/op.DstSlice+1, 4))
	}
	op.SrcRow, op.SrcSlice = op.DstRow, op.DstSlice
}

// hostRect draws a rectangle of a view, and where it is in the host's memory.
func (g *generator) hostRect(op *operation) {
	op.Dst = g.IntN(len(g.h.Views))
	size := g.h.Views[op.Dst].Size
	g.rect(op, size)
	op.DstOff = g.IntN(size - extent(op, op.DstRow, op.DstSlice) + 1)
	op.SrcRow = op.Size + g.IntN(16)
	op.SrcSlice = op.SrcRow * (op.Rows + g.IntN(2))
	op.SrcOff = g.IntN(32)
}

// rectPair draws a rectangle, and where it is in a source and a destination that
// share no byte, or is to be refused; false where luck fails it.
func (g *generator) rectPair(op *operation) bool {
	for range 20 {
		op.Dst, op.Src = g.IntN(len(g.h.Views)), g.IntN(len(g.h.Views))
		dst, src := g.h.Views[op.Dst], g.h.Views[op.Src]
		g.rect(op, min(dst.Size, src.Size))
		if op.Dst != op.Src && g.IntN(2) == 0 {
			op.SrcRow, op.SrcSlice = op.Size, op.Size*op.Rows
		}
		op.DstOff = g.IntN(dst.Size - extent(op, op.DstRow, op.DstSlice) + 1)
		op.SrcOff = g.IntN(src.Size - extent(op, op.SrcRow, op.SrcSlice) + 1)
		if dst.Root != src.Root || !g.rowsMeet(op, dst.Origin, src.Origin) {
			return true
		}
		if g.IntN(8) == 0 {
			op.Kind = opRefuse
			return true
		}
	}
	return false
}

// rowsMeet compares every row with every other.
func (g *generator) rowsMeet(op *operation, dst, src int) bool {
	rows := g.h.rows(op)
	for _, a := range rows {
		for _, b := range rows {
			if d, s := dst+a.dst, src+b.src; d < s+op.Size && s < d+op.Size {
				return true
			}
		}
	}
	return false
}

// pair draws a source and a destination of one size that share no byte; false
// where luck fails it.
func (g *generator) pair(op *operation) bool {
	for range 20 {
		op.Dst, op.Src = g.IntN(len(g.h.Views)), g.IntN(len(g.h.Views))
		dst, src := g.h.Views[op.Dst], g.h.Views[op.Src]
		op.DstOff, op.Size = g.span(min(dst.Size, src.Size))
		op.SrcOff = g.IntN(src.Size - op.Size + 1)
		d, s := dst.Origin+op.DstOff, src.Origin+op.SrcOff
		if dst.Root != src.Root || d+op.Size <= s || s+op.Size <= d {
			return true
		}
	}
	return false
}
