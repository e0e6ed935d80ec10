package page

// What tests name of a Run.
type (
	Lane  = lane
	Held  = held
	Level = level

	Buffer = buffer
)

// Forgotten is the writer of bytes whose event is not kept.
const Forgotten = forgotten

// Keep has a recorder keep so many events.
func (r *Recorder) Keep(most int) { r.b.Keep(most) }

// Memories is the group of memories' lanes.
const Memories = memoryLanes

// Fold is fold, and then as Run does.
func Fold(r *Run, most int) {
	fold(r, most)
	layOut(r.Lanes)
}
