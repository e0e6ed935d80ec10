package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The Vulkan Memory Allocator's statistics with their detailed map, as
// vmaBuildStatsString and vmaBuildVirtualBlockStatsString give them. They show what
// is live at a moment, and where; not how it came to be. So a trace of them
// allocates, pool by pool, what is there in the order of addresses, and frees
// nothing.

// vmaBlock is a memory block, or a virtual one.
type vmaBlock struct {
	TotalBytes     uint64
	Suballocations []vmaPiece
}

type vmaPiece struct {
	Offset uint64
	Size   uint64
	Type   string // FREE, or what it is used for
}

// vmaPool is the default pool of a memory type, or a custom one.
type vmaPool struct {
	Name                 string
	Blocks               map[string]vmaBlock
	DedicatedAllocations []vmaPiece
}

// readVMA reads the value of one of the keys that hold pieces: a trace for each
// pool that has any.
func readVMA(dec *json.Decoder, file, key string) ([]*Allocs, error) {
	switch key {
	case "Details":
		var b vmaBlock
		if err := dec.Decode(&b); err != nil {
			return nil, err
		}
		t, err := vmaTrace(file, vmaPool{Blocks: map[string]vmaBlock{"0": b}})
		if err != nil || t == nil {
			return nil, err
		}
		return []*Allocs{t}, nil
	case "CustomPools":
		var types map[string][]vmaPool
		if err := dec.Decode(&types); err != nil {
			return nil, err
		}
		var out []*Allocs
		for _, kind := range slices.Sorted(maps.Keys(types)) {
			for i, p := range types[kind] {
				t, err := vmaTrace(fmt.Sprintf("%s#%s, %s", file, kind, cmp.Or(p.Name, "pool "+strconv.Itoa(i))), p)
				if err != nil {
					return nil, err
				}
				if t != nil {
					out = append(out, t)
				}
			}
		}
		return out, nil
	}
	var types map[string]vmaPool
	if err := dec.Decode(&types); err != nil {
		return nil, err
	}
	var out []*Allocs
	for _, kind := range slices.Sorted(maps.Keys(types)) {
		t, err := vmaTrace(file+"#"+kind, types[kind])
		if err != nil {
			return nil, err
		}
		if t != nil {
			out = append(out, t)
		}
	}
	return out, nil
}

// vmaTrace is a pool's trace; nil where nothing is live in it.
func vmaTrace(name string, p vmaPool) (*Allocs, error) {
	var b AllocBuilder
	next := uint64(0)
	add := func(where string, pieces []vmaPiece) error {
		for i, x := range pieces {
			if x.Type == "FREE" {
				continue
			}
			if err := b.Alloc(next, x.Size, 0); err != nil {
				return fmt.Errorf("%s, %s, piece %d: %w", name, where, i, err)
			}
			next++
		}
		return nil
	}
	// Blocks are numbered in the order in which they were made.
	numbers := slices.SortedFunc(maps.Keys(p.Blocks), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	for _, n := range numbers {
		block := p.Blocks[n]
		at := uint64(0)
		for i, x := range block.Suballocations {
			if x.Offset < at || x.Size > block.TotalBytes || x.Offset > block.TotalBytes-x.Size {
				return nil, fmt.Errorf("%s, block %s, piece %d: %d bytes at %d, after %d and in %d: they do not lie one after the other in it: %w",
					name, clip(n), i, x.Size, x.Offset, at, block.TotalBytes, ErrMalformed)
			}
			at = x.Offset + x.Size
		}
		if err := add("block "+clip(n), block.Suballocations); err != nil {
			return nil, err
		}
	}
	if err := add("dedicated", p.DedicatedAllocations); err != nil {
		return nil, err
	}
	if next == 0 {
		return nil, nil
	}
	return b.Build(name, FormatVMA), nil
}
