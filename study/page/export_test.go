package page

// What tests name of a Run.
type (
	Lane  = lane
	Held  = held
	Level = level
)

// Memories is the group of memories' lanes.
const Memories = memoryLanes

// Fold is fold, and then as Run does.
func Fold(r *Run, most int) {
	fold(r, most)
	layOut(r.Lanes)
}
