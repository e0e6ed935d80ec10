package runtime

import (
	"godwit/internal/mover"
	"godwit/internal/resource"
)

// What this package's API has of packages that nobody else may import.
type (
	// OutOfMemory is why there was no room: what was needed at once, what there is, and who
	// holds it.
	OutOfMemory = resource.OutOfMemory
	// Holder is who holds memory, in an OutOfMemory.
	Holder = resource.Holder
	// MoverStats counts what was copied, and by which ways; see [Context.MoverStats].
	MoverStats = mover.Stats
	// RingFigures are costs of rings that contexts over the same devices share; see Options.Figures.
	RingFigures = mover.Figures
)
