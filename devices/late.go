package devices

import "godwit/mem"

// Late says which part of a copy there is to do, once the copy's waits have
// succeeded: nobody may know it before, since it can be the result of a command
// that the copy waits for. Whoever runs the copy (the engine's queues, the
// transport, OpenCL's queues) asks Part once, moves that part, and tells Moved.
// Both are called from any goroutine, perhaps under locks of a driver's: they
// must be quick, must not block and must not call a driver.
type Late interface {
	// Part is what to move of the copy's bytes [0, Size). Where it is empty the
	// copy has succeeded as it is. It is not called where a Data wait failed.
	Part() mem.Range
	// Moved tells that the copy has succeeded, before its point is reached.
	Moved()
}

// PartOf is the part of a copy of size bytes that l asks for, within the copy.
func PartOf(l Late, size uint64) mem.Range {
	return l.Part().Intersect(mem.Range{End: size})
}

// runLate runs a copy as far as its Late says.
func (w *work) runLate(e *Engine) error {
	l, part := w.cmd.Late, PartOf(w.cmd.Late, w.cmd.Size)
	if !part.Empty() {
		w.cmd.Dst.Off += part.Start
		w.cmd.Src.Off += part.Start
		w.cmd.Size = part.Size()
		if err := e.protect(&w.cmd); err != nil {
			return err
		}
	}
	l.Moved()
	return nil
}

// CopyLate is Copy from one end to one other of the part that late says, once
// waits are reached.
func (t *Transport) CopyLate(src, dst End, size uint64, late Late, waits []mem.Wait) (mem.Point, error) {
	dsts, out := [1]End{dst}, [1]mem.Point{}
	err := t.move(src, dsts[:], size, late, waits, out[:])
	return out[0], err
}

// cut leaves of a transfer what its Late asks for, now that it is known. Its
// chunk is chosen again for what is left.
func (x *transfer) cut() {
	part := PartOf(x.late, x.size)
	x.src.Off += part.Start
	x.dsts[0].dst.Off += part.Start
	if x.size = part.Size(); part.Empty() {
		x.size = 0
		return
	}
	x.t.mu.Lock()
	x.chunk = x.t.chunkOf(x.src.Device, x.dsts[0].dst.Device, x.size)
	x.t.mu.Unlock()
}
