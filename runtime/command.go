package runtime

import (
	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
)

// From a request to the driver's command.

// command fills the scratch command, which is clear, from a request whose storage
// is there. c.mu is held.
func (c *Context) command(req *request, l *Launch) {
	s, m := &c.scratch, c.topo.Store(req.q.mem)
	s.cmd.Tag, s.cmd.Size = c.commandSeq+1, req.size
	switch req.op {
	case opWrite:
		s.cmd.Op, s.cmd.Dst, s.cmd.Src.Bytes, s.cmd.Awaited = devices.OpCopy, c.loc(req.a, m), req.data, req.awaited
		c.stage(req, m, true)
	case opRead:
		s.cmd.Op, s.cmd.Src, s.cmd.Dst.Bytes, s.cmd.Awaited = devices.OpCopy, c.loc(req.a, m), req.data, req.awaited
		c.stage(req, m, false)
	case opCopy:
		s.cmd.Op, s.cmd.Src, s.cmd.Dst = devices.OpCopy, c.loc(req.a, m), c.loc(req.b, m)
	case opFill:
		s.cmd.Op, s.cmd.Dst, s.cmd.Pattern = devices.OpFill, c.loc(req.a, m), req.data
	case opReadRect, opWriteRect, opCopyRect:
		c.rectCommand(req, m)
	case opLaunch:
		req.q.launch(l, m)
	case opHostCall, opSVMMap, opSVMUnmap, opSVMFree:
		s.cmd.Op, s.cmd.Call = devices.OpHostCall, req.call
	case opMap:
		s.cmd.Op = devices.OpMarker
		if req.mapFlags&MapInvalidate == 0 {
			s.cmd.Src, s.cmd.Size = c.loc(req.a, mem.Host), req.a.r.Size()
		}
	case opUnmap:
		s.cmd.Op = devices.OpMarker
		if m := c.maps.find(req.mapping); len(s.accs) > 0 { // it was for writing, and has not failed
			s.cmd.Dst = devices.Loc{Device: c.host, Block: m.root.onHost(), Off: m.r.Start}
			s.cmd.Size = m.r.Size()
		}
	default:
		s.cmd.Op = devices.OpMarker
	}
}

// loc is where a use lies on a memory that is its own store.
func (c *Context) loc(u use, m mem.MemoryID) devices.Loc {
	m = c.storeOf(u.buf.root, m)
	b, start := u.buf.root.blockAt(m, u.r.Start)
	return devices.Loc{Device: c.mems[m].dev, Block: *b, Off: u.r.Start - start}
}

// launch fills the scratch command from a launch. c.mu is held.
func (q *Queue) launch(l *Launch, m mem.MemoryID) {
	s := &q.c.scratch
	s.cmd.Op, s.cmd.Kernel, s.cmd.Dims = devices.OpLaunch, l.Kernel.on[q.mem], len(l.Global)
	s.cmd.Quiet = l.NoEvent && q.alone()
	s.cmd.Takes = l.Takes
	copy(s.cmd.Global[:], l.Global)
	copy(s.cmd.Local[:], l.Local)
	copy(s.cmd.Offset[:], l.Offset)
	s.values = s.values[:0]
	for i := range l.Args {
		if l.Args[i].kind == devices.ArgValue {
			s.values = append(s.values, l.Args[i].value()...)
		}
	}
	values, pointers := s.values, s.svmArgs
	for i := range l.Args {
		a := &l.Args[i]
		arg := devices.Arg{Kind: a.kind}
		switch {
		case a.kind == devices.ArgValue:
			n := len(a.value())
			arg.Value, values = values[:n:n], values[n:]
		case a.kind == devices.ArgLocal:
			arg.Size = a.size
		case a.kind == devices.ArgSVM:
			arg, pointers = q.svmArg(pointers[0], m), pointers[1:]
		case a.buf != nil:
			on := q.c.storeOf(a.buf.root, m)
			view := a.buf.view.Range
			b, start := a.buf.root.blockAt(on, view.Start)
			arg.Block, arg.Off, arg.Size = *b, view.Start-start, view.Size()
			if on != q.mem {
				arg.Device = q.c.mems[on].dev
			}
			uses := mem.Range{End: arg.Size}
			if a.ranged {
				arg.Size = a.off + a.size
				uses = mem.Range{Start: a.off, End: arg.Size}
			}
			arg.Promise = work.Promise{Made: true, Access: a.access(&l.Kernel.args[i]), Range: uses}
		}
		s.args = append(s.args, arg)
	}
	for _, b := range s.svmMore {
		s.args = append(s.args, q.svmArg(b, m))
	}
	s.cmd.Args = s.args
}

// alone reports whether nobody but later commands of q will want to know when a
// command of it has ended, so far. c.mu is held.
func (q *Queue) alone() bool {
	c := q.c
	return q.inOrder && !q.profiling && c.opts.Trace == nil && len(c.queues) == 1 && len(c.mems) == 2
}

// forget drops the caller's memory from the scratch command.
func (c *Context) forget() {
	s := &c.scratch
	if s.cmd.Op == devices.OpMarker && s.cmd.Size == 0 { // it has nothing of the caller's
		s.cmd.Tag = 0
		return
	}
	s.args = s.args[:0]
	s.cmd = devices.Command{}
}
