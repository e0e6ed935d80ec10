package scenario

import (
	"context"
	"encoding/binary"
	"fmt"

	"godwit/internal/flat"
	"godwit/internal/storage"
	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
)

// Runs over devices that keep no bytes, but who wrote them (virtual.Options.Stamps). The
// reference run is then the commands in their order, by stamps: what each read and launch
// found must be what its buffers held by then, and so must what the buffers hold at the end.
// No content is made, and none can be expected. Counts of content sizes are what the
// scenario writes there.

// stamps reports whether the run's devices keep no bytes.
func (r *runner) stamps() bool {
	return r.opt.Machine != nil && (r.opt.Stamps || r.opt.Machine.Stamps)
}

// checkStamps refuses what takes bytes.
func (r *runner) checkStamps() error {
	if !r.stamps() {
		return nil
	}
	return r.s.takesBytes("the devices of machine " + r.opt.Machine.Name + " keep no bytes")
}

// Stampable reports whether the scenario may run on devices that keep no bytes.
func (s *Scenario) Stampable() bool { return s.takesBytes("") == nil }

// takesBytes says what of the scenario takes bytes, where its devices are without any.
func (s *Scenario) takesBytes(without string) error {
	for i := range s.Expect {
		if e := &s.Expect[i]; e.Place != nil && s.Times == 0 {
			return at(s.File, e.Line, "expect: content of %s: %s", e.Place.Name, without)
		}
	}
	for i := range s.Buffers {
		if b := &s.Buffers[i]; b.SVM != nil {
			return at(s.File, b.Line, "svm %s: %s, and a pointer is bytes", b.Name, without)
		}
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		for _, u := range s.uses(c) {
			if u.mode.Writes() && s.isCount(u.buffer, u.r) && !c.saysCount() {
				return at(s.File, c.Line, "#%d %s: it writes a count, and %s: want it from a write of up to %d bytes, from the first on", i+1, s.text(c), without, mostCount)
			}
		}
	}
	return nil
}

// mostCount is how many bytes a command may write with a count among them: of so few the
// world keeps the bytes.
const mostCount = 64

// isCount reports whether a range of a buffer holds bytes of a count.
func (s *Scenario) isCount(buffer int, r mem.Range) bool {
	for i := range s.Buffers {
		if s.Buffers[i].SizeBuffer == buffer+1 {
			return r.Overlaps(mem.Range{End: migration.CountSize})
		}
	}
	return false
}

// saysCount reports whether a command says what count it writes, or lets the host do so.
func (c *command) saysCount() bool {
	if c.Data == nil && c.Pattern == nil {
		return c.Mapping >= 0
	}
	return c.Rect == nil && c.Place.Range.Contains(mem.Range{End: migration.CountSize}) && c.Place.Range.Size() <= mostCount
}

// stamped is a reference run by stamps.
type stamped struct {
	s      *Scenario
	roots  []flat.Stamps
	counts map[int]uint64 // by size buffer, where one was written
}

func (r *runner) newStamped() *stamped {
	x := &stamped{r.s, make([]flat.Stamps, len(r.s.Buffers)), make(map[int]uint64)}
	for i := range r.s.Buffers {
		if b := &r.s.Buffers[i]; b.Data != nil {
			all := mem.Range{End: b.Size}
			x.roots[i].Set(all, flat.Stamp{By: uint64(r.ids[i]), Arg: flat.Created})
			if r.s.isCount(i, all) {
				x.counts[i] = binary.NativeEndian.Uint64(b.Data.Bytes(b.Size, nil))
			}
		}
	}
	return x
}

// limit is how many bytes of a buffer those who read it may rely on.
func (x *stamped) limit(buffer int) uint64 {
	b := &x.s.Buffers[buffer]
	if n, ok := x.counts[b.SizeBuffer-1]; ok && b.SizeBuffer > 0 {
		return min(n, b.Size)
	}
	return b.Size
}

// undefine makes bytes some of which nothing is known.
func (x *stamped) undefine(buffer int, r mem.Range) { x.roots[buffer].Set(r, flat.Stamp{}) }

