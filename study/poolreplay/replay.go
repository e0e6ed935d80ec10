// Package poolreplay runs allocation traces through pools of buffers, as
// study/alloc/replay runs them through strategies of a region: what a program would
// have seen had it got its memory from the pool. Buffers are real runtime
// buffers over the null device, so that the figures are the pool's own.
package poolreplay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/lib/pool"
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/runtime"
	"godwit/study/alloc/formats"
)

// Kind is a pool to replay through.
type Kind struct {
	Bins pool.Bins
	// Bound is the ceiling as a multiple of the trace's peak of live bytes; 0
	// is an unbounded pool.
	Bound float64
}

// String is the kind as ParseKind reads it.
func (k Kind) String() string {
	s := k.Bins.String()
	if k.Bound > 0 {
		s += ":" + strconv.FormatFloat(k.Bound, 'g', -1, 64)
	}
	return s
}

// ParseKind reads "power-of-two", "leading-bits", and either with ":BOUND" for
// a BoundedPool with a ceiling of BOUND times the peak, from 1 on. It fails with
// mem.ErrInvalidValue for anything else.
func ParseKind(s string) (Kind, error) {
	name, bound, bounded := strings.Cut(s, ":")
	k := Kind{}
	switch name {
	case pool.PowerOfTwo.String():
	case pool.LeadingBits.String():
		k.Bins = pool.LeadingBits
	default:
		return k, fmt.Errorf("pool %q: want %v or %v, with :BOUND for a ceiling: %w", s, pool.PowerOfTwo, pool.LeadingBits, mem.ErrInvalidValue)
	}
	if bounded {
		v, err := strconv.ParseFloat(bound, 64)
		if err != nil || !(v >= 1 && v < 1e6) {
			return k, fmt.Errorf("pool %q: the ceiling %q is no multiple of the peak from 1 on: %w", s, bound, mem.ErrInvalidValue)
		}
		k.Bound = v
	}
	return k, nil
}

// Pass is one run of a trace through a pool that keeps its buffers between
// passes.
type Pass struct {
	HitRate  float64 `json:"hit_rate" show:"hit rate|%.4f"`
	Held     uint64  `json:"held" show:"held|size"`          // the most bytes in buffers at any time
	Overhead float64 `json:"overhead" show:"held/peak|%.3f"` // Held over the trace's peak of live bytes
	Failures int     `json:"failures" show:"refused"`        // requests refused at the ceiling, a count
	NsPerOp  float64 `json:"ns_per_op" show:"ns/op|%.0f"`
}

// Result is a trace's passes through one pool. Bytes unless said.
type Result struct {
	Trace    string `json:"trace" show:"trace"`
	Pool     string `json:"pool" show:"pool"`
	PeakLive uint64 `json:"peak_live" show:"peak live|size"`
	Ceiling  uint64 `json:"ceiling,omitempty"`
	Passes   []Pass `json:"passes"`
}

// Run replays t through a new pool, passes times. It stops when ctx ends.
func Run(ctx context.Context, t *formats.Allocs, k Kind, passes int) (res Result, err error) {
	peak, _ := t.PeakLive()
	res = Result{Trace: t.Name, Pool: k.String(), PeakLive: peak}
	c, err := runtime.NewContext(runtime.Options{Devices: []devices.Device{null.New(devices.Config{})}, OwnDevices: true})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, c.Close(context.Background())) }()
	ceiling := uint64(math.MaxUint64)
	if k.Bound > 0 {
		ceiling = max(uint64(k.Bound*float64(peak)), 1)
		res.Ceiling = ceiling
	}
	p, err := pool.NewBoundedPool(c, pool.BoundedOptions{Options: pool.Options{Bins: k.Bins}, Ceiling: ceiling, High: ceiling, Low: ceiling})
	if err != nil {
		return res, err
	}
	for range passes {
		p.ResetStats()
		pass, err := once(ctx, t, p)
		if err != nil {
			return res, err
		}
		if peak > 0 {
			pass.Overhead = float64(pass.Held) / float64(peak)
		}
		res.Passes = append(res.Passes, pass)
	}
	if err := p.Check(); err != nil {
		return res, err
	}
	_, err = p.Clear()
	return res, err
}

// once is one pass. It ends with nothing lent, as it begins.
func once(ctx context.Context, t *formats.Allocs, p *pool.BoundedPool) (Pass, error) {
	lent := make([]pool.Handle, t.Chunks)
	var pass Pass
	start := time.Now()
	for i, e := range t.Events {
		if i%4096 == 0 && ctx.Err() != nil {
			return pass, ctx.Err()
		}
		if e.Op == trace.OpFree {
			if err := p.Put(lent[e.Chunk]); err != nil {
				return pass, fmt.Errorf("%s: event %d: %w", t.Name, i, err)
			}
			lent[e.Chunk] = pool.Handle{}
			continue
		}
		h, err := p.Get(ctx, nil, e.Size, 0)
		if errors.Is(err, mem.ErrNoMemory) {
			pass.Failures++
			continue
		}
		if err != nil {
			return pass, fmt.Errorf("%s: event %d: %w", t.Name, i, err)
		}
		lent[e.Chunk] = h
		pass.Held = max(pass.Held, p.Held())
	}
	pass.NsPerOp = float64(time.Since(start).Nanoseconds()) / float64(max(len(t.Events), 1))
	pass.HitRate = p.Stats().HitRate()
	for _, h := range lent {
		if err := p.Put(h); err != nil {
			return pass, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return pass, nil
}
