//go:build cgo

package transferbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/lib/backend"
	"godwit/lib/tensor"
)

// tensors times FromHost and ToHost beside what they are made of.
func (b *bench) tensors(ctx context.Context, n uint64) (err error) {
	m := backend.NewManager(backend.Options{})
	defer func() { err = errors.Join(err, m.Close(context.WithoutCancel(ctx))) }()
	h, err := m.Default(b.found.Info.Name)
	if err != nil {
		return err
	}
	mem, err := b.raw.buffer(n)
	if err != nil {
		return err
	}
	defer mem.Release()
	rawPinned, unpin, err := b.raw.pinned(n)
	if err != nil {
		return err
	}
	defer unpin()
	buf, err := b.staged.ctx.CreateBuffer(n, 0, nil)
	if err != nil {
		return err
	}
	defer func() { _ = buf.Release() }() // ours, once
	p, err := h.PinnedPool()
	if err != nil {
		return err
	}
	loan, err := p.Get(ctx, h.Queue(), n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Put(loan)) }()
	src, dst, pinned := make([]byte, n), make([]byte, n), loan.Bytes()
	content(src, 1)
	copy(pinned, src)
	copy(rawPinned, src)
	copy(dst, src) // its pages are there

	from := func(returned *time.Duration, data []byte, opts ...tensor.Option) func() error {
		return func() error {
			start := time.Now()
			x, err := tensor.FromHost(ctx, h, data, opts...)
			*returned = time.Since(start)
			if err == nil {
				err = errors.Join(x.Ready(ctx), x.Release())
			}
			return err
		}
	}
	trip := func(data, out []byte, opts ...tensor.Option) func() error {
		return func() error {
			x, err := tensor.FromHost(ctx, h, data, opts...)
			if err == nil {
				err = errors.Join(tensor.CopyTo(ctx, x, out), x.Release())
			}
			return err
		}
	}
	alone := func(up, down []byte) func() error {
		return func() error {
			if _, _, err := b.raw.move(mem, up, true); err != nil {
				return err
			}
			_, _, err := b.raw.move(mem, down, false)
			return err
		}
	}
	t := Tensors{Size: n}
	var stagedReturned, borrowedReturned time.Duration
	steps := []step{
		{f: func() error { copy(dst, src); return nil }, into: &t.Memcpy},
		{f: from(&stagedReturned, src, tensor.Async()), into: &t.Staged, also: &stagedReturned, sum: &t.StagedReturned},
		{f: from(&borrowedReturned, src, tensor.Async(), tensor.Borrow()), into: &t.Borrowed, also: &borrowedReturned, sum: &t.BorrowedReturned},
		{f: trip(src, dst, tensor.Sync()), into: &t.Pageable},
		{f: trip(pinned, pinned, tensor.Sync(), tensor.Borrow()), into: &t.Pinned},
		{f: alone(src, dst), into: &t.RawPageable},
		{f: alone(rawPinned, rawPinned), into: &t.RawPinned},
		{f: func() error {
			if _, _, err := b.staged.move(ctx, buf, src, true); err != nil {
				return err
			}
			_, _, err := b.staged.move(ctx, buf, dst, false)
			return err
		}, into: &t.DriverPageable},
	}
	if err := b.rounds(ctx, steps); err != nil {
		return err
	}
	if !bytes.Equal(src, dst) || !bytes.Equal(src, pinned) {
		return errors.New("other bytes arrived than were sent")
	}
	b.report.Tensors = append(b.report.Tensors, t)
	if why := p.Locking().Why; why != "" {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf("pinned memory of tensors: %s", why))
	}
	return ctx.Err()
}

// step is something to be timed.
type step struct {
	f    func() error
	into *time.Duration // the median of how long f took
	also *time.Duration // what f measured itself, or nil
	sum  *time.Duration // the median of that
}

// rounds times all steps in turns, b.Reps times after two rounds that do not count. It
// ends early, without an error, where ctx does.
func (b *bench) rounds(ctx context.Context, steps []step) error {
	all, alsos := make([][]time.Duration, len(steps)), make([][]time.Duration, len(steps))
	for round := -2; round < b.Reps && ctx.Err() == nil; round++ {
		for i, s := range steps {
			if ctx.Err() != nil {
				return nil
			}
			start := time.Now()
			if err := s.f(); err != nil {
				return err
			}
			if took := time.Since(start); round >= 0 {
				all[i] = append(all[i], took)
				if s.also != nil {
					alsos[i] = append(alsos[i], *s.also)
				}
			}
		}
	}
	for i, s := range steps {
		*s.into = median(all[i])
		if s.also != nil {
			*s.sum = median(alsos[i])
		}
	}
	return nil
}
