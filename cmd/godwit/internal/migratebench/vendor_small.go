//go:build cgo

package migratebench

import (
	"context"
	"time"

	"github.com/jgillich/go-opencl/cl"
)

// The vendor's small commands: creating a buffer, enqueueing a kernel.

// create is the life of a 1 MiB buffer beyond a launch: created, used once,
// released.
func (v *vendor) create() (time.Duration, error) {
	k, err := v.prog.CreateKernel("touch")
	if err != nil {
		return 0, err
	}
	defer k.Release()
	q := v.queues[1]
	launch := func(m *cl.MemObject) error {
		if err := k.SetArgs(m, uint64(1<<18-1)); err != nil {
			return err
		}
		ev, err := q.EnqueueNDRangeKernel(k, nil, []int{64}, nil, nil)
		if err != nil {
			return err
		}
		defer ev.Release()
		return q.Finish()
	}
	old, err := v.buffer(1 << 20)
	if err != nil {
		return 0, err
	}
	defer old.Release()
	return beyond(v.Reps, func() error { return launch(old) }, func() error {
		m, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite, 1<<20)
		if err != nil {
			return err
		}
		defer m.Release()
		return launch(m)
	})
}

// beyond is the median of how much longer b takes than a, in turns.
func beyond(reps int, a, b func() error) (time.Duration, error) {
	one := func(f func() error) (time.Duration, error) {
		start := time.Now()
		err := f()
		return time.Since(start), err
	}
	return median(context.Background(), 20*reps, func() (time.Duration, error) {
		ta, err := one(a)
		if err != nil {
			return 0, err
		}
		tb, err := one(b)
		return tb - ta, err
	})
}

// enqueue is the time to set three arguments and enqueue a kernel.
func (v *vendor) enqueue() (time.Duration, error) {
	k, err := v.prog.CreateKernel("three")
	if err != nil {
		return 0, err
	}
	defer k.Release()
	a, err := v.buffer(4096)
	if err != nil {
		return 0, err
	}
	defer a.Release()
	b, err := v.buffer(4096)
	if err != nil {
		return 0, err
	}
	defer b.Release()
	q := v.queues[1]
	return median(context.Background(), v.Reps, func() (time.Duration, error) {
		var events [batch]*cl.Event
		start := time.Now()
		for i := range events {
			if err := k.SetArgs(a, b, uint32(i)); err != nil {
				return 0, err
			}
			var err error
			if events[i], err = q.EnqueueNDRangeKernel(k, nil, []int{64}, nil, nil); err != nil {
				return 0, err
			}
		}
		d := time.Since(start) / batch
		err := q.Finish()
		for _, ev := range events {
			ev.Release()
		}
		return d, err
	})
}

// batch is how many commands an enqueue time is over.
const batch = 200
