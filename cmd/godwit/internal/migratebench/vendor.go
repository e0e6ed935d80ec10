//go:build cgo

package migratebench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"

	"godwit/internal/process"
)

// request is what the child is to measure: one pair of devices of a platform.
type request struct {
	Platform string
	From, To int // indices within the platform
	Sizes    []uint64
	Reps     int
	Limits   bool
	Small    bool
}

// answer is a line of the child's output: one figure.
type answer struct {
	What  string
	Size  uint64
	Time  time.Duration
	Error string
}

// askVendor runs the child, and returns what it measured before it ended,
// however it ended.
func askVendor(ctx context.Context, argv []string, r request) ([]answer, error) {
	req, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, argv[0], append(slices.Clone(argv[1:]), string(req))...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = process.Run(ctx, cmd)
	var got []answer
	lines := bufio.NewScanner(&out)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) == nil {
			got = append(got, a)
		}
	}
	if err != nil {
		last := strings.TrimSpace(errs.String())
		if i := strings.IndexByte(last, '\n'); i > 0 {
			last = last[:i]
		}
		err = fmt.Errorf("the vendor's part ended with: %w: %s", err, last)
	}
	return got, err
}

// Child measures what a request (in JSON) asks for, and prints answers as it
// goes.
func Child(req string) error {
	var r request
	if err := json.Unmarshal([]byte(req), &r); err != nil {
		return err
	}
	v, err := newVendor(r)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(os.Stdout)
	say := func(what string, size uint64, t time.Duration, err error) error {
		a := answer{What: what, Size: size, Time: t}
		if err != nil {
			a.Error = err.Error()
		}
		return enc.Encode(a)
	}
	var errs []error
	if r.Small {
		t, err := v.create()
		errs = append(errs, say("create", 1<<20, t, err))
		t, err = v.enqueue()
		errs = append(errs, say("enqueue", 0, t, err))
	}
	for _, n := range r.Sizes {
		if r.Limits {
			for d, name := range []string{"from", "to"} {
				down, up, err := v.limits(d, n)
				errs = append(errs, say(name+" down", n, down, err), say(name+" up", n, up, err))
			}
		}
		t, err := v.copyBuffer(n)
		errs = append(errs, say("copy", n, t, err))
		t, err = v.implicit(n)
		errs = append(errs, say("kernel", n, t, err))
	}
	return errors.Join(errs...)
}

// vendor is two devices in one context, used as OpenCL's users use them. Nothing
// is released: the process ends soon.
type vendor struct {
	request
	ctx    *cl.Context
	queues [2]*cl.CommandQueue
	prog   *cl.Program
}

func newVendor(r request) (*vendor, error) {
	platforms, err := cl.GetPlatforms()
	if err != nil {
		return nil, err
	}
	for _, p := range platforms {
		if p.Name() != r.Platform {
			continue
		}
		devs, err := p.GetDevices(cl.DeviceTypeAll)
		if err != nil {
			return nil, err
		}
		v := &vendor{request: r}
		two := []*cl.Device{devs[r.From], devs[r.To]}
		if v.ctx, err = cl.CreateContext(two); err != nil {
			return nil, err
		}
		for i, d := range two {
			if v.queues[i], err = v.ctx.CreateCommandQueue(d, 0); err != nil {
				return nil, err
			}
		}
		if v.prog, err = v.ctx.CreateProgramWithSource([]string{source}); err != nil {
			return nil, err
		}
		return v, v.prog.BuildProgram(nil, "")
	}
	return nil, fmt.Errorf("no platform %q", r.Platform)
}

