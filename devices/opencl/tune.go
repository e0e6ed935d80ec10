//go:build cgo

package opencl

import (
	"time"

	"godwit/mem"
)

// How copies are cut into chunks, by size.
//
// With chunks of c bytes, links of b bytes a second and o seconds lost for each
// command, n bytes take about (n/c + 1) * (c/b + o): small chunks fill the
// pipeline soon but lose time, large ones the other way round. Where the best
// lies depends on the devices, so the first use of a pair tries a few shapes for
// each class of sizes and keeps the fastest.

// classes are the least sizes, in bytes, of the classes of copies.
var classes = [...]uint64{0, 512 << 10, 4 << 20, 64 << 20, 512 << 20}

// shapes are the shapes in use, by class.
type shapes [len(classes)]shape

// defaultShapes were the best between two H200s; see docs/measured.md.
func defaultShapes() shapes {
	return shapes{
		{First: 512 << 10, Max: 512 << 10, Queues: 1},
		{First: 256 << 10, Max: 512 << 10, Queues: 2},
		{First: 512 << 10, Max: 2 << 20, Queues: 2},
		{First: 1 << 20, Max: 4 << 20, Queues: 2},
		{First: 1 << 20, Max: 8 << 20, Queues: 2},
	}
}

func (s *shapes) of(n uint64) shape {
	for i := len(classes) - 1; i > 0; i-- {
		if n >= classes[i] {
			return s[i]
		}
	}
	return s[0]
}

// link returns what is known of the way.
func (p *pair) link() mem.Link {
	return mem.Link{Route: mem.RoutePeer, Latency: 30 * time.Microsecond, Bandwidth: 50e9}
}
