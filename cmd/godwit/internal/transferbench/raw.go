//go:build cgo

package transferbench

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"

	"godwit/devices/opencl"
)

// raw is the device as OpenCL's users use it. Nothing is shared with Godwit's.
type raw struct {
	ctx   *cl.Context
	queue *cl.CommandQueue
}

func newRaw(f opencl.Found) (*raw, error) {
	platforms, err := cl.GetPlatforms()
	if err != nil {
		return nil, err
	}
	devs, err := platforms[f.Platform].GetDevices(cl.DeviceTypeAll)
	if err != nil {
		return nil, err
	}
	r := &raw{}
	if r.ctx, err = cl.CreateContext(devs[f.Index : f.Index+1]); err != nil {
		return nil, err
	}
	if r.queue, err = r.ctx.CreateCommandQueue(devs[f.Index], 0); err != nil {
		r.ctx.Release()
		return nil, err
	}
	return r, nil
}

func (r *raw) close() {
	r.queue.Release()
	r.ctx.Release()
}

func (r *raw) buffer(n uint64) (*cl.MemObject, error) {
	return r.ctx.CreateEmptyBuffer(cl.MemReadWrite, int(n))
}

// pinned maps n bytes of page-locked memory; free gives them back.
func (r *raw) pinned(n uint64) (bytes []byte, free func(), err error) {
	m, err := r.ctx.CreateEmptyBuffer(cl.MemReadWrite|cl.MemAllocHostPtr, int(n))
	if err != nil {
		return nil, nil, err
	}
	mapped, ev, err := r.queue.EnqueueMapBuffer(m, true, cl.MapFlagRead|cl.MapFlagWrite, 0, int(n), nil)
	if err != nil {
		m.Release()
		return nil, nil, err
	}
	ev.Release()
	return unsafe.Slice((*byte)(mapped.Ptr()), n), func() {
		if ev, err := r.queue.EnqueueUnmapMemObject(m, mapped, nil); err == nil {
			_ = r.queue.Finish() // nothing is left to be done about it
			ev.Release()
		}
		m.Release()
	}, nil
}

// move is a transfer without waiting in the call, and then waiting.
func (r *raw) move(m *cl.MemObject, bytes []byte, up bool) (took, returned time.Duration, err error) {
	start := time.Now()
	var ev *cl.Event
	if up {
		ev, err = r.queue.EnqueueWriteBuffer(m, false, 0, len(bytes), unsafe.Pointer(&bytes[0]), nil)
	} else {
		ev, err = r.queue.EnqueueReadBuffer(m, false, 0, len(bytes), unsafe.Pointer(&bytes[0]), nil)
	}
	returned = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	err = r.queue.Finish()
	took = time.Since(start)
	ev.Release()
	return took, returned, err
}

// create is a buffer made, used for the first time and released.
func (r *raw) create(n uint64) (time.Duration, error) {
	zero := []byte{0, 0, 0, 0}
	start := time.Now()
	m, err := r.buffer(n)
	if err != nil {
		return 0, err
	}
	ev, err := r.queue.EnqueueFillBuffer(m, unsafe.Pointer(&zero[0]), 4, 0, 4, nil)
	if err == nil {
		err = r.queue.Finish()
		ev.Release()
	}
	m.Release()
	if err != nil {
		return 0, fmt.Errorf("a new buffer of %d bytes: %w", n, err)
	}
	return time.Since(start), nil
}
