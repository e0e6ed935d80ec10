package migration

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"godwit/mem"
)

// Storage by range. A buffer's storage on a memory is a set of disjoint blocks, each of
// them a range of the buffer. A buffer that is stored whole has one, of all its bytes:
// that is the case of all buffers but those that ByRange was told of, and of those it is
// so on the host, and where they have, or are, a size buffer.
//
// A block is as large as what a command needs at once in one piece (Span): a kernel gets
// one pointer for each argument and indexes from there. Where blocks overlap what is
// needed now, and none covers it, the planner wants one new block over it and them
// (Want), and what is valid in the old ones is copied into it: see regrow.go.
//
// Hazards stay one map for each store. Since no two blocks have a byte in common, each
// byte has the hazards of one block; when its block is exchanged for another, so are they.

// block is one of the blocks of a store.
type block struct {
	used     uint64    // the number of the command that used it last
	want     mem.Range // what it was made for; r also has what was there before, and rounding
	paid     bool      // something beside want was used since it was made
	class    mem.Class // of the storage
	memory   mem.MemoryID
	buffer   uint32    // its index
	r        mem.Range // of the buffer
	resident int       // where it is in Planner.residents
	inUse    uint64    // the Evict whose command uses it
	serial   uint64    // of its place in the memory's ranking; 0 where it has none
}

// unused reports whether what the block holds beside what it was made for was kept in vain
// so far.
func (k *block) unused() bool { return !k.paid && k.want != k.r }

// leastAlign is what block ends are multiples of at least, so that fills and vectors do
// not cross them.
const leastAlign = 128

// ByRange lets a buffer have blocks of ranges from now on, whose ends are multiples of
// align bytes in the buffer, a power of two: of what every device of the context wants the
// start of a sub-buffer, and the ends of a copy, to be a multiple of. It fails with
// mem.ErrInvalidBuffer where there is no such buffer, and with mem.ErrInvalidValue where
// align is no power of two.
func (p *Planner) ByRange(id mem.BufferID, align uint64) error {
	b, err := p.buffer(id)
	if err != nil {
		return err
	}
	if !mem.IsPow2(align) {
		return fmt.Errorf("%s by ranges of multiples of %d bytes: it must be a power of two: %w", bufferName(id), align, mem.ErrInvalidValue)
	}
	b.align = max(align, leastAlign)
	return nil
}

// Span is what a command needs of a buffer in one block on a memory, whatever it accesses
// of it: what a pointer reaches.
type Span struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	Range  mem.Range
}

// Want is a block that has to be made.
type Want struct {
	Buffer mem.BufferID
	Memory mem.MemoryID
	// Range is what the block is to hold; where a caller leaves it empty, the whole buffer.
	// Blocks that it overlaps are there no more when it is there (Regrow).
	Range mem.Range
	// Span is what Range was made for. The rest is what such blocks hold.
	Span mem.Range
}

// in is what the block of a buffer of that size is to hold.
func (w *Want) in(size uint64) mem.Range {
	if w.Range.Empty() {
		return mem.Range{End: size}
	}
	return w.Range
}

// byRange reports whether the buffer's blocks on a memory may be parts of it.
func (b *buffer) byRange(m mem.MemoryID) bool {
	return b.align != 0 && m != mem.Host && b.count == 0 && len(b.serves) == 0
}

// round moves the ends of a range out to where blocks on a memory may end.
func (b *buffer) round(m mem.MemoryID, r mem.Range) mem.Range {
	if !b.byRange(m) {
		return mem.Range{End: b.content.Size()}
	}
	r.Start &^= b.align - 1
	if up, ok := mem.AlignUp(r.End, b.align); ok {
		r.End = up
	}
	r.End = min(max(r.End, r.Start), b.content.Size())
	return r
}

// covers reports whether one block of a store, which may be nil, holds all of r.
func (s *store) covers(r mem.Range) bool {
	if s == nil {
		return false
	}
	at := s.blocks.Get(r.Start)
	return at.Value != 0 && r.End <= at.Range.End
}