// median runs f often enough, after one run to warm up, and less often where it
// is slow.
func median(ctx context.Context, reps int, f func() (time.Duration, error)) (time.Duration, error) {
	var all []time.Duration
	for i := -1; i < reps; i++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		t, err := f()
		if err != nil {
			return 0, err
		}
		if i >= 0 {
			all = append(all, t)
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// settled is the context of a wait for what uses blocks and memory that are given
// back afterwards: it is short, and no interruption may cut it shorter.
func settled(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

func (v *vendor) buffer(n uint64) (*cl.MemObject, error) {
	m, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite, int(n))
	if err != nil {
		return nil, err
	}
	data := content(n)
	_, err = v.queues[0].EnqueueWriteBuffer(m, true, 0, int(n), unsafe.Pointer(&data[0]), nil)
	return m, err
}

func (v *vendor) verify(q *cl.CommandQueue, m *cl.MemObject, n uint64, touched uint32) error {
	got := make([]byte, n)
	if _, err := q.EnqueueReadBuffer(m, true, 0, int(n), unsafe.Pointer(&got[0]), nil); err != nil {
		return err
	}
	return check(got, touched)
}

// timedOn is how long a command takes from its enqueue to the end of its queue.
func timedOn(q *cl.CommandQueue, enqueue func() (*cl.Event, error)) (time.Duration, error) {
	start := time.Now()
	ev, err := enqueue()
	if err != nil {
		return 0, err
	}
	err = q.Finish()
	d := time.Since(start)
	ev.Release()
	return d, err
}

// implicit is one cl_mem that both devices touch in turn.
func (v *vendor) implicit(n uint64) (time.Duration, error) {
	m, err := v.buffer(n)
	if err != nil {
		return 0, err
	}
	defer m.Release()
	k, err := v.prog.CreateKernel("touch")
	if err != nil {
		return 0, err
	}
	defer k.Release()
	if err := k.SetArgs(m, n/4-1); err != nil {
		return 0, err
	}
	touched := uint32(0)
	t, err := median(context.Background(), v.Reps, func() (time.Duration, error) {
		q := v.queues[(touched+1)%2]
		touched++
		return timedOn(q, func() (*cl.Event, error) { return q.EnqueueNDRangeKernel(k, nil, []int{64}, nil, nil) })
	})
	if err != nil {
		return 0, err
	}
	return t, v.verify(v.queues[touched%2], m, n, touched)
}

// copyBuffer is clEnqueueCopyBuffer between buffers that live on the two
// devices.
func (v *vendor) copyBuffer(n uint64) (time.Duration, error) {
	src, err := v.buffer(n)
	if err != nil {
		return 0, err
	}
	defer src.Release()
	dst, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite, int(n))
	if err != nil {
		return 0, err
	}
	defer dst.Release()
	zero := []byte{0}
	place := func(q *cl.CommandQueue, m *cl.MemObject) error { // a write of the device's makes it the owner
		ev, err := q.EnqueueFillBuffer(m, unsafe.Pointer(&zero[0]), 1, 0, 1, nil)
		if err == nil {
			ev.Release()
			err = q.Finish()
		}
		return err
	}
	if err := place(v.queues[1], dst); err != nil {
		return 0, err
	}
	t, err := median(context.Background(), v.Reps, func() (time.Duration, error) {
		d, err := timedOn(v.queues[1], func() (*cl.Event, error) { return v.queues[1].EnqueueCopyBuffer(src, dst, 0, 0, int(n), nil) })
		if err == nil { // the source back to its device, as it was
			data := content(4)
			_, err = v.queues[0].EnqueueWriteBuffer(src, true, 0, 4, unsafe.Pointer(&data[0]), nil)
		}
		return d, err
	})
	if err != nil {
		return 0, err
	}
	return t, v.verify(v.queues[1], dst, n, 0)
}

// limits is one way between a device and pinned memory.
func (v *vendor) limits(device int, n uint64) (down, up time.Duration, err error) {
	q := v.queues[device]
	m, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite, int(n))
	if err != nil {
		return 0, 0, err
	}
	defer m.Release()
	pinned, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite|cl.MemAllocHostPtr, int(n))
	if err != nil {
		return 0, 0, err
	}
	defer pinned.Release()
	mapped, ev, err := q.EnqueueMapBuffer(pinned, true, cl.MapFlagRead|cl.MapFlagWrite, 0, int(n), nil)
	if err != nil {
		return 0, 0, err
	}
	ev.Release()
	copy(mapped.ByteSlice(), content(n))
	write := func() (*cl.Event, error) { return q.EnqueueWriteBuffer(m, false, 0, int(n), mapped.Ptr(), nil) }
	if up, err = median(context.Background(), v.Reps, func() (time.Duration, error) { return timedOn(q, write) }); err != nil {
		return 0, 0, err
	}
	clear(mapped.ByteSlice())
	read := func() (*cl.Event, error) { return q.EnqueueReadBuffer(m, false, 0, int(n), mapped.Ptr(), nil) }
	if down, err = median(context.Background(), v.Reps, func() (time.Duration, error) { return timedOn(q, read) }); err != nil {
		return 0, 0, err
	}
	err = check(mapped.ByteSlice(), 0)
	if ev, e := q.EnqueueUnmapMemObject(pinned, mapped, nil); e == nil {
		err = errors.Join(err, q.Finish())
		ev.Release()
	}
	return down, up, err
}
