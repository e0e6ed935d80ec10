package history

import (
	"math/rand/v2"

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
	kind Kind
	n    int
}

// Generate draws a history of n operations.
func Generate(seed uint64, n int) *History { return GenerateAligned(seed, n, Align) }

// GenerateAligned is Generate for devices whose sub-buffers begin at multiples of align
// bytes, a power of two.
func GenerateAligned(seed uint64, n, align int) *History {
	return draw(rand.NewPCG(seed, 0), &History{Seed: seed}, n, align)
}

// GenerateFrom is Generate with draws from any source.
func GenerateFrom(src rand.Source, n int) *History { return draw(src, &History{}, n, Align) }

func draw(src rand.Source, h *History, n, align int) *History {
	g := &generator{Rand: rand.New(src), h: h, align: align}
	g.character()
	g.buffers()
	g.ops(n)
	return g.h
}

// GenerateFailing draws a history of n operations in which about every other
// user event fails, some host calls do, and some maps are given up.
func GenerateFailing(seed uint64, n int) *History {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), h: &History{Seed: seed, Failing: true}, align: Align}
	g.character()
	g.weigh(User, 2)
	g.weigh(Set, 4)
	g.weigh(Fail, 1)
	g.weigh(MapBriefly, 1+g.IntN(3))
	g.buffers()
	g.ops(n)
	return g.h
}

// drawOver draws n operations over the buffers of h.
func drawOver(h *History, seed uint64, n int) *History {
	other := *h
	other.Seed, other.Ops = seed, nil
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), h: &other, align: Align}
	g.character()
	g.ops(n)
	return g.h
}

// character draws how often each kind comes.
func (g *generator) character() {
	for _, k := range []Kind{Write, Read, Copy, Fill, Mix, Produce, Reverse} {
		g.weigh(k, 1+g.IntN(10))
	}
	for _, k := range []Kind{WriteRect, ReadRect, CopyRect} {
		g.weigh(k, g.IntN(6))
	}
	maps := g.IntN(8)
	g.weigh(Map, maps)
	g.weigh(Unmap, maps*2)
	for _, k := range []Kind{Migrate, Marker, Barrier, User, Set} {
		g.weigh(k, g.IntN(4))
	}
	for _, k := range []Kind{Finish, Renew, Refuse, MapBriefly, FreePointer} {
		g.weigh(k, g.IntN(2))
	}
	g.scenes = g.Float64() * 0.1
	g.waits, g.held = g.Float64()*0.6, 0.1+g.Float64()*0.6
	if g.IntN(2) == 0 {
		g.weigh(Count, 1+g.IntN(6))
		g.weigh(CountBy, 1+g.IntN(3))
	}
}