// blockAt is the block of a store that holds off, or nil. Adding one moves the others.
func (p *Planner) blockAt(s *store, off uint64) *block {
	if i := s.blocks.Get(off).Value; i != 0 {
		return &p.blocks[i-1]
	}
	return nil
}

// blocksIn yields the blocks of a store, which may be nil, that overlap r, in ascending order.
// None may come or go meanwhile.
func (p *Planner) blocksIn(s *store, r mem.Range) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		if s == nil {
			return
		}
		for _, i := range s.blocks.In(r) {
			if *i != 0 && !yield(&p.blocks[*i-1]) {
				return
			}
		}
	}
}

// addBlock makes a block of a buffer's store, where there is none, for the sake of span.
func (p *Planner) addBlock(b *buffer, index uint32, m mem.MemoryID, r, span mem.Range, class mem.Class) *block {
	if span.Empty() {
		span = r
	}
	var i int32
	if n := len(p.spare); n > 0 {
		i = p.spare[n-1]
		p.spare = p.spare[:n-1]
	} else {
		p.blocks = append(p.blocks, block{})
		i = int32(len(p.blocks) - 1)
	}
	p.blocks[i] = block{buffer: index, memory: m, r: r, class: class, resident: len(p.residents[m]), want: span}
	p.residents[m] = append(p.residents[m], i)
	if r := &p.rankings[m]; r.policy != nil {
		r.arrived(i, len(p.residents[m]))
	}
	s := b.ensure(m)
	s.blocks.Set(r, i+1)
	whole := uint64(0)
	if s.n++; s.n == 1 {
		whole = b.content.Size()
	}
	p.footprints[m].add(r.Size(), whole)
	return &p.blocks[i]
}

// removeBlock takes a block out of its store.
func (p *Planner) removeBlock(b *buffer, i int32) {
	k := &p.blocks[i]
	s := b.at(k.memory)
	all := p.residents[k.memory]
	last := all[len(all)-1]
	all[k.resident] = last
	p.blocks[last].resident = k.resident
	p.residents[k.memory] = all[:len(all)-1]
	s.blocks.Set(k.r, 0)
	f := &p.footprints[k.memory]
	f.now -= k.r.Size()
	if s.n--; s.n == 0 {
		f.remove(b.content.Size())
	}
	*k = block{}
	p.spare = append(p.spare, i)
}

// removeBlocks takes the blocks that overlap r out of a store.
func (p *Planner) removeBlocks(b *buffer, s *store, r mem.Range) {
	for off := r.Start; off < r.End && s.n > 0; {
		at := *s.blocks.Get(off)
		if at.Value != 0 {
			p.removeBlock(b, at.Value-1)
		}
		off = at.Range.End
	}
}

// vacate takes the blocks of a range out, and who used them; with the last, the store.
func (p *Planner) vacate(b *buffer, m mem.MemoryID, r mem.Range) {
	i, ok := b.find(m)
	if !ok {
		return
	}
	s := &b.stores[i]
	p.removeBlocks(b, s, r)
	b.orphan(m, r)
	if s.n == 0 {
		b.stores = slices.Delete(b.stores, i, i+1)
		return
	}
	s.hazards.Set(r, hazard{})
	s.hold(r, nil)
}

// orphan notes that what a memory holds of a range is no more what steps to others read.
func (b *buffer) orphan(m mem.MemoryID, r mem.Range) {
	from := originOf(m)
	for i := range b.stores {
		b.stores[i].hazards.Update(r, func(_ mem.Range, h hazard) hazard {
			if h.from == from {
				h.from = 0
			}
			return h
		})
	}
}

// within reports whether each span lies in one block.
func (p *Planner) within(spans []Span) (bool, error) {
	for i := range spans {
		b, m, err := p.where(spans[i].Buffer, spans[i].Memory)
		if err != nil || !b.at(m).covers(spans[i].Range) {
			return false, err
		}
	}
	return true, nil
}