// count keeps the count that a command says.
func (x *stamped) count(c *command) {
	if !c.saysCount() || !x.s.isCount(c.Place.Buffer, c.Place.Range) {
		return
	}
	bytes := make([]byte, c.Place.Range.Size())
	switch {
	case c.Data != nil:
		c.Data.put(bytes, nil)
	case c.Pattern != nil:
		flat.Repeat(bytes, c.Pattern)
	default: // the host says it in what it has mapped
		return
	}
	x.counts[c.Place.Buffer] = binary.NativeEndian.Uint64(bytes)
}

// stepByStamps runs command i in the reference run by stamps, and compares what it has found.
func (v *verifier) stepByStamps(_ context.Context, i int) (err error) {
	c, by := &v.s.Commands[i], uint64(0)
	if v.failed[i] != nil {
		c.lost(v.s, v.by.undefine)
		return nil
	}
	if e := v.events[i]; !e.IsZero() {
		if by, err = e.Command(); err != nil {
			return err
		}
	}
	c.kind().look(v, fmt.Sprintf("#%d %s", i+1, v.s.text(c)), c, v.model.world.Seen(by))
	c.kind().stamp(v.by, c, by)
	v.by.count(c)
	return nil
}

// stampedPiece is how much is read at once at the end, in bytes, into memory that nobody
// touches.
const stampedPiece = 64 << 20

// saw compares a range of a buffer with what was found there, as bytes of an argument from
// at on.
func (v *verifier) saw(what string, buffer int, r mem.Range, arg int32, at uint64, seen []flat.Seen) {
	known := r.Intersect(mem.Range{End: v.by.limit(buffer)})
	undefined := r.Size()
	for run, first := range v.by.roots[buffer].Runs(known) {
		if (first != flat.Stamp{}) {
			undefined -= run.Size()
		}
	}
	v.res.BytesCompared += r.Size() - undefined
	v.res.BytesUndefined += undefined
	if err := v.by.roots[buffer].Compare(known, arg, at, seen); err != nil {
		v.res.Mismatches = append(v.res.Mismatches, fmt.Sprintf("%s: %v", what, err))
	}
}

// content is what a command writes, and room what one reads into: over devices that keep no
// bytes the same addresses, which nobody touches, are enough for all. They fail with
// mem.ErrNoMemory where this computer has not so many, and with mem.ErrNoHostMemory where it
// has less memory than content.
func (r *runner) content(d *content, size uint64) ([]byte, error) {
	if r.stamps() && size > mostCount {
		return r.room(size)
	}
	if err := r.affords(size); err != nil {
		return nil, err
	}
	return d.Bytes(size, r.at), nil
}

// lend is memory of the program's that a buffer uses in place: over devices that keep no bytes, addresses of its own, since
// by these it is told who wrote what.
func (r *runner) lend(d *content, size uint64) ([]byte, error) {
	if !r.stamps() || size <= mostCount {
		return r.content(d, size)
	}
	if r.lent == nil {
		total := uint64(0)
		for i := range r.s.Buffers {
			if b := &r.s.Buffers[i]; b.Flags&runtime.UseHostPtr != 0 {
				total += b.Size
			}
		}
		var err error
		if r.lent, err = r.blank.Bytes(total); err != nil {
			return nil, err
		}
	}
	out := r.lent[:size:size]
	r.lent = r.lent[size:]
	return out, nil
}

func (r *runner) room(size uint64) ([]byte, error) {
	if !r.stamps() {
		if err := r.affords(size); err != nil {
			return nil, err
		}
		r.kept += size
		return make([]byte, size), nil
	}
	return r.blank.Bytes(size)
}

// affords fails where so many bytes more are more than this computer's memory: the Go runtime would end the process.
func (r *runner) affords(size uint64) error {
	has := storage.PhysicalMemory()
	if r.stamps() || has == 0 || size <= has-min(has, r.kept) {
		return nil
	}
	return fmt.Errorf("%s of content, beside %s of others: this computer has %s of memory, and --stamps on a --machine takes none for it: %w",
		mem.FormatBytes(size), mem.FormatBytes(r.kept), mem.FormatBytes(has), mem.ErrNoHostMemory)
}
