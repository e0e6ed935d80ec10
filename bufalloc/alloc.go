package bufalloc

import (
	"fmt"
	"math/bits"

	"godwit/mem"
)

// Alloc gives a chunk of size bytes at a multiple of align, a power of two. It
// fails with mem.ErrInvalidSize for size 0, mem.ErrInvalidValue for any other
// alignment, and mem.ErrNoMemory where no hole is large enough or the limit of
// chunks is reached; then nothing has changed.
func (r *Region) Alloc(size, align uint64) (Chunk, error) {
	// The short way: Fit, a request that needs no search, a hole that needs no
	// cut in front. All the rest, errors among it, goes the long way. For a
	// power of two and no other number, x ^ (x-1) > x-1.
	if size-1 >= r.quick || align^(align-1) <= align-1 || r.chunks() >= r.maxChunks {
		if size-1 < r.searched && align^(align-1) > align-1 && r.chunks() < r.maxChunks {
			return r.allocSearched(size, align)
		}
		return r.allocLong(size, align)
	}
	b, ns := r.bins, r.nodes
	need := (size + r.granule - 1) &^ (r.granule - 1)
	mask := (align - 1) | (r.granule - 1)
	bin := binOf(need)
	i := b.head[bin]
	if n := &ns[i]; n.size < need || n.addr&mask != 0 { // nodes[0] has size 0
		o := bin >> subBits
		m := b.sub[o] & (^uint64(1) << (bin & (subCount - 1)))
		if m == 0 {
			t := b.top & (^uint64(1) << o)
			if t == 0 {
				return r.allocLong(size, align)
			}
			o = uint32(bits.TrailingZeros64(t))
			m = b.sub[o]
		}
		bin = o<<subBits | uint32(bits.TrailingZeros64(m))
		i = b.head[bin]
		if b.count <= sparse {
			// Rule 2. Where the octave has no other bin, next is the first
			// of the next octave, which may be empty: nodes[0] is too small.
			next := o<<subBits + uint32(bits.TrailingZeros64(m&(m-1)))
			j := b.head[next]
			n := &ns[j]
			pick := -uint32(below(n.addr, ns[i].addr) &^ below(near(need), n.size) &^ below(n.size, need))
			i ^= (i ^ j) & pick
			bin ^= (bin ^ next) & pick
		}
		if ns[i].addr&mask != 0 {
			return r.allocLong(size, align)
		}
	}
	n := &ns[i]
	if n.addr-r.base > r.roof() {
		return r.allocLong(size, align)
	}
	rest := n.size - need
	switch {
	case rest != 0 && b.count <= scant:
		// The chunk is a node in front of the hole, which stays.
		c := r.spare
		if c == 0 {
			c = r.newNode()
			ns = r.nodes
			n = &ns[i]
		} else {
			r.spare = ns[c].next
		}
		m := &ns[c]
		m.addr, m.size, m.prev, m.next = n.addr, need, n.prev, i
		ns[n.prev].next = c
		n.addr, n.size, n.prev = n.addr+need, rest, c
		b.rebin(ns, i, bin)
		i, n = c, m
	case rest != 0:
		b.count--
		ns[n.b].a = 0
		b.behead(bin, n.b)
		n.size = need
		j := r.spare
		if j == 0 {
			j = r.newNode()
			ns = r.nodes
			n = &ns[i]
		} else {
			r.spare = ns[j].next
		}
		x := n.next
		n.next = j
		m := &ns[j]
		m.addr, m.size, m.prev, m.next = n.addr+need, rest, i, x
		ns[x].prev = j
		b.insert(ns, j)
	default:
		b.count--
		ns[n.b].a = 0
		b.behead(bin, n.b)
	}
	r.gen = (r.gen + 1) & genMask
	n.a, n.b = liveBit|r.gen, uint32(bits.Len64(mask))<<alignBit|uint32(need-size)
	s := &r.s
	s.Allocs++
	s.Live += size
	s.Slack += need - size
	s.PeakLive = max(s.PeakLive, s.Live)
	s.HighWater = max(s.HighWater, n.addr+need-r.base)
	if r.index != nil {
		r.index.add(n.addr, i)
	}
	return Chunk{i, n.a}, nil
}

