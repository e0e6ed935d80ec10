package bufalloc

import "fmt"

// Check tests the region's invariants and reports the first that does not hold:
//
//  1. the nodes tile [base, base+size) in address order, none empty, and their
//     backward links mirror the forward ones;
//  2. no two neighbouring holes should be one, by the strategy's rule;
//  3. every hole is in the strategy's order, at its place, and nothing else is;
//  4. every chunk's slack is less than its size, and its generation was given;
//  5. the figures equal the sums over the nodes;
//  6. the index by address, once made, holds exactly the chunks, and that of holes under a plan
//     every hole;
//  7. every node that is not in address order is spare.
//
// O(n), or O(n^2) at worst for strategies that keep lists.
func (r *Region) Check() error {
	sum, err := r.checkTiling()
	if err != nil {
		return err
	}
	s := r.s
	if sum.Live != s.Live || sum.Slack != s.Slack || sum.Chunks != r.chunks() {
		return fmt.Errorf("nodes: %d live, %d slack, %d chunks; figures: %d, %d, %d", sum.Live, sum.Slack, sum.Chunks, s.Live, s.Slack, r.chunks())
	}
	if sum.Live+sum.Slack+sum.Free != r.size || s.PeakLive < s.Live || s.HighWater < sum.HighWater || s.HighWater > r.size {
		return fmt.Errorf("figures %+v are out of proportion", s)
	}
	held := 0
	if r.bins != nil {
		held, err = r.bins.check(r)
		if err != nil {
			return err
		}
	} else {
		held = r.placer.count()
	}
	if held != sum.Holes {
		return fmt.Errorf("%d holes, %d of them in the strategy's order", sum.Holes, held)
	}
	if r.index != nil && r.index.tree.Len() != sum.Chunks {
		return fmt.Errorf("%d chunks, %d in the index by address", sum.Chunks, r.index.tree.Len())
	}
	spare := 0
	for i := r.spare; i != 0; i = r.nodes[i].next {
		if spare++; spare > len(r.nodes) {
			return fmt.Errorf("the list of spare nodes has a cycle")
		}
	}
	if want := len(r.nodes) - anchor - 1 - sum.Chunks - sum.Holes; spare != want {
		return fmt.Errorf("%d spare nodes, want %d of %d", spare, want, len(r.nodes))
	}
	return nil
}

// checkTiling tests clauses 1, 2, 4 and the first half of 3, and sums up.
func (r *Region) checkTiling() (sum Stats, err error) {
	at, prev := r.base, uint32(anchor)
	for i := r.nodes[anchor].next; i != anchor; prev, i = i, r.nodes[i].next {
		n := &r.nodes[i]
		if n.addr != at || n.size == 0 || n.prev != prev || n.size > r.base+r.size-at {
			return sum, fmt.Errorf("node %d: [%#x, +%d) after node %d, want it at %#x after %d, not empty and within the region", i, n.addr, n.size, n.prev, at, prev)
		}
		at += n.size
		if err := r.checkNode(i, &sum); err != nil {
			return sum, err
		}
		if !n.live() && !r.nodes[prev].live() && r.joins(prev, i) {
			return sum, fmt.Errorf("holes %d and %d at %#x are neighbours and not merged", prev, i, n.addr)
		}
	}
	if at != r.base+r.size || r.nodes[anchor].prev != prev {
		return sum, fmt.Errorf("the nodes end at %#x with node %d, want %#x and %d", at, r.nodes[anchor].prev, r.base+r.size, prev)
	}
	return sum, nil
}

func (r *Region) checkNode(i uint32, sum *Stats) error {
	n := &r.nodes[i]
	if !n.live() {
		sum.Holes++
		sum.Free += n.size
		if r.follow != nil {
			if err := r.follow.holes.check(r.nodes, i); err != nil {
				return err
			}
		}
		if r.placer != nil {
			return r.placer.check(r, i)
		}
		return nil
	}
	slack := r.slack(i)
	if slack >= n.size {
		return fmt.Errorf("chunk %d at %#x: %d of %d bytes are slack", i, n.addr, slack, n.size)
	}
	if (n.a-r.salt-1)&genMask > (r.gen-r.salt-1)&genMask {
		return fmt.Errorf("chunk %d at %#x: generation %d was never given", i, n.addr, n.a&genMask)
	}
	sum.Chunks++
	sum.Slack += slack
	sum.Live += n.size - slack
	sum.HighWater = n.end() - r.base
	if r.index != nil && r.index.at(n.addr) != i {
		return fmt.Errorf("chunk %d at %#x: the index by address has %d there", i, n.addr, r.index.at(n.addr))
	}
	return nil
}

// check tests that every bin's list holds holes of that bin, linked both ways,
// and that the bit map shows which are empty. It returns the number of holes.
func (b *bins) check(r *Region) (int, error) {
	held := 0
	for o := range octaves {
		sub, heads := b.sub[o], (*[subCount]uint32)(b.head[o<<subBits:])
		if (sub != 0) != (b.top>>o&1 == 1) {
			return 0, fmt.Errorf("bins %d to %d: the bit map says otherwise", o<<subBits, (o+1)<<subBits-1)
		}
		if sub == 0 && *heads == [subCount]uint32{} {
			continue // nearly all are
		}
		for i, h := range heads {
			k := o<<subBits + i
			if (h != 0) != (sub>>i&1 == 1) {
				return 0, fmt.Errorf("bin %d with head %d: the bit map says otherwise", k, h)
			}
			for prev := uint32(0); h != 0; prev, h = h, r.nodes[h].b {
				n := &r.nodes[h]
				if n.live() || n.a != prev || binOf(n.size) != uint32(k) {
					return 0, fmt.Errorf("bin %d: node %d of %d bytes after node %d does not belong there", k, h, n.size, n.a)
				}
				if held++; held > len(r.nodes) {
					return 0, fmt.Errorf("bin %d: its list has a cycle", k)
				}
			}
		}
	}
	if held != b.count {
		return 0, fmt.Errorf("the bins hold %d holes, their count is %d", held, b.count)
	}
	return held, nil
}
