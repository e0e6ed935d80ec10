package formats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"godwit/internal/input"
)

// The Vulkan Memory Allocator's statistics with their detailed map, as
// vmaBuildStatsString and vmaBuildVirtualBlockStatsString give them. They show what
// is live at a moment, and where; not how it came to be. So a trace of them
// allocates, pool by pool, what is there in the order of addresses, and frees
// nothing; Places keep where it is, the blocks of a pool one after the other. They are read token by token: what is decoded at once is one piece.

// vmaBlock is a memory block, or a virtual one.
type vmaBlock struct {
	name   string
	total  uint64 // bytes
	pieces []vmaPiece
}

type vmaPiece struct {
	Offset uint64
	Size   uint64
	Type   string // FREE, or what it is used for
}

// vmaPool is the default pool of a memory type, or a custom one.
type vmaPool struct {
	name      string
	blocks    []vmaBlock
	dedicated []vmaPiece
}

// vmaFree is the type of a piece that is a hole.
const vmaFree = "FREE"

// vmaReader reads the statistics of one file.
type vmaReader struct {
	lr     *lineReader
	pieces int // of the file so far
	parts  int // pools and blocks of the file so far
}

// read reads the value of one of the keys that hold pieces: a trace for each
// pool that has any.
func (v *vmaReader) read(dec *json.Decoder, file, key string) ([]*Allocs, error) {
	pools := map[string]*[]*Allocs{}
	var names []string
	add := func(kind string, p vmaPool, name string) error {
		t, err := p.trace(name)
		if err != nil || t == nil {
			return err
		}
		if pools[kind] == nil {
			pools[kind], names = new([]*Allocs), append(names, kind)
		}
		*pools[kind] = append(*pools[kind], t)
		return nil
	}
	var err error
	switch key {
	case "Details": // of a virtual block, which is all there is
		var b vmaBlock
		if b, err = v.block(dec, "0"); err == nil {
			err = add("", vmaPool{blocks: []vmaBlock{b}}, file)
		}
	case "DefaultPools":
		err = eachField(dec, key, func(kind string) error {
			p, err := v.pool(dec)
			if err != nil {
				return err
			}
			return add(kind, p, file+"#"+input.Clip(kind))
		})
	case "CustomPools":
		err = eachField(dec, key, func(kind string) error {
			return eachElement(dec, "the pools of a memory type", func(i int) error {
				p, err := v.pool(dec)
				if err != nil {
					return err
				}
				return add(kind, p, fmt.Sprintf("%s#%s, %s", file, input.Clip(kind), cmp.Or(input.Clip(p.name), "pool "+strconv.Itoa(i))))
			})
		})
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []*Allocs
	for _, n := range names {
		out = append(out, *pools[n]...)
	}
	return out, nil
}

// part counts a pool or a block.
func (v *vmaReader) part() error {
	if v.parts++; v.parts > maxDevices {
		return fmt.Errorf("more than %d pools and blocks", maxDevices)
	}
	return nil
}

func (v *vmaReader) pool(dec *json.Decoder) (p vmaPool, err error) {
	if err := v.part(); err != nil {
		return p, err
	}
	return p, eachField(dec, "a pool", func(key string) (err error) {
		switch key {
		case "Name":
			return dec.Decode(&p.name)
		case "Blocks":
			return eachField(dec, key, func(name string) error {
				b, err := v.block(dec, name)
				p.blocks = append(p.blocks, b)
				return err
			})
		case "DedicatedAllocations":
			p.dedicated, err = v.piecesOf(dec, key)
			return err
		}
		return skipValue(dec, v.lr)
	})
}

func (v *vmaReader) block(dec *json.Decoder, name string) (vmaBlock, error) {
	b := vmaBlock{name: name}
	if err := v.part(); err != nil {
		return b, err
	}
	return b, eachField(dec, "a block", func(key string) (err error) {
		switch key {
		case "TotalBytes":
			return dec.Decode(&b.total)
		case "Suballocations":
			b.pieces, err = v.piecesOf(dec, key)
			return err
		}
		return skipValue(dec, v.lr)
	})
}

func (v *vmaReader) piecesOf(dec *json.Decoder, what string) (out []vmaPiece, err error) {
	err = eachElement(dec, what, func(int) error {
		var x vmaPiece
		if err := dec.Decode(&x); err != nil {
			return err
		}
		v.lr.line(dec.InputOffset())
		if v.pieces++; v.pieces > input.MaxEvents {
			return fmt.Errorf("more than %d pieces", input.MaxEvents)
		}
		if x.Type != vmaFree {
			x.Type = "" // the rest of the file holds many
		}
		out = append(out, x)
		return nil
	})
	return out, err
}

// trace is the pool's trace; nil where nothing is live in it.
func (p *vmaPool) trace(name string) (*Allocs, error) {
	var b AllocBuilder
	var held uint64     // by the blocks so far, which places count through
	var places []uint64 // of chunks
	add := func(where string, total uint64, pieces []vmaPiece) error {
		if total > math.MaxInt64-held {
			return fmt.Errorf("%s, %s: blocks of more than 2^63 bytes: %w", name, where, input.ErrMalformed)
		}
		for i, x := range pieces {
			if x.Type == vmaFree {
				continue
			}
			if err := b.Alloc(uint64(len(places)), x.Size, 0); err != nil {
				return fmt.Errorf("%s, %s, piece %d: %w", name, where, i, err)
			}
			places = append(places, held+x.Offset)
		}
		held += total
		return nil
	}
	// Blocks are numbered in the order in which they were made.
	slices.SortStableFunc(p.blocks, func(a, b vmaBlock) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	for _, block := range p.blocks {
		at := uint64(0)
		for i, x := range block.pieces {
			if x.Offset < at || x.Size > block.total || x.Offset > block.total-x.Size {
				return nil, fmt.Errorf("%s, block %s, piece %d: %d bytes at %d, after %d and in %d: they do not lie one after the other in it: %w",
					name, input.Clip(block.name), i, x.Size, x.Offset, at, block.total, input.ErrMalformed)
			}
			at = x.Offset + x.Size
		}
		if err := add("block "+input.Clip(block.name), block.total, block.pieces); err != nil {
			return nil, err
		}
	}
	for i := range p.dedicated {
		x := p.dedicated[i]
		x.Offset = 0 // a dedicated allocation is a block of its own
		if err := add("dedicated", x.Size, []vmaPiece{x}); err != nil {
			return nil, err
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	t := b.Build(name, formatVMA)
	t.Held, t.Places = held, places
	return t, nil
}

// eachField calls field at the value of every field of the next value, an object.
func eachField(dec *json.Decoder, what string, field func(key string) error) error {
	tok, err := dec.Token()
	if err == nil && tok != json.Delim('{') {
		err = fmt.Errorf("%s is not an object", what)
	}
	for err == nil && dec.More() {
		if tok, err = dec.Token(); err == nil {
			err = field(tok.(string)) // the decoder lets no other key through
		}
	}
	if err == nil {
		_, err = dec.Token()
	}
	return err
}

// eachElement calls element at every element of the next value, a list.
func eachElement(dec *json.Decoder, what string, element func(i int) error) error {
	err := openArray(dec, what)
	for i := 0; err == nil && dec.More(); i++ {
		err = element(i)
	}
	if err == nil {
		_, err = dec.Token()
	}
	return err
}
