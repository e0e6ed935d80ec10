package pool

// BinSize is the size of the bin of a request.
func BinSize(b Bins, size uint64) uint64 {
	_, s := b.bin(size)
	return s
}

// BinOf is bin.
func BinOf(b Bins, size uint64) (int, uint64) { return b.bin(size) }