// need is what has to lie in one block.
type need struct {
	Span
	next int32 // the next one's place in Planner.needed + 1, of the same buffer; 0 is none
}

// wants notes which blocks are missing. It was seen that some are.
func (p *Planner) wants(dst *Plan, accs []mem.Access, spans []Span) {
	p.needed = p.needed[:0]
	for _, w := range dst.Storage { // of counts
		p.need(Span{w.Buffer, w.Memory, w.Range})
	}
	dst.Storage = dst.Storage[:0]
	for i := range spans {
		p.need(spans[i])
	}
	for i := range accs {
		p.need(Span{accs[i].Buffer, accs[i].Memory, accs[i].Range})
	}
	for i := range p.needed {
		n := &p.needed[i]
		b := p.buffers[uint32(n.Buffer)]
		switch {
		case n.Range.Empty() || b.at(n.Memory).covers(n.Range):
		case !b.byRange(n.Memory):
			dst.Storage = append(dst.Storage, Want{Buffer: n.Buffer, Memory: n.Memory, Range: n.Range, Span: n.Range})
		default:
			p.want(dst, b, n)
		}
	}
	for i := range p.needed {
		p.buffers[uint32(p.needed[i].Buffer)].needed = 0
	}
}

// need adds to p.needed what has to lie in one block, less what lies in another of them. There
// may be thousands of buffers: each is compared with itself.
func (p *Planner) need(n Span) {
	n.Memory = p.topo.Store(n.Memory)
	b := p.buffers[uint32(n.Buffer)]
	if !b.byRange(n.Memory) {
		n.Range = mem.Range{End: b.content.Size()}
	}
	for i := b.needed; i != 0; i = p.needed[i-1].next {
		switch o := &p.needed[i-1]; {
		case o.Memory != n.Memory:
		case o.Range.Contains(n.Range):
			return
		case n.Range.Contains(o.Range):
			o.Range = mem.Range{}
		}
	}
	p.needed = append(p.needed, need{n, b.needed})
	b.needed = int32(len(p.needed))
}

// want notes that a block is missing that holds what is needed, and, where more of the buffer is
// needed there, the blocks and wants that overlap it. What was kept beside an earlier span in vain
// is kept again only then.
func (p *Planner) want(dst *Plan, b *buffer, n *need) {
	all := false
	for i := b.needed; i != 0; i = p.needed[i-1].next {
		o := &p.needed[i-1]
		all = all || o != n && o.Memory == n.Memory && !o.Range.Empty()
	}
	w := Want{Buffer: n.Buffer, Memory: n.Memory, Span: b.round(n.Memory, n.Range)}
	w.Range = p.extent(b, &w, all)
	for i := 0; i < len(dst.Storage) && all; i++ {
		o := dst.Storage[i]
		if o.Buffer == w.Buffer && o.Memory == w.Memory && o.Range.Overlaps(w.Range) {
			w.Span = hull(w.Span, o.Span)
			w.Range = p.extent(b, &w, true)
			dst.Storage = slices.Delete(dst.Storage, i, i+1)
			i = -1 // it may overlap others now
		}
	}
	dst.Storage = append(dst.Storage, w)
}

// extent is what the block for a want is to hold: its span, and what the blocks that
// overlap it hold, as far as that is kept, and as one block takes it.
func (p *Planner) extent(b *buffer, w *Want, all bool) mem.Range {
	s, r := b.at(w.Memory), w.Span
	if s == nil {
		return r
	}
	over := r // all blocks
	for k := range p.blocksIn(s, w.Span) {
		if over = hull(over, k.r); all || !k.unused() {
			r = hull(r, k.r)
		}
	}
	if over.Size() <= p.opts.KeepBelow {
		r = over
	}
	if r.Size() > p.opts.largest(w.Memory) {
		return w.Span
	}
	return r
}

