package scenario

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/mem/trace"
	"godwit/migration"
)

// Content size: a buffer whose first bytes are all that matter, as many as the
// first 8 bytes of another buffer say when a command is about to use it. What is
// beyond them is undefined to whoever reads it; it is what the memory where the
// command runs happens to hold.

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
		i := slices.IndexFunc(l.out.Buffers, func(o bufferDecl) bool { return o.Name == z.name })
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
	return slices.ContainsFunc(s.Buffers, func(b bufferDecl) bool { return b.SizeBuffer > 0 })
}

// late says of a late copy what became of it.
func (x *explainer) late(s *trace.StepRecord, out *copyResult) {
	if !s.Late {
		return
	}
	e := x.ended(s.Point)
	out.Planned, out.Offset, out.Bytes = out.Bytes, e.Moved.Start, e.Moved.Size()
	if s.Count == 0 {
		out.Reason += "; the rest of it was there"
		return
	}
	out.Reason += "; as far as " + x.names[s.Count] + " says, " + sizeText(e.Count)
}
