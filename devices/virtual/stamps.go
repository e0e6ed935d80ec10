package virtual

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"godwit/devices"
	"godwit/internal/flat"
	"godwit/internal/storage"
	"godwit/mem"
)

// stamps is the content of devices that keep no bytes: of each address of each memory, who
// wrote what is there. Memory 0 is this process: blocks of the host's, and staging.
//
// Stamps come from commands alone. What a command of the program's writes has its number,
// copies carry along what they find, and what a command finds is noted (World.Seen). So it
// says how bytes really got where they were read, whatever the planner believes, and who
// knows what the program did can tell whether they are the right ones.
//
// The program's own memory has no stamps: a copy out of it is a write, one into it a read.
// Counts (devices.Late) are read on the host as numbers. So the bytes of small writes and
// fills are kept, and are in the host's memory where a copy carries them there.
type stamps struct {
	w        *World
	memories []flat.Stamps
	seen     map[uint64][]flat.Seen // by command
	small    map[uint64][]byte      // by command: what it wrote, where that is no more than mostKept
}

// mostKept is how many bytes of a write are kept: more than a count has, 8.
const mostKept = 64

func newStamps(w *World) *stamps {
	return &stamps{w, make([]flat.Stamps, w.machine.Memories()), make(map[uint64][]flat.Seen), make(map[uint64][]byte)}
}

// place is an end of a copy: addresses of a memory, or bytes of the program's.
type place struct {
	memory  int
	at      uint64
	program []byte       // nil where it is none of the program's
	pinned  *devices.Loc // nil where it is no block
}

// place finds an end of a command of the program's, or else of a copy of the mover's, whose
// bytes in this process are staging. It fails where a block has been freed.
func (w *World) place(l *devices.Loc, size uint64, program bool) (place, error) {
	switch {
	case l.Device != nil:
		at, err := l.Device.(devices.HostBacked).Pin(l.Block, l.Off, size)
		return place{memory: w.memoryOf(l), at: at, pinned: l}, err
	case program:
		return place{at: l.Off, program: l.Bytes}, nil
	}
	return place{at: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(l.Bytes)))) + l.Off}, nil
}

func (p *place) leave() {
	if p.pinned != nil {
		p.pinned.Device.(devices.HostBacked).Unpin(p.pinned.Block)
	}
}

// run implements content. A launch looks again, at its end, at what it does not write: that
// must not change while it runs.
func (s *stamps) run(t *task, starts bool) error {
	moves := t.early == starts
	if t.cmd.Op == devices.OpLaunch {
		if err := s.reads(t, starts); err != nil || !moves {
			return err
		}
		return s.writes(t)
	}
	if moves {
		return s.execute(t.cmd)
	}
	return nil
}

// leg implements content.
func (s *stamps) leg(l *devices.Leg) error {
	return s.copy(&devices.Command{Op: devices.OpCopy, Dst: l.Dst, Src: l.Src, Size: l.Size})
}

// execute does what a command does that is no launch.
func (s *stamps) execute(c *devices.Command) error {
	switch c.Op {
	case devices.OpMarker:
		return s.host(c)
	case devices.OpFill:
		to, err := s.w.place(&c.Dst, c.Size, false)
		if err != nil {
			return fmt.Errorf("fill: destination: %w", err)
		}
		defer to.leave()
		at := mem.Range{Start: to.at, End: to.at + c.Size}
		s.memories[to.memory].Set(at, flat.Stamp{By: c.Tag})
		if c.Size <= mostKept {
			s.small[c.Tag] = bytes.Repeat(c.Pattern, int(c.Size)/len(c.Pattern))
		}
		if to.memory == 0 {
			s.count(at)
		}
		return nil
	}
	return s.copy(c)
}

// copy carries stamps along, writes those of a command that copies from the program's
// memory, and notes those that one sees which copies there.
func (s *stamps) copy(c *devices.Command) error {
	to, from := c.Size, c.Size
	if c.Op == devices.OpCopyRect {
		to, _ = devices.RectSpan(c.Rect.Region, c.Rect.DstRow, c.Rect.DstSlice)
		from, _ = devices.RectSpan(c.Rect.Region, c.Rect.SrcRow, c.Rect.SrcSlice)
	}
	dst, err := s.w.place(&c.Dst, to, c.Tag != 0)
	if err != nil {
		return fmt.Errorf("%v: destination: %w", c.Op, err)
	}
	defer dst.leave()
	src, err := s.w.place(&c.Src, from, c.Tag != 0)
	if err != nil {
		return fmt.Errorf("%v: source: %w", c.Op, err)
	}
	defer src.leave()
	if src.program != nil && c.Op == devices.OpCopy && c.Size <= mostKept {
		s.small[c.Tag] = slices.Clone(src.program[src.at : src.at+c.Size])
	}
	for p := range c.Pieces() {
		at := mem.Range{Start: src.at + p.Src, End: src.at + p.Src + p.Size}
		switch {
		case src.program != nil:
			s.memories[dst.memory].Set(at.Shift(dst.at+p.Dst-at.Start), flat.Stamp{By: c.Tag, Off: at.Start})
		case dst.program != nil:
			s.see(c.Tag, 0, dst.at+p.Dst, src.memory, at)
		default:
			s.memories[dst.memory].CopyFrom(&s.memories[src.memory], at, dst.at+p.Dst)
		}
		if dst.memory == 0 && dst.program == nil {
			s.count(at.Shift(dst.at + p.Dst - at.Start))
		}
	}
	return nil
}