// hull is the smallest range over two.
func hull(a, b mem.Range) mem.Range {
	return mem.Range{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
}

// Blocks appends the ranges of a buffer's blocks on a memory, in ascending order. Unknown
// buffers and memories have none.
func (p *Planner) Blocks(dst []mem.Range, id mem.BufferID, m mem.MemoryID) []mem.Range {
	b, m, err := p.where(id, m)
	if err != nil {
		return dst
	}
	for k := range p.blocksIn(b.at(m), mem.Range{End: b.content.Size()}) {
		dst = append(dst, k.r)
	}
	return dst
}

// Homes appends the memories that have, or had, blocks of a buffer, in ascending order.
func (p *Planner) Homes(dst []mem.MemoryID, id mem.BufferID) []mem.MemoryID {
	b, err := p.buffer(id)
	if err != nil {
		return dst
	}
	for i := range b.stores {
		dst = append(dst, b.stores[i].memory)
	}
	return dst
}

// Footprint is what a memory holds of the buffers, in bytes.
type Footprint struct {
	Now, Peak uint64 // in blocks
	// Whole and WholePeak are what it would be if every buffer that has a block there
	// were stored whole: math.MaxUint64 where that is more.
	Whole, WholePeak uint64
}

// footprint counts a Footprint: buffers have up to 2^63 bytes each.
type footprint struct {
	now, peak         uint64
	high, low, widest uint64 // Whole is high<<64 + low
}

// Footprint returns the figures of a memory; those of one that there is not are zero.
func (p *Planner) Footprint(m mem.MemoryID) Footprint {
	if int(m) >= len(p.footprints) {
		return Footprint{}
	}
	f := &p.footprints[p.topo.Store(m)]
	return Footprint{f.now, f.peak, f.whole(), f.widest}
}

// add adds a block of a buffer to the footprint.
func (f *footprint) add(size, whole uint64) {
	low, carry := bits.Add64(f.low, whole, 0)
	f.now, f.high, f.low = f.now+size, f.high+carry, low
	f.peak, f.widest = max(f.peak, f.now), max(f.widest, f.whole())
}

// remove takes a buffer out that has no block there any more.
func (f *footprint) remove(whole uint64) {
	low, borrow := bits.Sub64(f.low, whole, 0)
	f.high, f.low = f.high-borrow, low
}

func (f *footprint) whole() uint64 {
	if f.high > 0 {
		return math.MaxUint64
	}
	return f.low
}

// checkBlocks tests a store's blocks.
func (p *Planner) checkBlocks(b *buffer, s *store) error {
	if err := s.blocks.Check(); err != nil {
		return err
	}
	n := 0
	for r, i := range s.blocks.All() {
		if *i == 0 {
			continue
		}
		n++
		k := &p.blocks[*i-1]
		switch {
		case k.r != r || k.memory != s.memory || p.buffers[k.buffer] != b:
			return fmt.Errorf("the block at %v is that of %v on memory %d", r, k.r, k.memory)
		case !b.byRange(s.memory) && b.align == 0 && r.Size() != b.content.Size():
			return fmt.Errorf("block %v of %d bytes, which are stored whole", r, b.content.Size())
		case !k.r.Contains(k.want):
			return fmt.Errorf("block %v was made for %v", r, k.want)
		case k.resident >= len(p.residents[s.memory]) || p.residents[s.memory][k.resident] != *i-1:
			return fmt.Errorf("block %v is not among the memory's", r)
		}
	}
	if n != s.n {
		return fmt.Errorf("%d blocks, counted %d", n, s.n)
	}
	return nil
}

// checkTable tests the table of blocks, and what they come to.
func (p *Planner) checkTable() error {
	live := 0
	for m, all := range p.residents {
		var size uint64
		for _, i := range all {
			size += p.blocks[i].r.Size()
		}
		live += len(all)
		if p.footprints[m].now != size {
			return fmt.Errorf("migration: blocks of %d bytes on %s, counted %d", size, p.topo.Name(mem.MemoryID(m)), p.footprints[m].now)
		}
	}
	if live+len(p.spare) != len(p.blocks) {
		return fmt.Errorf("migration: %d blocks live, %d spare, of %d", live, len(p.spare), len(p.blocks))
	}
	return nil
}
