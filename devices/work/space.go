package work

import (
	"fmt"
	"unsafe"
)

// Space is memory that kernels reach by checked addresses only.
type Space interface {
	// Epoch changes whenever something found may no longer be there.
	Epoch() uint64
	// Find returns the live chunk that holds addr.
	Find(addr uint64) (Chunk, bool)
}

// Chunk is a live piece of a Space.
type Chunk struct {
	Addr  uint64 // of its first byte
	ID    uint64 // told from any other chunk that was ever there
	Bytes []byte // its bytes, on the host
}

// chunkCache is the chunk an argument was last found in.
type chunkCache struct {
	Chunk
	epoch uint64
}

// reach returns size bytes at addr of an addressed space, through argument arg
// (-1 for a raw address), or ends the kernel.
func (g *Group) reach(arg int, addr, size uint64, write bool) unsafe.Pointer {
	if addr&(size-1) != 0 {
		g.fault(&Fault{Kind: Misaligned, Arg: arg, Addr: addr, Size: size, Write: write})
	}
	if g.run.promised {
		g.keep(arg, addr, size, write)
	}
	c := &g.caches[arg+1]
	epoch := uint64(0)
	if g.run.opts.Space != nil {
		epoch = g.run.opts.Space.Epoch()
	}
	if off := addr - c.Addr; c.epoch == epoch && c.ID != 0 && off < uint64(len(c.Bytes)) && size <= uint64(len(c.Bytes))-off {
		return unsafe.Pointer(&c.Bytes[off])
	}
	found, ok := g.find(addr)
	switch {
	case arg >= 0 && (!ok || found.ID != g.args[arg].ID):
		g.fault(&Fault{Kind: UseAfterFree, Arg: arg, Addr: addr, Size: size, Write: write})
	case !ok:
		g.fault(&Fault{Kind: UnknownAddress, Arg: arg, Addr: addr, Size: size, Write: write})
	}
	off := addr - found.Addr
	if size > uint64(len(found.Bytes))-off {
		g.fault(&Fault{Kind: OutOfBounds, Arg: arg, Addr: addr, Size: size, Write: write,
			Detail: fmt.Sprintf("the memory there ends at %#x", found.Addr+uint64(len(found.Bytes)))})
	}
	*c = chunkCache{found, epoch}
	return unsafe.Pointer(&found.Bytes[off])
}

// find finds the memory at an address: the space's, or else what the launch's
// own arguments reach.
func (g *Group) find(addr uint64) (Chunk, bool) {
	if g.run.opts.Space != nil {
		return g.findIn(g.run.opts.Space, addr)
	}
	for i := range g.args {
		if b := &g.args[i]; addr-b.Addr < uint64(len(b.Bytes)) {
			return Chunk{b.Addr, b.ID, b.Bytes}, true
		}
	}
	return Chunk{}, false
}

// findIn finds the memory at an address of a space, or at one of shared virtual
// memory that the launch uses: the space has its bytes elsewhere.
func (g *Group) findIn(space Space, addr uint64) (Chunk, bool) {
	for i := range g.args {
		b := &g.args[i]
		if !b.SVM || addr-b.Addr >= b.Size {
			continue
		}
		c, ok := space.Find(b.Own)
		if !ok || c.ID != b.ID {
			return Chunk{}, false // freed meanwhile
		}
		off := b.Own - c.Addr
		return Chunk{Addr: b.Addr, ID: c.ID, Bytes: c.Bytes[off : off+b.Size]}, true
	}
	return space.Find(addr)
}