// count writes to the host's memory what small writes wrote, where it has come there.
func (s *stamps) count(at mem.Range) {
	for r, first := range s.memories[0].Runs(at) {
		if bytes := s.small[first.By]; first.Arg == 0 && first.Off < uint64(len(bytes)) {
			copy(storage.BytesAt(r.Start, r.Size()), bytes[first.Off:])
		}
	}
}

// host is what the host does with its own bytes beside commands: it has written what a
// marker has as destination, and reads what that has as source.
func (s *stamps) host(c *devices.Command) error {
	if c.Src.Device != nil {
		p, err := s.w.place(&c.Src, c.Size, false)
		if err != nil {
			return fmt.Errorf("map: %w", err)
		}
		s.see(c.Tag, 0, 0, p.memory, mem.Range{Start: p.at, End: p.at + c.Size})
		p.leave()
	}
	if c.Dst.Device != nil {
		p, err := s.w.place(&c.Dst, c.Size, false)
		if err != nil {
			return fmt.Errorf("unmap: %w", err)
		}
		s.memories[p.memory].Set(mem.Range{Start: p.at, End: p.at + c.Size}, flat.Stamp{By: c.Tag})
		p.leave()
	}
	return nil
}

// reads notes what a launch finds in the buffers that it reads.
func (s *stamps) reads(t *task, starts bool) error {
	return s.args(t, func(arg int32, used mem.Range, mode mem.Mode, p *place) {
		if mode.Reads() && (starts || !mode.Writes()) {
			s.see(t.cmd.Tag, arg, used.Start, p.memory, used.Shift(p.at-used.Start))
		}
	})
}

// writes is what a launch writes: what it promises to, and all that it may.
func (s *stamps) writes(t *task) error {
	return s.args(t, func(arg int32, used mem.Range, mode mem.Mode, p *place) {
		if mode.Writes() {
			s.memories[p.memory].Set(used.Shift(p.at-used.Start), flat.Stamp{By: t.cmd.Tag, Arg: arg, Off: used.Start})
		}
	})
}

// args calls f for each buffer that a launch uses, with the part that it uses, which is
// at p.
func (s *stamps) args(t *task, f func(arg int32, used mem.Range, mode mem.Mode, p *place)) error {
	for i := range t.cmd.Args {
		a := &t.cmd.Args[i]
		if a.Kind != devices.ArgBuffer || a.Block.IsZero() {
			continue
		}
		l := devices.Loc{Device: a.Device, Block: a.Block, Off: a.Off}
		if l.Device == nil {
			l.Device = s.w.devs[t.on-1]
		}
		used, mode := mem.Range{End: a.Size}, mem.ReadWrite
		if a.Promise.Made {
			used, mode = a.Promise.Range, a.Promise.Access
		}
		l.Off += used.Start
		p, err := s.w.place(&l, used.Size(), false)
		if err != nil {
			return fmt.Errorf("kernel %s, argument %d: %w", t.cmd.Kernel.Name(), i, err)
		}
		f(int32(i), used, mode, &p)
		p.leave()
	}
	return nil
}

// see notes what a command finds at addresses of a memory, which are its argument's bytes
// from one on.
func (s *stamps) see(command uint64, arg int32, from uint64, memory int, at mem.Range) {
	seen := s.seen[command]
	for r, first := range s.memories[memory].Runs(at) {
		if first.By == command && first.Arg != flat.Created {
			continue // a launch has written there by another argument before it looks again
		}
		seen = append(seen, flat.Seen{Arg: arg, Range: r.Shift(from - at.Start), First: first})
	}
	s.seen[command] = seen
}

// Seen is what a command found in the memories that it read, where devices keep no bytes:
// of a read by the bytes of the memory that it reads into, of a map by those of its range,
// of a launch by those of its argument. Each command's is given once.
func (w *World) Seen(command uint64) []Seen {
	s, ok := w.keeps.(*stamps)
	if !ok {
		return nil
	}
	seen := s.seen[command]
	delete(s.seen, command)
	return seen
}

// Stamps implements devices.Stamper.
func (h *hostDevice) Stamps() bool { return h.w.opts.Stamps }

// Created implements devices.Stamper. Of the bytes it keeps what may be a count.
func (h *hostDevice) Created(b mem.Block, id mem.BufferID, content []byte) {
	at, err := h.Pin(b, 0, b.Size)
	if err != nil {
		panic(fmt.Sprintf("model: a buffer made with a block that the host has not: %v", err))
	}
	defer h.Unpin(b)
	h.w.keeps.(*stamps).memories[0].Set(mem.Range{Start: at, End: at + b.Size}, flat.Stamp{By: uint64(id), Arg: flat.Created})
	n := min(b.Size, mostKept)
	copy(storage.BytesAt(at, n), content[:n])
}