func (g *generator) weigh(k Kind, n int) {
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
var kinds = []RootKind{Plain, Plain, Content, UserMem, UserMem, UserMem, UserMem, HostMem, SVM, SVM, FineSVM}

// buffers draws roots and views, sub-buffers mostly overlapping.
func (g *generator) buffers() {
	g.beside = g.Float64() * 0.6
	for root := range 1 + g.IntN(4) {
		size, kind := g.align*(1+g.IntN(32)), kinds[g.IntN(len(kinds))]
		if g.IntN(3) == 0 {
			size += g.IntN(g.align)
		}
		if kind == SVM && g.IntN(2) == 0 { // rights come in pages
			size = min(3*size, 64*g.align)
		}
		g.h.Roots = append(g.h.Roots, Root{size, kind})
		g.h.Views = append(g.h.Views, View{Root: root, Size: size})
		for range g.IntN(4) {
			v := View{Root: root, Origin: g.align * g.IntN((size+g.align-1)/g.align), Sub: true}
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

func (g *generator) kind() Kind {
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

func (g *generator) op(id int) Op {
	op := Op{ID: id, Kind: g.kind(), Queue: g.IntN(LogicalQueues), Salt: g.Uint32()}
	for g.Float64() < g.waits && id > 0 && len(op.Wait) < 4 {
		w := g.IntN(id)
		if len(g.users) > 0 && g.Float64() < g.held {
			w = g.users[g.IntN(len(g.users))]
		}
		op.Wait = append(op.Wait, w)
	}
	if op.Kind == Unmap && len(g.maps) == 0 {
		op.Kind = Map
	}
	switch op.Kind {
	case WriteRect, ReadRect:
		g.hostRect(&op)
	case CopyRect:
		if !g.rectPair(&op) {
			op.Kind = Marker
		}
	case Write, Read, Fill, Produce, Map, MapBriefly, Refuse:
		op.Dst = g.IntN(len(g.h.Views))
		op.DstOff, op.Size = g.span(g.h.Views[op.Dst].Size)
		if g.nextTo(&op); op.Kind == Fill && g.IntN(2) == 0 { // by patterns of more than a byte
			op.DstOff, op.Size = op.DstOff&^7, max(op.Size&^7, 1)
		}
	case Copy, Mix, Reverse:
		if !g.pair(&op) {
			op.Kind = Marker
			break
		}
		g.sourceNextTo(&op)
	case Migrate:
		op.Dst, op.Host, op.Undefined = g.IntN(len(g.h.Views)), g.IntN(3) == 0, g.IntN(6) == 0
		if len(g.maps) > 0 && g.IntN(2) == 0 { // round what the host has mapped
			op.Dst, op.Host, op.Undefined = g.h.Ops[g.maps[g.IntN(len(g.maps))]].Dst, true, false
		}
		if !op.Undefined && g.IntN(2) == 0 {
			g.more(&op)
		}
	case User:
		g.users = append(g.users, id)
	case Set:
		if len(g.users) == 0 {
			op.Kind = Marker
			break
		}
		op.Ref, op.Fail = g.take(&g.users), g.h.Failing && g.IntN(2) == 0
	case Unmap:
		op.Ref = g.take(&g.maps)
	case Finish:
		g.users = nil
	case Renew, FreePointer:
		op.Dst = g.IntN(len(g.h.Roots))
	case Count, CountBy:
		g.countOp(&op)
	}
	switch op.Kind {
	case Map:
		if op.Flags == 0 {
			op.Flags = mapFlags[g.IntN(len(mapFlags))]
		}
		g.maps = append(g.maps, id)
	case MapBriefly:
		op.Flags = mapFlags[g.IntN(len(mapFlags))]
		g.users = append(g.users, id)
	}
	return op
}

// more draws the other buffers of a Migrate, some of them more than once.
func (g *generator) more(op *Op) {
	for range 1 + g.IntN(3)*g.IntN(6) {
		i := g.IntN(len(g.h.Views)+sizeBuffers) - sizeBuffers
		if i < 0 || g.h.Roots[g.h.Views[i].Root].Kind != FineSVM { // the device may have none
			op.More = append(op.More, i)
		}
	}
}

// nextTo moves an operation now and then right beside, or to the start of, what an
// earlier one used: within a word of it, as often as not.
func (g *generator) nextTo(op *Op) {
	if len(g.h.Ops) == 0 || g.Float64() > g.beside {
		return
	}
	last := g.h.Ops[len(g.h.Ops)-1-g.IntN(min(len(g.h.Ops), 6))]
	size := g.h.Views[last.Dst].Size
	if last.Size == 0 || last.Rows > 0 || last.DstOff+last.Size > size {
		return
	}
	if len(g.maps) > 0 && op.Kind == Map && g.IntN(2) == 0 { // several from one start
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
func (g *generator) sourceNextTo(op *Op) {
	try := Op{Kind: Read, Dst: -1}
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
func (g *generator) rect(op *Op, limit int) {
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
func (g *generator) hostRect(op *Op) {
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
func (g *generator) rectPair(op *Op) bool {
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
			op.Kind = Refuse
			return true
		}
	}
	return false
}

// rowsMeet compares every row with every other.
func (g *generator) rowsMeet(op *Op, dst, src int) bool {
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
func (g *generator) pair(op *Op) bool {
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
