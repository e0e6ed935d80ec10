//go:build linux

package extern

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"godwit/mem"
	"godwit/study/alloc/replay"
)

// host is a process with a shared library in it.
type host struct {
	pool *Pool
	p    *remote
	m    *shared
	st   *replay.Stream
	size uint64 // of the region of the command in progress
}

// startHost starts a host for the library at path with room for st.
func startHost(pool *Pool, path string, st *replay.Stream) (child, error) {
	program, err := hostProgram(pool.ctx)
	if err != nil {
		return nil, err
	}
	library, err := filepath.Abs(path) // dlopen would look elsewhere for a plain name
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(library); err != nil {
		return nil, err
	}
	m, err := newShared(len(st.Ops))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(pool.ctx, program, library)
	p, err := start(pool.ctx, cmd, pool.patience, func(in, out *os.File) { cmd.ExtraFiles = []*os.File{m.file, in, out} })
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	h := &host{pool: pool, p: p, m: m}
	if err := h.reply(); err != nil {
		h.kill()
		return nil, err
	}
	h.load(st)
	return h, nil
}

func (h *host) load(st *replay.Stream) bool {
	h.st = st
	return h.m.load(st)
}

func (h *host) healthy() bool { return !h.p.dead }

func (h *host) kill() {
	h.p.kill()
	_ = h.m.close() // nothing depends on it any more
}

// Close gives the host back.
func (h *host) Close() error {
	h.pool.back(h)
	return nil
}

// command sends one and waits for its end.
func (h *host) command(ctx context.Context, c byte, size uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.p.dead {
		return errEnded
	}
	h.size = size
	h.m.rq.size = size
	atomic.StoreUint64(&h.m.rp.done, 0)
	if _, err := h.p.to.Write([]byte{c}); err != nil {
		return h.ended(err)
	}
	return h.reply()
}

// reply waits for the host to answer a command.
func (h *host) reply() error {
	var b [1]byte
	_, err := h.p.read(b[:], h.done)
	switch {
	case err != nil:
		return h.ended(err)
	case b[0] == 'E':
		return fmt.Errorf("%s: %s: %w", h.pool.name, h.m.errorText(), mem.ErrInvalidValue)
	case b[0] == 'N':
		return fmt.Errorf("%s: its process has no memory for %d chunks: %w", h.pool.name, h.m.rq.slots, mem.ErrNoHostMemory)
	case b[0] != 'K' && b[0] != 'R':
		h.p.kill()
		return h.pool.fault(replay.Nonsense, int(h.done()), "its process answered %q", b[0])
	}
	return nil
}

func (h *host) done() uint64 { return atomic.LoadUint64(&h.m.rp.done) }

// ended is the fault of a host that ended or hangs. The operation is the one
// after the last that was done.
func (h *host) ended(err error) error {
	op := int(min(h.done(), math.MaxInt32))
	how := h.p.kill()
	if errors.Is(err, errHang) {
		return h.pool.ended(h.pool.fault(replay.Hang, op, "no progress in %v", h.p.patience))
	}
	return h.pool.ended(h.pool.fault(replay.Crash, op, "its process ended: %s", how))
}

// Play is replay.Session's.
func (h *host) Play(ctx context.Context, size uint64, stop bool) ([]uint64, error) {
	h.m.rq.stop = 0
	if stop {
		h.m.rq.stop = 1
	}
	err := h.command(ctx, 'P', size)
	// What the host says of itself is believed as far as it can be used.
	return h.m.answers[:min(h.done(), uint64(len(h.st.Ops)))], err
}

// Time is replay.Session's.
func (h *host) Time(ctx context.Context, size uint64, batch int, batches, each []float64) (failures int, ok bool, err error) {
	rq := h.m.rq
	rq.batch, rq.each = uint64(batch), 0
	if each != nil {
		rq.each = 1
	}
	if err := h.command(ctx, 'T', size); err != nil {
		if f := (*replay.Fault)(nil); errors.As(err, &f) {
			f.Op, f.Region = -1, size // done counts batches here
		}
		return 0, false, err
	}
	if !timesOf(batches, h.m.batchNS) || !timesOf(each, h.m.opNS) {
		return 0, false, h.pool.fault(replay.Nonsense, -1, "it changed the times that its process took")
	}
	return int(min(h.m.rp.failures, uint64(len(h.st.Ops)))), true, nil
}

// timesOf copies times, and reports whether they are any.
func timesOf(to, from []float64) bool {
	for i := range to {
		to[i] = from[i]
		if !(to[i] >= 0 && to[i] < 1e18) {
			return false
		}
	}
	return true
}

// Step is replay.Session's.
func (h *host) Step(ctx context.Context, size uint64) (replay.Stepper, error) {
	return h, h.command(ctx, 'S', size)
}

// Do is replay.Stepper's.
func (h *host) Do(ctx context.Context, op replay.Op) (uint64, error) {
	h.m.rq.step = wireOp(op)
	if err := h.command(ctx, 's', h.size); err != nil {
		return 0, err
	}
	return h.m.rp.answer, nil
}
