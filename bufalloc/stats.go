package bufalloc

import "math/bits"

// Stats are a region's figures, in bytes unless said.
type Stats struct {
	Capacity    uint64 // the region's size
	Live        uint64 // asked for by live chunks
	Slack       uint64 // in live chunks beyond what was asked for
	Free        uint64 // Capacity - Live - Slack
	LargestFree uint64 // the largest hole
	PeakLive    uint64 // the greatest Live since Reset
	HighWater   uint64 // the greatest offset of a chunk's end since Reset
	Chunks      int    // live chunks, a count
	Holes       int    // a count
	Allocs      uint64 // chunks given since Reset, a count
	Frees       uint64 // chunks freed since Reset, a count
	Failures    uint64 // requests that did not fit since Reset, a count
	Scans       uint64 // searches in full as a last resort (Fit) since Reset, a count
	ScanSteps   uint64 // holes looked at in those, in Fit's bounded searches for large requests and above its roof, and in first fit's tree, a count
	Bookkeeping uint64 // held by nodes, which grow with the chunks; the bins of Fit and GoodFit are 15 KiB more
}

func (s *Stats) free(capacity uint64) uint64 { return capacity - s.Live - s.Slack }

// Fragmentation is the external fragmentation, 1 - LargestFree/Free: 0 where
// all that is free is one hole, or nothing is free.
func (s Stats) Fragmentation() float64 {
	if s.Free == 0 {
		return 0
	}
	return 1 - float64(s.LargestFree)/float64(s.Free)
}

// Stats returns the figures as they are now. It costs one look at the fullest
// bin under Fit and GoodFit, and a walk under the other strategies.
func (r *Region) Stats() Stats {
	s := r.s
	s.Capacity, s.Chunks = r.size, r.chunks()
	s.Free = s.free(r.size)
	s.Bookkeeping = uint64(cap(r.nodes))*32 + uint64(cap(r.wide))*8
	if r.bins != nil {
		s.Holes = r.bins.count
		s.LargestFree = r.bins.largest(r.nodes)
		return s
	}
	for i := r.nodes[anchor].next; i != anchor; i = r.nodes[i].next {
		if n := &r.nodes[i]; !n.live() {
			s.Holes++
			s.LargestFree = max(s.LargestFree, n.size)
		}
	}
	return s
}

// largest is the size of the largest hole.
func (b *bins) largest(ns []node) uint64 {
	if b.top == 0 {
		return 0
	}
	o := bits.Len64(b.top) - 1
	most := uint64(0)
	for h := b.head[o<<subBits|(bits.Len64(b.sub[o])-1)]; h != 0; h = ns[h].b {
		most = max(most, ns[h].size)
	}
	return most
}
