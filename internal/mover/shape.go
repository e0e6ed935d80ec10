package mover

import (
	"fmt"
	"godwit/devices"
	"math"
	"time"

	"godwit/mem"
)

// How a range is cut into chunks, and how much staging a ring wants.
//
// With chunks of c bytes over links of b bytes a second, n bytes take about
//
//	(n + c)/b + n/c * g + k
//
// where g is what each chunk costs beside its bytes and k what every copy does. The
// best c is sqrt(n * g * b). For rings in batches b, g and k are measured (measure.go).

// cost is what is known of a ring between two memories. The zero cost is nothing.
type cost struct {
	bandwidth float64 // b, bytes a second
	gap       float64 // g, seconds for each chunk
	base      float64 // k, seconds
	small     float64 // what a copy of smallCopy bytes takes, seconds; 0 where that is not known
}

// smallCopy is a copy of which only the latency counts, in bytes.
const smallCopy = 4 << 10

// batchCost is that between two H200s over PCIe 5 (docs/measured.md), until a pair is
// measured.
var batchCost = cost{bandwidth: 55e9, gap: 4.7e-6, base: 20e-6}

// chunk is the best chunk size for a copy of n bytes.
func (c *cost) chunk(n uint64) uint64 { return uint64(math.Sqrt(float64(n) * c.gap * c.bandwidth)) }

func (c *cost) path() mem.Path {
	latency := c.base + 2*c.gap
	if c.small != 0 {
		latency = c.small
	}
	return mem.Path{There: true, Latency: time.Duration(latency * float64(time.Second)), Bandwidth: uint64(c.bandwidth)}
}

// cost is what to expect of a batch between two memories.
func (m *Mover) cost(from, to mem.MemoryID) *cost {
	if c := m.costs[[2]mem.MemoryID{from, to}]; c != nil && c.bandwidth != 0 {
		return c
	}
	return &batchCost
}

const (
	chainSlots = 4        // of a chain: one read, one written, two between
	chainChunk = 4 << 20  // bytes, at most
	leastSlots = 4        // of a batch, at least: two read ahead, one written, one free
	leastRing  = 64 << 10 // bytes of a chunk of a chain, where the range has as many
)

// shape chooses a ring's chunk.
func (x *ring) shape() {
	most := x.m.share() / leastSlots
	if c := x.m.opts.Chunk; c != 0 {
		most = min(most, c)
	}
	stated := uint64(0)
	if b, ok := x.m.mems[x.src.Memory].out.(devices.Batcher); ok && x.way == mem.Ring && x.form != inLanes {
		stated = b.Chunk(x.m.mems[x.dsts[0].dst.Memory].in, x.size)
	}
	switch {
	case stated != 0:
		x.chunk = even(x.size, max(stated, pageSize), most)
	case x.form == inBatch:
		best := max(x.m.cost(x.src.Memory, x.dsts[0].dst.Memory).chunk(x.size), leastChunk)
		x.chunk = even(x.size, best, most)
	case x.form == inChain, x.form == inHand:
		if x.way != mem.Ring {
			x.shapeLinked()
			break
		}
		x.chunk = min(max(pages(x.size/4), leastRing), chainChunk, most, pages(x.size))
	case x.form == inLanes: // enough of them for every lane to overlap with itself
		count := max((x.size+laneChunk-1)/laneChunk, min(2*uint64(x.lanesFor()), x.size/leastChunk), 1)
		x.chunk = min(pages((x.size+count-1)/count), laneChunk, most)
	}
	x.chunk = max(x.chunk&^(pageSize-1), pageSize)
}

// even makes chunks of about best bytes, and at most so many, equal.
func even(size, best, most uint64) uint64 {
	count := max((size+best/2)/best, (size+most-1)/most, 1)
	return min(pages((size+count-1)/count), max(most&^(pageSize-1), pageSize))
}

func pages(n uint64) uint64 { return (n + pageSize - 1) &^ (pageSize - 1) }

// wants is how much staging x should have, and the least that will do.
func (x *ring) wants() (want, least uint64) {
	chunks := (x.size + x.chunk - 1) / x.chunk
	if x.way == mem.Windows {
		return x.chunk * min(chunks, max(x.m.links.share/x.chunk, 1)), x.chunk
	}
	switch x.form {
	case inBatch:
		want = min(chunks*x.chunk, x.m.share())
		if x.gated {
			want = min(want, pages(x.m.share()/2))
		}
		return want, max(want/8, min(want, leastSlots*pageSize))
	case inLanes:
		return 2 * x.chunk * uint64(x.lanesFor()), 2 * x.chunk
	}
	return x.chunk * min(chunks, chainSlots), x.chunk
}

// fit makes the chunks of a batch smaller where its staging is less than it wanted: with one slot for
// two chunks the second read, which is listed before the first write, would wait for that.
func (x *ring) fit() {
	got, chunks := x.staging[0].size, (x.size+x.chunk-1)/x.chunk
	if x.form == inBatch && got < min(chunks, leastSlots)*x.chunk {
		x.chunk = max(got/leastSlots&^(pageSize-1), pageSize)
	}
}

// noStaging is why a ring fails that can have none.
func noStaging(m *Mover, x *ring, err error) error {
	if err == nil {
		err = mem.ErrNoHostMemory
	}
	want, _ := x.wants()
	return fmt.Errorf("mover %s: no staging for a ring of %s, within the budget of %s: %w", m.opts.Name, mem.FormatBytes(want), mem.FormatBytes(m.opts.Budget), err)
}