// allocSearched is Alloc for the requests of rule 3: those that Fit searches a
// hole for.
func (r *Region) allocSearched(size, align uint64) (Chunk, error) {
	b, ns := r.bins, r.nodes
	need := (size + r.granule - 1) &^ (r.granule - 1)
	mask := (align - 1) | (r.granule - 1)
	i := b.search(ns, need, mask+1, &r.s)
	if i == 0 || r.spare == 0 {
		return r.allocLong(size, align)
	}
	n := &ns[i]
	rest := n.size - need
	addr := b.place(ns, i, need, mask+1)
	if rest == 0 || addr != n.addr && addr+need != n.end() {
		return r.allocLong(size, align)
	}
	bin := binOf(n.size)
	c := r.spare
	r.spare = ns[c].next
	m := &ns[c]
	m.addr, m.size = addr, need
	if addr == n.addr {
		m.prev, m.next = n.prev, i
		n.addr += need
	} else {
		m.prev, m.next = i, n.next
	}
	ns[m.prev].next, ns[m.next].prev = c, c
	n.size = rest
	b.rebin(ns, i, bin)
	r.enlive(c, size, mask+1)
	return Chunk{c, r.nodes[c].a}, nil
}

// AllocHint is Alloc with what the caller knows of the chunk's life, the zero
// Hint included. Fit places the chunk beside those that die at the same time, as
// long as such hints prove true; a registered Placement is given the hint; the
// other strategies pass over it. It takes a look at every hole that is large
// enough.
func (r *Region) AllocHint(size, align uint64, h mem.Hint) (Chunk, error) {
	if h == 0 {
		return r.Alloc(size, align)
	}
	r.learn()
	r.hint = h
	c, err := r.allocLong(size, align)
	r.hint = 0
	return c, err
}

func (r *Region) allocLong(size, align uint64) (Chunk, error) {
	if size == 0 || !mem.IsPow2(align) {
		return Chunk{}, badRequest(size, align)
	}
	align = max(align, r.granule)
	i := r.alloc(size, align)
	if i == 0 {
		r.s.Failures++
		if err := r.takeFault(); err != nil {
			return Chunk{}, err
		}
		return Chunk{}, &NoRoomError{Size: size, Align: align, Free: r.s.free(r.size), Chunks: r.chunks(), Limit: r.maxChunks}
	}
	return Chunk{i, r.nodes[i].a}, nil
}

// Free gives a chunk back. It fails with ErrStaleChunk for one freed already,
// ErrForeignChunk for one this region never gave, and mem.ErrInvalidOperation
// for one that is part of a proposed move; then nothing has changed.
func (r *Region) Free(c Chunk) error {
	b, ns, i := r.bins, r.nodes, c.index
	if int(i) >= len(ns) || ns[i].a != c.gen || c.gen&liveBit == 0 {
		return r.notLive(c, "free")
	}
	n := &ns[i]
	if b == nil || r.watched || n.b >= moving {
		return r.freeLong(c)
	}
	s := &r.s
	s.Frees++
	slack := uint64(n.b & slackMax)
	s.Live -= n.size - slack
	s.Slack -= slack
	if b.count <= scant && r.grow(i) {
		return nil
	}
	if p := n.prev; ns[p].a&liveBit == 0 {
		m := &ns[p]
		b.remove(ns, p)
		n.addr = m.addr
		n.size += m.size
		n.prev = m.prev
		ns[m.prev].next = i
		m.next, r.spare = r.spare, p
	}
	if x := n.next; ns[x].a&liveBit == 0 {
		m := &ns[x]
		b.remove(ns, x)
		n.size += m.size
		n.next = m.next
		ns[m.next].prev = i
		m.next, r.spare = r.spare, x
	}
	b.insert(ns, i)
	return nil
}

// grow adds chunk i to the hole beside it, where there is one on one side only:
// the hole stays the node it is. What Free does where holes are few.
func (r *Region) grow(i uint32) bool {
	b, ns := r.bins, r.nodes
	n := &ns[i]
	p, x := n.prev, n.next
	before, behind := ns[p].a&liveBit == 0, ns[x].a&liveBit == 0
	if before == behind {
		return false
	}
	h := p
	if behind {
		h = x
	}
	m := &ns[h]
	bin := binOf(m.size)
	m.size += n.size
	if before {
		m.next, ns[x].prev = x, p
	} else {
		m.addr, m.prev, ns[p].next = n.addr, p, x
	}
	n.a, n.next, r.spare = 0, r.spare, i
	b.rebin(ns, h, bin)
	return true
}

func (r *Region) freeLong(c Chunk) error {
	if r.nodes[c.index].b&moving != 0 {
		return fmt.Errorf("free of %v: it is part of a proposed move, to be committed or aborted first: %w", c, mem.ErrInvalidOperation)
	}
	r.free(c.index)
	return nil
}
