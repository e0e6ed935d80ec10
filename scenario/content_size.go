package scenario

import (
	"encoding/binary"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/mem"
	"godwit/migration"
	"godwit/runtime"
	"godwit/trace"
)

// Content size: a buffer whose first bytes are all that matter, as many as the
// first 8 bytes of another buffer say when a command is about to use it. What is
// beyond them is undefined to whoever reads it; it is what the memory where the
// command runs happens to hold.

// countRange is where a size buffer holds the count.
var countRange = mem.Range{End: migration.CountSize}

// sized is a buffer's content_size as written.
type sized struct {
	buffer int
	name   string
	node   ast.Node
}

// readContentSize notes the size buffer, which may be declared below.
func (l *loader) readContentSize(s *mapping) {
	if name := s.text("content_size"); name != "" {
		l.sized = append(l.sized, sized{len(l.out.Buffers), name, s.get("content_size")})
	}
}

// nameSizeBuffers finds the buffers that content_size names.
func (l *loader) nameSizeBuffers() {
	for _, z := range l.sized {
		if z.buffer >= len(l.out.Buffers) {
			continue // at fault otherwise
		}
		b := &l.out.Buffers[z.buffer]
		i := slices.IndexFunc(l.out.Buffers, func(o Buffer) bool { return o.Name == z.name })
		counted := func(i int) bool { return slices.ContainsFunc(l.sized, func(o sized) bool { return o.buffer == i }) }
		switch {
		case i < 0 && l.lost[z.name]: // its declaration is at fault
		case i < 0:
			l.errorf(z.node, "buffer %q: content_size %q: no buffer has this name", b.Name, z.name)
		case l.out.Buffers[i].SVM != nil:
			l.errorf(z.node, "buffer %q: content_size %q: want a buffer, this is shared virtual memory", b.Name, z.name)
		case i == z.buffer:
			l.errorf(z.node, "buffer %q: content_size: it cannot count its own bytes", b.Name)
		case l.out.Buffers[i].Size < migration.CountSize:
			l.errorf(z.node, "buffer %q: content_size %q: a count takes %d bytes, it has %d", b.Name, z.name, migration.CountSize, l.out.Buffers[i].Size)
		case counted(i):
			l.errorf(z.node, "buffer %q: content_size %q: that has a content_size itself", b.Name, z.name)
		default:
			b.SizeBuffer = i + 1
		}
	}
}

// setSizeBuffers tells the runtime.
func (r *runner) setSizeBuffers() error {
	for i, b := range r.s.Buffers {
		if b.SizeBuffer == 0 {
			continue
		}
		if err := r.buffers[i].SetContentSizeBuffer(r.buffers[b.SizeBuffer-1]); err != nil {
			return r.s.blame(b.Line, "buffer "+b.Name+": content_size", err)
		}
	}
	return nil
}

// counts reports whether any buffer has a size buffer.
func (s *Scenario) counts() bool {
	return slices.ContainsFunc(s.Buffers, func(b Buffer) bool { return b.SizeBuffer > 0 })
}

// In the reference run:

// limit is how many bytes of a buffer those who read it now may rely on.
func (f *flat) limit(buffer int) uint64 {
	b := &f.s.Buffers[buffer]
	if by := b.SizeBuffer - 1; by >= 0 && f.said[by] {
		return min(binary.NativeEndian.Uint64(f.buffers[by]), b.Size)
	}
	return b.Size
}

// seen is what reads of r of a buffer yield, given how far they may rely on it.
func (f *flat) seen(buffer int, r mem.Range, limit uint64) []byte {
	bytes := f.buffers[buffer][r.Start:r.End]
	if limit >= r.End {
		return bytes
	}
	out := slices.Clone(bytes)
	repeat(out[max(limit, r.Start)-r.Start:], f.filling)
	return out
}

// hide gives what a launch reads beyond counts the filling. What it does not
// write is as before after restore.
func (f *flat) hide(c *Command) (restore func()) {
	type tail struct {
		place []byte
		was   []byte
	}
	var tails []tail
	var written []*Arg
	for i := range c.Args {
		if a := &c.Args[i]; a.Buffer && a.Access.Writes() {
			written = append(written, a)
		}
	}
	for i := range c.Args {
		a := &c.Args[i]
		if !a.Buffer || !a.Access.Reads() || f.limit(a.Place.Buffer) >= a.Used.End {
			continue
		}
		buffer := f.buffers[a.Place.Buffer]
		was := slices.Clone(buffer)
		r := mem.Range{Start: max(a.Used.Start, f.limit(a.Place.Buffer)), End: a.Used.End}
		repeat(buffer[r.Start:r.End], f.filling)
		for at := r.Start; at < r.End; { // all but what is written
			next := r.End
			inside := slices.ContainsFunc(written, func(w *Arg) bool {
				if w.Place.Buffer != a.Place.Buffer || w.Used.End <= at {
					return false
				}
				if w.Used.Start > at {
					next = min(next, w.Used.Start)
					return false
				}
				next = min(r.End, w.Used.End)
				return true
			})
			if !inside {
				tails = append(tails, tail{buffer[at:next], was[at:next]})
			}
			at = next
		}
	}
	return func() {
		for _, t := range tails {
			copy(t.place, t.was)
		}
	}
}

// mapped notes how far a mapping shows what counts; what the unmap will write
// is undefined beyond, but for what the host writes.
func (f *flat) mapped(c *Command) {
	limit := f.limit(c.Place.Buffer)
	f.mapLimit[c.Mapping] = limit
	if flags := f.s.Mappings[c.Mapping].Flags; flags&runtime.MapWrite != 0 {
		copy(f.bytesOf(c.Place), f.seen(c.Place.Buffer, c.Place.Range, limit))
	}
}

// say notes that a size buffer has a count.
func (f *flat) say(p Place) {
	if p.Range.Overlaps(countRange) {
		f.said[p.Buffer] = true
	}
}

// wrote notes which size buffers a command has written.
func (f *flat) wrote(c *Command) {
	switch c.Kind {
	case Write, HostWrite, Fill:
		f.say(c.Place)
	case Copy:
		f.say(c.To)
	case Launch:
		for i := range c.Args {
			if a := &c.Args[i]; a.Buffer && a.Access.Writes() {
				f.say(Place{Buffer: a.Place.Buffer, Range: a.Used})
			}
		}
	}
}

// In the explanation:

// late says of a late copy what became of it.
func (x *explainer) late(s *trace.StepRecord, out *CopyResult) {
	if !s.Late {
		return
	}
	end := x.ended(s.Point)
	out.Planned, out.Offset, out.Bytes = out.Bytes, end.Moved.Start, end.Moved.Size()
	if s.Count == 0 {
		out.Reason += "; the rest of it was there"
		return
	}
	out.Reason += "; as far as " + x.names[s.Count] + " says, " + sizeText(end.Count)
}
