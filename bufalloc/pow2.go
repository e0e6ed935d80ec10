package bufalloc

import (
	"fmt"
	"math/bits"
)

// lists are holes by power-of-two class, linked through their nodes.
type lists struct {
	head [64]uint32
	mask uint64 // bit k: head[k] is not 0
	n    int
}

func (l *lists) reset(*Region) { *l = lists{} }
func (l *lists) count() int    { return l.n }

// class is the power of two not above size.
func class(size uint64) int { return bits.Len64(size) - 1 }

func (l *lists) push(ns []node, i uint32) {
	k := class(ns[i].size)
	h := l.head[k]
	ns[i].a, ns[i].b = 0, h
	if h != 0 {
		ns[h].a = i
	}
	l.head[k] = i
	l.mask |= 1 << k
	l.n++
}

func (l *lists) remove(r *Region, i uint32) {
	ns, k := r.nodes, class(r.nodes[i].size)
	p, n := ns[i].a, ns[i].b
	if n != 0 {
		ns[n].a = p
	}
	if p != 0 {
		ns[p].b = n
	} else if l.head[k] = n; n == 0 {
		l.mask &^= 1 << k
	}
	l.n--
}

func (l *lists) check(r *Region, i uint32) error {
	k := class(r.nodes[i].size)
	for h := l.head[k]; h != 0; h = r.nodes[h].b {
		if h == i {
			return nil
		}
	}
	return fmt.Errorf("hole %d of %d bytes at %#x: not in the list of its class, 2^%d", i, r.nodes[i].size, r.nodes[i].addr, k)
}

// roundPow2 is the smallest power of two not below size, or 0 beyond 2^63.
func roundPow2(size uint64) uint64 {
	if size > 1<<63 {
		return 0
	}
	return 1 << bits.Len64(size-1)
}

// buddy is the binary buddy system (Knuth, The Art of Computer Programming,
// volume 1, 2.5). Every node is a block: a power of two in size, at a multiple
// of its size, so that the buddy of the block at a is the one at a XOR size. A
// region that is no such block itself starts out as several.
type buddy struct{ lists }

func (b *buddy) insert(r *Region, i uint32) {
	for {
		n := &r.nodes[i]
		size := uint64(1) << class(n.size)
		if n.addr != 0 {
			size = min(size, n.addr&-n.addr)
		}
		if size == n.size {
			b.push(r.nodes, i)
			return
		}
		f := r.cutFront(i, size)
		b.push(r.nodes, f)
	}
}

func (b *buddy) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	take := max(roundPow2(size), align)
	if take == 0 || take < size {
		return 0, 0, 0
	}
	if m := b.mask >> class(take); m != 0 {
		i := b.head[class(take)+bits.TrailingZeros64(m)]
		return i, r.nodes[i].addr, take
	}
	return 0, 0, 0
}

func (b *buddy) joins(r *Region, i, j uint32) bool {
	n, m := &r.nodes[i], &r.nodes[j]
	return n.size == m.size && n.addr^n.size == m.addr
}

// pools give out blocks of powers of two, cut from the tail once and then
// reused whole for requests of their class.
type pools struct{ lists }

func (p *pools) insert(r *Region, i uint32) {
	if r.nodes[i].next != anchor { // the tail is in no pool
		p.push(r.nodes, i)
		return
	}
	p.n++
}

func (p *pools) remove(r *Region, i uint32) {
	if r.nodes[i].next != anchor {
		p.lists.remove(r, i)
		return
	}
	p.n--
}

func (p *pools) find(r *Region, size, align uint64) (uint32, uint64, uint64) {
	take := roundPow2(size)
	if take == 0 {
		return 0, 0, 0
	}
	for i := p.head[class(take)]; i != 0; i = r.nodes[i].b {
		if n := &r.nodes[i]; n.addr&(align-1) == 0 {
			return i, n.addr, n.size
		}
	}
	if i := r.nodes[anchor].prev; !r.nodes[i].live() && holds(&r.nodes[i], take, align) {
		return i, r.nodes[i].addr + -r.nodes[i].addr&(align-1), take
	}
	return 0, 0, 0
}

// joins gives what borders on the tail back to it, and nothing else.
func (p *pools) joins(r *Region, _, j uint32) bool { return r.nodes[j].next == anchor }

func (p *pools) check(r *Region, i uint32) error {
	if r.nodes[i].next == anchor {
		return nil
	}
	return p.lists.check(r, i)
}
