package scenario

import (
	"context"
	"fmt"

	"godwit/internal/rangemap"
	"godwit/mem"
	"godwit/study/bound"
)

// bounds sets the bytes moved beside what had to move.
func (r *runner) bounds(ctx context.Context, res *Result) (err error) {
	h := &hosted{store: r.ctx.Topology().Store, unread: make(map[mem.BufferID]*rangemap.Map[bool])}
	for i, id := range r.ids {
		m := rangemap.Make(r.s.Buffers[i].Size, false)
		h.unread[id] = &m
	}
	if res.BytesCompulsory, err = r.lowerBound(ctx, h); err != nil {
		return err
	}
	res.BytesHost, res.BytesHostBound = h.bytes, h.least
	if res.BytesMoved > res.BytesCompulsory {
		res.BytesCapacity = res.BytesMoved - res.BytesCompulsory
	}
	res.BytesCapacityBound, err = r.capacityBound(ctx)
	res.BytesLowerBound = res.BytesCompulsory + res.BytesCapacityBound
	return err
}

// capacityBound asks how few bytes had to move besides the compulsory ones, since
// memories hold less than the scenario's commands use. It is known where every
// command ended well: what a failure makes stale has to move again.
func (r *runner) capacityBound(ctx context.Context) (uint64, error) {
	for _, err := range r.failed {
		if err != nil {
			return 0, nil
		}
	}
	a := bound.New(r.ctx.Topology(), r.capacities(), 0)
	for i, id := range r.ids {
		if id == 0 {
			continue // never allocated
		}
		if err := a.Create(id, r.s.Buffers[i].Size, r.s.Buffers[i].Data != nil); err != nil {
			return 0, err
		}
	}
	for i, b := range r.s.Buffers {
		switch {
		case b.SizeBuffer > 0: // the count is read besides, and says which bytes matter
			a.Free(r.ids[i])
			a.Free(r.ids[b.SizeBuffer-1])
		case b.SVM != nil && b.SVM.Freed >= 0: // who needs its content until when is not for the order of commands to say
			a.Free(r.ids[i])
		}
	}
	for k := range r.s.Graphs {
		for _, b := range r.s.Graphs[k].Transients { // they share memory
			a.Free(r.ids[b])
		}
	}
	for i := range r.events { // parts of it may have been enough
		if rec := r.recorded(i); rec != nil {
			for k := range rec.Blocks {
				if b := &rec.Blocks[k]; b.Bytes < r.sizeOf(b.Buffer) {
					a.Parts(b.Buffer)
				}
			}
		}
	}
	for _, i := range r.order() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if rec := r.recorded(i); rec != nil && len(rec.Accesses) > 0 {
			if err := a.Command(rec.Accesses); err != nil {
				return 0, fmt.Errorf("capacity, #%d: %w", i+1, err)
			}
			for j := range rec.Steps {
				if s := &rec.Steps[j]; s.RideAlong > 0 {
					a.Along(s.Buffer, s.Range, s.To)
				}
			}
		}
	}
	return a.Bound().Capacity, nil
}

// sizeOf is the size of a root buffer, 0 where there is none.
func (r *runner) sizeOf(id mem.BufferID) uint64 {
	for i, of := range r.ids {
		if of == id {
			return r.s.Buffers[i].Size
		}
	}
	return 0
}

// capacities are what the memories hold, in bytes; 0 is no limit, or unknown.
func (r *runner) capacities() (out []uint64) {
	for m := range r.names {
		out = append(out, r.ctx.Resource(mem.MemoryID(m)).Stats().Capacity)
	}
	return out
}
