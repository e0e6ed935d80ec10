//go:build linux

package extern

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"godwit/study/alloc/replay"
)

// The shared memory, as host.c has it: a page that brings the request, read-only
// over there; a page that takes the reply; then, each from a page of its own, the
// operations, read-only over there, the answers, and the times of batches and of
// operations. Both sides have the same byte order, since they are one machine.

const (
	page  = 4096
	magic = 0x31746c6c61776f67
)

// wire is a replay.Op over there.
type wire struct {
	size       uint64
	slot, life uint32
}

func wireOp(op replay.Op) wire { return wire{op.Size, op.Slot, op.Life} }

type request struct {
	magic, capacity                                  uint64
	size, align, ops, slots, warm, batch, stop, each uint64
	step                                             wire
}

type reply struct {
	done, failures, answer uint64
	error                  [256]byte
}

// shared is the shared memory, from this side. The other side may write at any
// time whatever it likes into what it can write.
type shared struct {
	file    *os.File
	bytes   []byte
	rq      *request
	rp      *reply
	ops     []wire
	answers []uint64
	batchNS []float64
	opNS    []float64
}

// leastOps is the smallest capacity: small streams share a host.
const leastOps = 4096

func newShared(ops int) (*shared, error) {
	n := max(ops, leastOps)
	column := func(size int) int { return (n*size + page - 1) / page * page }
	total := 2*page + column(16) + 3*column(8)
	f, err := memoryFile("stream")
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(total)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b, err := unix.Mmap(int(f.Fd()), 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("memory for %d operations: %w", ops, err), f.Close())
	}
	m := &shared{file: f, bytes: b, rq: (*request)(unsafe.Pointer(&b[0])), rp: (*reply)(unsafe.Pointer(&b[page]))}
	at := 2 * page
	m.ops = unsafe.Slice((*wire)(unsafe.Pointer(&b[at])), n)
	at += column(16)
	m.answers = unsafe.Slice((*uint64)(unsafe.Pointer(&b[at])), n)
	at += column(8)
	m.batchNS = unsafe.Slice((*float64)(unsafe.Pointer(&b[at])), n)
	at += column(8)
	m.opNS = unsafe.Slice((*float64)(unsafe.Pointer(&b[at])), n)
	m.rq.magic, m.rq.capacity = magic, uint64(n)
	return m, nil
}

// load writes a stream; false where it does not fit.
func (m *shared) load(st *replay.Stream) bool {
	if len(st.Ops) > len(m.ops) {
		return false
	}
	for i, op := range st.Ops {
		m.ops[i] = wireOp(op)
	}
	rq := m.rq
	rq.align, rq.ops, rq.slots, rq.warm = st.Align, uint64(len(st.Ops)), uint64(st.Slots), uint64(st.Warm)
	return true
}

func (m *shared) errorText() string {
	text, _, _ := bytes.Cut(m.rp.error[:], []byte{0})
	return string(bytes.ToValidUTF8(text, []byte("?")))
}

func (m *shared) close() error {
	if m.bytes == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(m.bytes), m.file.Close())
	m.bytes = nil
	return err
}
