//go:build cgo

package devicebench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"unsafe"

	"github.com/jgillich/go-opencl/cl"

	"godwit/internal/process"
)

// What the vendor does with copies between devices runs in a child process: vendors'
// libraries have crashed at such work.

// request is what the child is to measure: copies of a size between two devices.
type request struct {
	Platform int
	Devices  []int // from, to; within the platform
	Size     uint64
	Reps     int
}

func (m *migration) note(text string) {
	if !slices.Contains(m.report.Notes, text) {
		m.report.Notes = append(m.report.Notes, text)
	}
}

// vendor has the child measure, and takes what that has said before it ended, however it
// ended.
func (m *migration) vendor(ctx context.Context, what string, from, to int, n uint64) {
	if m.Vendor == nil {
		return
	}
	req, err := json.Marshal(request{m.found[from].Platform, []int{m.found[from].Index, m.found[to].Index}, n, m.Reps})
	if err != nil {
		m.note(err.Error())
		return
	}
	cmd := exec.CommandContext(ctx, m.Vendor[0], append(slices.Clone(m.Vendor[1:]), string(req))...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = process.Run(ctx, cmd)
	for lines := json.NewDecoder(&out); ; {
		var row row
		if lines.Decode(&row) != nil {
			break
		}
		row.What = what
		m.report.Rows = append(m.report.Rows, row)
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		m.note(fmt.Sprintf("the vendor's part ended with: %v: %s", err, first))
	}
}

// Child measures what a request (in JSON) asks for, and prints rows as it goes.
func Child(text string) error {
	var r request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	v, err := newVendor(r.Platform, r.Devices...)
	if err != nil {
		return err
	}
	var errs []error
	for _, of := range []func(uint64) (way, func() error, error){v.copyBuffer, v.implicit} {
		w, verify, err := of(r.Size)
		b := &bench{Options: Options{Reps: r.Reps}}
		if err == nil {
			err = b.race(context.Background(), "", r.Size, w)
		}
		if err == nil {
			err = verify()
		}
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(b.report.Rows[0])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// vendor is devices in one context, used as OpenCL's users use them. Nothing is shared
// with Godwit's.
type vendor struct {
	ctx    *cl.Context
	queues []*cl.CommandQueue
}

func newVendor(platform int, indices ...int) (v *vendor, err error) {
	platforms, err := cl.GetPlatforms()
	if err != nil {
		return nil, err
	}
	all, err := platforms[platform].GetDevices(cl.DeviceTypeAll)
	if err != nil {
		return nil, err
	}
	var devs []*cl.Device
	for _, i := range indices {
		devs = append(devs, all[i])
	}
	v = &vendor{}
	if v.ctx, err = cl.CreateContext(devs); err != nil {
		return nil, err
	}
	for _, d := range devs {
		q, err := v.ctx.CreateCommandQueue(d, 0)
		if err != nil {
			v.close()
			return nil, err
		}
		v.queues = append(v.queues, q)
	}
	return v, nil
}

// newRaced is a bench of one device, and the device by OpenCL's own calls.
func newRaced(o Options) (*bench, *vendor, error) {
	b, err := newBench(o, 1)
	if err != nil {
		return nil, nil, err
	}
	v, err := newVendor(b.found[0].Platform, b.found[0].Index)
	if err != nil {
		return nil, nil, fmt.Errorf("OpenCL's own calls: %w", err)
	}
	return b, v, nil
}

func (v *vendor) close() {
	for _, q := range v.queues {
		q.Release()
	}
	v.ctx.Release()
}

// forget gives an event back, which nobody asks: its queue is waited for.
func forget(ev *cl.Event, err error) error {
	if err == nil {
		ev.Release()
	}
	return err
}

func (v *vendor) buffer(n uint64) (*cl.MemObject, error) {
	return v.ctx.CreateEmptyBuffer(cl.MemReadWrite, int(n))
}

// transfer enqueues a transfer between the host and a buffer.
func transfer(q *cl.CommandQueue, m *cl.MemObject, data []byte, up bool) error {
	if up {
		return forget(q.EnqueueWriteBuffer(m, false, 0, len(data), unsafe.Pointer(&data[0]), nil))
	}
	return forget(q.EnqueueReadBuffer(m, false, 0, len(data), unsafe.Pointer(&data[0]), nil))
}

// fill has a device write the first word of a buffer, whose owner it then is.
func fill(q *cl.CommandQueue, m *cl.MemObject) error {
	zero := []byte{0, 0, 0, 0}
	return errors.Join(forget(q.EnqueueFillBuffer(m, unsafe.Pointer(&zero[0]), 4, 0, 4, nil)), q.Finish())
}

// filled is a buffer with content on the first device.
func (v *vendor) filled(n uint64) (*cl.MemObject, error) {
	m, err := v.buffer(n)
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	content(data, 0)
	return m, errors.Join(transfer(v.queues[0], m, data, true), v.queues[0].Finish())
}

// verify reads a buffer that touch has changed so often.
func verify(q *cl.CommandQueue, m *cl.MemObject, n uint64, touched uint32) error {
	got := make([]byte, n)
	if err := errors.Join(transfer(q, m, got, false), q.Finish()); err != nil {
		return err
	}
	return check(got, 0, touched)
}

// implicit is one cl_mem that kernels on both devices use in turn.
func (v *vendor) implicit(n uint64) (w way, after func() error, err error) {
	m, err := v.filled(n)
	if err != nil {
		return w, nil, err
	}
	p, err := v.ctx.CreateProgramWithSource([]string{source})
	if err != nil {
		return w, nil, err
	}
	if err := p.BuildProgram(nil, ""); err != nil {
		return w, nil, err
	}
	k, err := p.CreateKernel("touch")
	if err != nil {
		return w, nil, err
	}
	touched := uint32(0)
	q := v.queues[0]
	touch := func() error {
		touched++
		q = v.queues[touched%2]
		return forget(q.EnqueueNDRangeKernel(k, nil, []int{64}, nil, nil))
	}
	return way{name: "vendor's kernel", timer: timed(touch, func() error { return q.Finish() })},
		func() error { return verify(v.queues[touched%2], m, n, touched) }, k.SetArgs(m, n/4-1)
}

// copyBuffer is clEnqueueCopyBuffer between buffers that live on the two devices.
func (v *vendor) copyBuffer(n uint64) (w way, after func() error, err error) {
	src, err := v.filled(n)
	if err != nil {
		return w, nil, err
	}
	dst, err := v.buffer(n)
	if err != nil {
		return w, nil, err
	}
	q, first := v.queues[1], make([]byte, 4)
	content(first, 0)
	back := func() error { return errors.Join(transfer(v.queues[0], src, first, true), v.queues[0].Finish()) } // the source to its device, as it was
	enqueue := func() error { return forget(q.EnqueueCopyBuffer(src, dst, 0, 0, int(n), nil)) }
	return way{name: "vendor's copy", before: back, timer: timed(enqueue, q.Finish)},
		func() error { return verify(q, dst, n, 0) }, fill(q, dst)
}

// pinned maps n bytes of page-locked memory; free gives them back.
func (v *vendor) pinned(n uint64) (bytes []byte, free func(), err error) {
	m, err := v.ctx.CreateEmptyBuffer(cl.MemReadWrite|cl.MemAllocHostPtr, int(n))
	if err != nil {
		return nil, nil, err
	}
	q := v.queues[0]
	mapped, ev, err := q.EnqueueMapBuffer(m, true, cl.MapFlagRead|cl.MapFlagWrite, 0, int(n), nil)
	if forget(ev, err) != nil {
		m.Release()
		return nil, nil, err
	}
	return unsafe.Slice((*byte)(mapped.Ptr()), n), func() {
		_ = errors.Join(forget(q.EnqueueUnmapMemObject(m, mapped, nil)), q.Finish()) // nothing is left to be done about it
		m.Release()
	}, nil
}
