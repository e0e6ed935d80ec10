package virtual

import (
	"godwit/internal/flat"
	"godwit/internal/network"
)

// What this package's API has of packages that nobody else may import.
type (
	// Network is the links of a world and what goes over them.
	Network = network.Network
	// Channel is a link that transfers share.
	Channel = network.Channel
	// Seen is what a command found where it read; see [World.Seen].
	Seen = flat.Seen
)
