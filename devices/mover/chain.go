package mover

import (
	"fmt"
	"slices"

	"godwit/devices"
	"godwit/mem"
)

// A chain: chunk k is read into slot k mod slots as soon as the writes of chunk
// k - slots have left it, and written to every destination once it is read; so reads
// of one chunk overlap writes of another, and one read serves all destinations. All
// legs are submitted at once, tied together by points.

// chainWork is what a ring has of its chain.
type chainWork struct {
	writes []mem.Point // of the last chunk in each slot, slots x destinations
	waits  []mem.Wait  // scratch
}

// launchChain submits all legs.
func (x *ring) launchChain() error {
	slots := x.slots()
	w := &x.chain
	w.writes = slices.Grow(w.writes[:0], slots*x.n)[:slots*x.n]
	clear(w.writes)
	for k, off := 0, uint64(0); off < x.size && !x.lost(); k, off = k+1, off+x.chunk {
		err := x.launchChunk(k%slots, off, min(x.chunk, x.size-off))
		if err != nil && k == 0 {
			return err
		}
		if err != nil {
			x.fail(err)
		}
	}
	return nil
}

// launchChunk submits the legs of one chunk. It fails where the read is refused.
func (x *ring) launchChunk(s int, off, size uint64) error {
	m, w := x.m, &x.chain
	bytes := x.slot(s, size)
	before := w.writes[s*x.n : (s+1)*x.n]
	w.waits = w.waits[:0]
	for _, p := range before {
		if !p.Reached() {
			w.waits = append(w.waits, mem.Wait{Point: p, Kind: mem.Order})
		}
	}
	read, err := m.submitLeg(m.mems[x.src.Memory].out, devices.Loc{Bytes: bytes}, m.loc(&x.src, off), size, nil, w.waits)
	if err != nil {
		return fmt.Errorf("read of %d bytes into staging: %w", size, err)
	}
	w.waits = append(w.waits[:0], mem.Wait{Point: read, Kind: mem.Data})
	watched := false
	for i, a := range x.dsts[:x.n] {
		if a.err.Load() != nil {
			continue // this destination is lost already
		}
		write, err := m.submitLeg(m.mems[a.dst.Memory].in, m.loc(&a.dst, off), devices.Loc{Bytes: bytes}, size, nil, w.waits)
		if err != nil {
			a.fail(fmt.Errorf("write of %d bytes out of staging: %w", size, err))
			continue
		}
		before[i] = write
		a.watch(write)
		watched = true
	}
	if !watched { // all are lost, but may not end while the source is being read
		for _, a := range x.dsts[:x.n] {
			a.watch(read)
		}
		before[0] = read
	}
	return nil
}

// slots is how many chunks the ring's staging holds.
func (x *ring) slots() int { return max(len(x.ext.bytes)/int(x.chunk), 1) }

// slot is size bytes of a slot.
func (x *ring) slot(i int, size uint64) []byte {
	at := uint64(i) * x.chunk
	return x.ext.bytes[at : at+size]
}
