package cli

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/internal/nvlink"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
)

// trial has the devices of a platform hand buffers to and fro over their links, each adding one to
// their words, so that at the end each word is known. It may crash, so it says before each step what
// it is about to do.
type trial struct {
	ctx    context.Context //nolint:containedctx // of one trial
	c      *runtime.Context
	queues []*runtime.Queue
	add    *runtime.Kernel
	copies trace.Recorder
	say    func(step string)
	tried  []string // steps that went well
}

// handovers is how many times a trial hands one size over, and fewHandovers how many times the others.
const (
	handovers    = 2000
	fewHandovers = 2
)

const addOne = `kernel void add(global uint *b, uint n) { for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) b[i] += 1; }`

// tryLinks tries the first platform that may have links and has two devices. The Driver says how it
// went; an error, that nothing could be tried.
func tryLinks(ctx context.Context, most uint64, say func(step string)) (d nvlink.Driver, err error) {
	platform, version, err := opencl.LinkDriver()
	if err != nil {
		return d, err
	}
	devs, err := devices.Open(ctx, "opencl", devices.Config{Params: map[string]string{"platform": strconv.Itoa(platform), "nvlink": "try", "carve": "on", "bus": "on"}})
	if err != nil {
		return d, err
	}
	t := &trial{ctx: ctx, say: say}
	err = t.run(devs, cmp.Or(most, 500<<20))
	if len(t.tried) == 0 && (err == nil || errors.Is(err, nvlink.ErrNoGPU) || errors.Is(err, nvlink.ErrNoPeer)) {
		return d, errors.Join(fmt.Errorf("no two devices have a link: %w", mem.ErrInvalidOperation), err)
	}
	d = nvlink.Driver{Version: version, Good: err == nil}
	d.Tried = fmt.Sprintf("%s, %d devices (%s): %s", time.Now().Format(time.DateOnly), len(devs), devs[0].Info().Name, strings.Join(slices.Compact(t.tried), ", "))
	if err != nil {
		d.Tried += fmt.Sprintf("; then: %v", err)
	}
	return d, nil
}

// run has the first device hand buffers of several sizes to each that it has a link to, and back.
func (t *trial) run(devs []devices.Device, most uint64) (err error) {
	t.say("opening the links, and their first windows, of " + devs[0].Info().Name)
	if t.c, err = runtime.OpenContext(t.ctx, runtime.Options{Devices: devs, OwnDevices: true, Trace: &t.copies}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.c.Close(context.WithoutCancel(t.ctx))) }()
	if err := t.c.OpenLinks(t.ctx); err != nil {
		return err
	}
	p, err := t.c.Build(t.ctx, &devices.Program{Name: "trial", Source: addOne})
	if err == nil {
		t.add, err = p.Kernel("add")
	}
	for i := 0; i < len(devs) && err == nil; i++ {
		var q *runtime.Queue
		q, err = t.c.NewQueue(devs[i], runtime.QueueOptions{})
		t.queues = append(t.queues, q)
	}
	for to := 1; to < len(devs) && err == nil; to++ {
		if w, ok := devs[to].(devices.Windowed); ok && w.Connected(devs[0]) == nil {
			err = t.pair(to, most)
		}
	}
	return err
}

// pair hands buffers of several sizes to a device and back, and notes what went well.
func (t *trial) pair(to int, most uint64) error {
	for _, size := range []uint64{4 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 500 << 20} {
		size = min(size, most)
		rounds := fewHandovers
		if size == 1<<20 || size == most && most < 1<<20 {
			rounds = handovers
		}
		step := fmt.Sprintf("%d hand-overs of %s", rounds, mem.FormatBytes(size))
		t.say(step)
		if err := t.handover(to, size, rounds); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		if t.tried = append(t.tried, step); size == most {
			break
		}
	}
	return nil
}

// handover has a buffer written by the host and then handed to a device and back so many times, and looks
// at each word, and at the way of each copy.
func (t *trial) handover(to int, size uint64, rounds int) (err error) {
	from, got := make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(from)
	b, err := t.c.CreateBuffer(size, 0, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Release()) }()
	before, q := len(t.copies.Commands()), [2]*runtime.Queue{t.queues[0], t.queues[to]}
	launch := runtime.Launch{Kernel: t.add, Global: []uint64{min(size/4, 1<<16)}, Args: []runtime.Arg{runtime.InOut(b), runtime.Uint32(uint32(size / 4))}, NoEvent: true}
	for r := 0; r <= rounds && err == nil; r++ {
		_, err = q[r%2].EnqueueLaunch(t.ctx, launch)
	}
	if err == nil {
		err = q[rounds%2].Read(t.ctx, b, 0, got)
	}
	if err != nil {
		return err
	}
	for at := 0; at < len(got); at += 4 {
		if want := binary.NativeEndian.Uint32(from[at:]) + uint32(rounds) + 1; binary.NativeEndian.Uint32(got[at:]) != want {
			return fmt.Errorf("word %d is %#x, not %#x", at/4, binary.NativeEndian.Uint32(got[at:]), want)
		}
	}
	for _, c := range t.copies.Commands()[before:] {
		for i := range c.Steps {
			if s := &c.Steps[i]; s.From != mem.Host && s.To != mem.Host && s.Way != mem.Linked {
				return fmt.Errorf("%s went %s, which is not from window to window: %w", mem.FormatBytes(size), s.Way.Phrase(), mem.ErrInvalidOperation)
			}
		}
	}
	return nil
}
