package mem

// ErrFailed is the error of a point that failed long ago: why is not kept.
var ErrFailed = Sentinel("command failed; its cause is not kept", ExecStatusErrorInWaitList)

// failures are the points of a timeline that failed. A cause costs what its
// error does. A failure without its cause costs one bit, in pages of failedPage
// points of which at least one failed; a page of which all failed is shared.
// The zero value is empty.
type failures struct {
	causes map[uint64]error
	bare   map[uint64]*failedBits // page number -> which of its points failed
}

const failedPage = 4096 // points

type failedBits [failedPage / 64]uint64

// allFailed is every page whose points all failed. It is never written.
var allFailed = func() *failedBits {
	var b failedBits
	for i := range b {
		b[i] = ^uint64(0)
	}
	return &b
}()

func (f *failures) add(seq uint64, cause error) {
	if f.causes == nil {
		f.causes = make(map[uint64]error)
	}
	f.causes[seq] = cause
}

// of is the error of a point, nil where it has not failed.
func (f *failures) of(seq uint64) error {
	if err := f.causes[seq]; err != nil {
		return err
	}
	if b := f.bare[seq/failedPage]; b != nil && b[seq%failedPage/64]&(1<<(seq%64)) != 0 {
		return ErrFailed
	}
	return nil
}

// drop forgets the cause of a failure and keeps the failure.
func (f *failures) drop(seq uint64) {
	if f.causes[seq] == nil {
		return
	}
	delete(f.causes, seq)
	if f.bare == nil {
		f.bare = make(map[uint64]*failedBits)
	}
	b := f.bare[seq/failedPage]
	if b == nil {
		b = new(failedBits)
		f.bare[seq/failedPage] = b
	}
	b[seq%failedPage/64] |= 1 << (seq % 64)
	if *b == *allFailed {
		f.bare[seq/failedPage] = allFailed
	}
}
