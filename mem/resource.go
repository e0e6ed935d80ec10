package mem

// Request asks for one block.
type Request struct {
	Size  uint64 // bytes, not zero
	Align uint64 // a power of two; 0 leaves it to the resource
	Tag   uint64 // free for the caller, such as a BufferID; layers may report it
	Off   uint64 // likewise: where in what Tag names the block begins, in bytes
	Hint  Hint   // how long the block will live, where the caller knows
	Lock  bool   // of the host's memory: it is to be page-locked, where a memory tells; a wish
}

// Block is a piece of a device's memory. It is a plain value without pointers:
// its meaning is its resource's. The zero Block is no block.
//
// A layer may carve a block into pieces (Piece): such a piece has its block's
// Ref, and drivers find its bytes by how far its Addr lies from that of the
// block they gave out. Only whole blocks are freed with the one who gave them.
type Block struct {
	Addr uint64 // the device's address, or any distinct number where the device has none
	Size uint64 // bytes asked for
	Ref  uint64 // the resource's own handle; 0 only in the zero Block
}

// IsZero reports whether b is no block.
func (b Block) IsZero() bool { return b.Ref == 0 }

// Piece returns the size bytes at off of b, which must lie inside b.
func (b Block) Piece(off, size uint64) Block {
	return Block{Addr: b.Addr + off, Size: size, Ref: b.Ref}
}

// Outcome is what became of a request. Running out is an outcome, not a fault.
type Outcome uint8

// Ready: all blocks are given. NeedsWait: none is, but frees that wait for
// points (see Resource.Pending) may make room. Exhausted: none is, and waiting
// does not help. OverBudget: none is, because a limit set by the user would be
// passed. Late: none is, but nobody holds what is missing any more, and it comes back
// by itself in a moment.
const (
	Ready Outcome = iota
	NeedsWait
	Exhausted
	OverBudget
	Late
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"ready", "needs wait", "exhausted", "over budget", "late", "unknown outcome"}[min(o, Late+1)]
}

// ResourceStats are a resource's figures, in bytes unless said.
type ResourceStats struct {
	Capacity    uint64 // 0 is unknown or unlimited
	Live        uint64 // in blocks given out and not freed
	Pending     uint64 // freed, but waiting for a point
	Reserved    uint64 // taken from upstream: live, pending, cached, and free parts of what is split
	Cached      uint64 // of Reserved, what Trim(0) would give back now
	PeakLive    uint64
	LargestFree uint64 // the largest block that could be given now, 0 if unknown
	Blocks      int    // live blocks, a count
	Allocs      uint64 // blocks ever given, a count
	Frees       uint64 // blocks ever freed, a count
	Failures    uint64 // AllocAll calls not Ready, a count
}

// Resource gives out blocks of one memory. It is the only way to storage: a
// device's memory is one, and every layer over it is one with an upstream.
// Implementations are safe for use from many goroutines. None of the methods
// waits for a device or blocks on a point.
type Resource interface {
	// AllocAll fills out[i] with a block for reqs[i], all of them or none;
	// len(out) must equal len(reqs). The error is for faults (a request that
	// breaks a rule, a lost device), never for running out: then the outcome
	// tells, and nothing has changed. With a reuse, blocks may be given whose bytes
	// are still in use: reuse.Busy says until when. What is free goes first.
	AllocAll(reqs []Request, out []Block, reuse *Reuse) (Outcome, error)
	// Fits reports whether AllocAll could give blocks for reqs if gone, which are
	// live blocks, had been freed and reuse took every free that is pending. It
	// changes nothing and promises nothing: another may take the room first, and
	// placements that waste room may say no after all.
	Fits(reqs []Request, gone []Block, reuse *Reuse) bool
	// FreeAfter gives b back once all points have been reached, however they
	// ended; with none, at once. The slice is the caller's again on return.
	// A block that is not live is an error and changes nothing.
	FreeAfter(b Block, after []Point) error
	// Pending appends the points that pending frees wait for.
	Pending(dst []Point) []Point
	// Trim gives cached memory back to upstream until at most keep bytes are
	// cached, and returns the bytes given back.
	Trim(keep uint64) uint64
	// Stats returns a consistent copy of the figures.
	Stats() ResourceStats
	// Check tests every invariant of the resource's state.
	Check() error
}
