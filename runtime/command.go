package runtime

import (
	"slices"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// From a request to the driver's command.

// command fills the scratch command, which is clear, from a request whose storage
// is there. c.mu is held.
func (c *Context) command(req *request, l *Launch) {
	s, m := &c.scratch, c.topo.Store(req.q.mem)
	s.cmd.Tag, s.cmd.Size, s.cmd.Checked = c.commandSeq+1, req.size, devices.Vouched
	s.cmd.Unobserved = req.noEvent && !c.tellsEnds()
	switch req.op {
	case opWrite:
		s.cmd.Op, s.cmd.Src.Bytes, s.cmd.Awaited = devices.OpCopy, req.data, req.awaited
		c.place(&s.cmd.Dst, req.a, m)
		c.stage(req, m, true)
	case opRead:
		s.cmd.Op, s.cmd.Dst.Bytes, s.cmd.Awaited = devices.OpCopy, req.data, req.awaited
		c.place(&s.cmd.Src, req.a, m)
		c.stage(req, m, false)
	case opCopy:
		s.cmd.Op = devices.OpCopy
		c.place(&s.cmd.Src, req.a, m)
		c.place(&s.cmd.Dst, req.b, m)
	case opFill:
		s.cmd.Op, s.cmd.Pattern = devices.OpFill, req.data
		c.place(&s.cmd.Dst, req.a, m)
	case opReadRect, opWriteRect, opCopyRect:
		c.rectCommand(req, m)
	case opLaunch:
		req.q.launch(l, m)
	case opHostCall, opSVMMap, opSVMUnmap, opSVMFree:
		s.cmd.Op, s.cmd.Call = devices.OpHostCall, req.call
	case opMap:
		s.cmd.Op = devices.OpMarker
		if c.stamper != nil && req.mapFlags&MapInvalidate == 0 {
			s.cmd.Size = req.a.r.Size()
			c.place(&s.cmd.Src, req.a, mem.Host)
		}
	case opUnmap:
		s.cmd.Op = devices.OpMarker
		if m := req.mapped; c.stamper != nil && len(s.accs) > 0 { // it was for writing, and has not failed
			s.cmd.Dst = devices.Loc{Device: c.host, Block: m.root.onHost(), Off: m.r.Start}
			s.cmd.Size = m.r.Size()
		}
	default:
		s.cmd.Op = devices.OpMarker
	}
}

// place fills l, which is clear, with where a use lies on a memory that is its own store.
func (c *Context) place(l *devices.Loc, u use, m mem.MemoryID) {
	m = c.storeOf(u.buf.root, m)
	b, start := u.buf.root.blockAt(m, u.r.Start)
	l.Device, l.Block, l.Off = c.mems[m].dev, *b, u.r.Start-start
}

// launch fills the scratch command from a launch. c.mu is held.
func (q *Queue) launch(l *Launch, m mem.MemoryID) {
	s := &q.c.scratch
	s.cmd.Op, s.cmd.Kernel, s.cmd.Dims = devices.OpLaunch, l.Kernel.on[q.mem], len(l.Global)
	s.cmd.Takes, s.cmd.Operations, s.cmd.Size = l.Takes, l.Operations, l.Bytes
	copy(s.cmd.Global[:], l.Global)
	copy(s.cmd.Local[:], l.Local)
	copy(s.cmd.Offset[:], l.Offset)
	s.values, s.args = s.values[:0], slices.Grow(s.args[:0], len(l.Args)+len(s.svmMore))[:len(l.Args)]
	pointers := s.svmArgs
	for i := range l.Args {
		a, arg := &l.Args[i], &s.args[i]
		*arg = devices.Arg{Kind: a.kind}
		switch {
		case a.kind == devices.ArgValue:
			n := len(s.values)
			s.values = append(s.values, a.value()...)
			arg.Value = s.values[n:len(s.values):len(s.values)]
		case a.kind == devices.ArgLocal:
			arg.Size = a.size
		case a.kind == devices.ArgSampler:
			arg.Sampler = a.sampler
		case a.kind == devices.ArgSVM:
			*arg, pointers = q.svmArg(pointers[0], m), pointers[1:]
		case a.buf != nil:
			q.point(arg, a.buf, m)
			arg.Size, arg.Image = a.buf.view.Size(), a.image
			uses := mem.Range{End: arg.Size}
			if a.ranged {
				arg.Size = a.off + a.size
				uses = mem.Range{Start: a.off, End: arg.Size}
			}
			arg.Promise = work.Promise{Made: true, Access: a.access(&l.Kernel.args[i]), Range: uses}
		}
	}
	for _, b := range s.svmMore {
		s.args = append(s.args, q.svmArg(b, m))
	}
	s.cmd.Args = s.args
}

// point has an argument be where a buffer lies on a memory that is its own store. c.mu is held.
func (q *Queue) point(arg *devices.Arg, b *Buffer, m mem.MemoryID) {
	on := q.c.storeOf(b.root, m)
	block, start := b.root.blockAt(on, b.view.Range.Start)
	arg.Block, arg.Off = *block, b.view.Range.Start-start
	if arg.Device = nil; on != q.mem {
		arg.Device = q.c.mems[on].dev
	}
}

// forget drops the caller's memory from the scratch command.
func (c *Context) forget() {
	s := &c.scratch
	if s.cmd.Op != devices.OpMarker { // which has only ends
		s.args = s.args[:0]
		s.cmd = devices.Command{}
		return
	}
	if s.cmd.Tag = 0; s.cmd.Size != 0 {
		s.cmd.Dst, s.cmd.Src, s.cmd.Size = devices.Loc{}, devices.Loc{}, 0
	}
}
