package scenario

import (
	"context"
	"fmt"
	"slices"

	"godwit/mem"
	"godwit/migration/oracle"
	"godwit/trace"
)

// The lower bound. The oracle keeps an entry for every offset of every buffer;
// here an offset stands for all bytes between two neighbouring ends of accesses,
// which share their fate, so that a buffer of a GiB costs as many entries as it
// has such ends.

// cuts are the ends of accesses in each buffer, ascending, from 0 to its size.
type cuts map[mem.BufferID][]uint64

// index turns bytes of a buffer into offsets of the oracle's.
func (c cuts) index(id mem.BufferID, r mem.Range) mem.Range {
	start, _ := slices.BinarySearch(c[id], r.Start)
	end, _ := slices.BinarySearch(c[id], r.End)
	return mem.Range{Start: uint64(start), End: uint64(end)}
}

// bytes is how many bytes an offset of the oracle's stands for.
func (c cuts) bytes(id mem.BufferID, off uint64) uint64 { return c[id][off+1] - c[id][off] }

// lowerBound asks the oracle how many bytes had to move for the scenario's
// commands, as the runtime recorded what they access.
func (r *runner) lowerBound(ctx context.Context) (uint64, error) {
	c := r.cuts()
	o := oracle.New(r.ctx.Topology(), 1)
	for i, id := range r.ids {
		if id == 0 {
			continue // never allocated
		}
		var valid mem.MemorySet
		if r.s.Buffers[i].Data != nil {
			valid = mem.SetOf(mem.Host)
		}
		if err := o.Create(id, uint64(len(c[id])-1), valid); err != nil {
			return 0, err
		}
	}
	for i, b := range r.s.Buffers {
		if b.SizeBuffer > 0 {
			if err := o.SetContentSize(r.ids[i], r.ids[b.SizeBuffer-1]); err != nil {
				return 0, err
			}
		}
	}
	var total uint64
	for i := range r.events {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rec := r.recorded(i)
		if rec == nil {
			continue
		}
		if len(rec.Accesses) > 0 {
			n, err := r.needed(o, c, rec)
			if err != nil {
				return 0, fmt.Errorf("lower bound, #%d: %w", i+1, err)
			}
			total += n
		}
		switch id, bytes := r.mapped(i); {
		case id == 0:
		case r.s.Commands[i].Kind == Map:
			o.Mapped(id, c.index(id, bytes))
		default:
			o.Unmapped(id, c.index(id, bytes))
		}
		r.progress("lower bound", i+1, len(r.events))
	}
	return total, nil
}

// cuts collects the ends of all accesses.
func (r *runner) cuts() cuts {
	c := make(cuts)
	for i, id := range r.ids {
		c[id] = []uint64{0, r.s.Buffers[i].Size}
	}
	for _, b := range r.s.Buffers {
		for at := uint64(1); b.SizeBuffer > 0 && at <= countRange.End; at++ { // a count has an offset for each byte
			c[r.ids[b.SizeBuffer-1]] = append(c[r.ids[b.SizeBuffer-1]], at)
		}
	}
	for i := range r.events {
		if rec := r.recorded(i); rec != nil {
			for _, a := range rec.Accesses {
				c[a.Buffer] = append(c[a.Buffer], a.Range.Start, a.Range.End)
			}
			for j := range rec.Steps {
				s := &rec.Steps[j]
				if s.Count != 0 {
					c[s.Buffer] = append(c[s.Buffer], r.counted(s))
				}
				if s.RideAlong > 0 {
					c[s.Buffer] = append(c[s.Buffer], s.Range.Start, s.Range.End)
				}
			}
		}
		if id, bytes := r.mapped(i); id != 0 { // which may access nothing
			c[id] = append(c[id], bytes.Start, bytes.End)
		}
	}
	for id := range c {
		slices.Sort(c[id])
		c[id] = slices.Compact(c[id])
	}
	return c
}

// mapped says what command i maps for writing, or unmaps; 0 where it does not.
func (r *runner) mapped(i int) (mem.BufferID, mem.Range) {
	cmd := &r.s.Commands[i]
	if cmd.Kind != Map && cmd.Kind != Unmap || !r.s.Mappings[cmd.Mapping].writes {
		return 0, mem.Range{}
	}
	p := r.s.Mappings[cmd.Mapping].Place
	return r.ids[p.Buffer], p.Range
}

// needed is how many bytes had to move for one command.
func (r *runner) needed(o *oracle.Oracle, c cuts, rec *trace.CommandRecord) (bytes uint64, err error) {
	accs := slices.Clone(rec.Accesses)
	for i := range accs {
		accs[i].Range = c.index(accs[i].Buffer, accs[i].Range)
	}
	for i := range rec.Steps {
		if s := &rec.Steps[i]; s.Count != 0 {
			o.SetLimit(s.Buffer, c.index(s.Buffer, mem.Range{End: r.counted(s)}).End)
		}
	}
	o.OnMove(func(id mem.BufferID, off uint64) { bytes += c.bytes(id, off) })
	copies, err := o.Prefetch(accs)
	if err != nil {
		return 0, err
	}
	for i := range rec.Steps {
		if s := &rec.Steps[i]; s.RideAlong > 0 {
			o.Along(copies.Command, s.Buffer, c.index(s.Buffer, s.Range), s.From, s.To)
		}
	}
	_, err = o.Enqueue(accs)
	return bytes, err
}

// counted is how many bytes of its buffer a late copy found to matter.
func (r *runner) counted(s *trace.StepRecord) uint64 {
	i := slices.Index(r.ids, s.Buffer)
	return min(r.rec.ended(s.Point).Count, r.s.Buffers[i].Size)
}
