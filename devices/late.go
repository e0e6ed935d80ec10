package devices

import "godwit/mem"

// Late says which part of a copy there is to do, once the copy's waits have
// succeeded: nobody may know it before, since it can be the result of a command
// that the copy waits for. Whoever runs the copy (the engine's queues, the
// mover, OpenCL's queues) asks Part once, moves that part, and tells Moved.
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
