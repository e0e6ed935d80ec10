//go:build cgo

package opencl

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"godwit/devices"
	"godwit/devices/opencl/internal/ocl"
	"godwit/mem"
)

// How copies get from one device to another of the same cl_context.
//
// A pair of devices has one main line and a few side lines, each with a ring of
// pinned memory and in-order queues of its own. A copy whose waits are reached
// goes to the main line, where copies follow each other without gaps. A copy
// that still waits for something would hold all that come after it there, so it
// takes a side line, alone, until it has ended; where none is free it is held
// back until its waits are reached, and goes to the main line then.
const (
	mainRing  = 64 << 20 // bytes
	sideRing  = 32 << 20 // bytes
	sideLines = 3
)

// line is a ring and its two queues.
type line struct {
	mu     sync.Mutex // held while a copy is enqueued
	ring   ocl.Ring
	memory devices.PinnedMemory
	block  mem.Block
	queues []ocl.Queue
}

// pair is the way from one device to another.
type pair struct {
	from, to *Device
	main     *line

	mu   sync.Mutex
	free []*line // protected by mu
	all  []*line // immutable once built

	tuning sync.Mutex // held while the way is measured
	way    atomic.Pointer[way]
}

// pair returns the way from one device to another, made on first use.
func (h *host) pair(from, to *Device) (*pair, error) {
	h.pairMu.Lock()
	defer h.pairMu.Unlock()
	key := [2]*Device{from, to}
	if p := h.pairs[key]; p != nil {
		return p, nil
	}
	p := &pair{from: from, to: to}
	p.way.Store(&defaultWay)
	for i := range 1 + sideLines {
		bytes := h.rings[1]
		if i == 0 {
			bytes = h.rings[0]
		}
		l, err := h.newLine(from, to, bytes)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("way from device %s to %s: %w", from.name, to.name, err)
		}
		p.all = append(p.all, l)
	}
	p.main, p.free = p.all[0], append(p.free, p.all[1:]...)
	h.pairs[key] = p
	return p, nil
}

// newLine makes queues on both devices and a ring of pinned memory.
func (h *host) newLine(from, to *Device, bytes int) (*line, error) {
	l := &line{}
	for _, dev := range []*Device{from, to} {
		q, err := h.context.NewQueue(dev.found.device, false, false)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("no command queue on device %s: %w", dev.name, errors.Join(err, mem.ErrNoResources))
		}
		l.queues = append(l.queues, q)
	}
	pinned, err := from.PinnedMemory(from.node)
	var blocks [1]mem.Block
	if err == nil {
		var out mem.Outcome
		if out, err = pinned.AllocAll([]mem.Request{{Size: uint64(bytes)}}, blocks[:]); err == nil && out != mem.Ready {
			err = mem.ErrNoHostMemory
		}
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("%d bytes of pinned memory: %w", bytes, errors.Join(err, mem.ErrNoHostMemory))
	}
	l.memory, l.block = pinned, blocks[0]
	l.ring = ocl.NewRing(l.block.Addr, uint64(bytes), l.queues[0], l.queues[1], !h.quirks.startsAtOnce)
	return l, nil
}

// close waits for the line's commands and releases everything in order: queues,
// the events in the ring, its memory.
func (l *line) close() {
	for _, q := range l.queues {
		_ = q.Finish() // a lost device has nothing left to finish
	}
	l.ring.Free()
	if l.memory != nil {
		_ = l.memory.FreeAfter(l.block, nil) // ours, once
	}
	for _, q := range l.queues {
		q.Release()
	}
}

func (p *pair) close() {
	for _, l := range p.all {
		l.close()
	}
}

// dropPairs closes the ways from and to d. No queue of d is open, but those of
// the other devices may be: their copies with d have ended, since a block of d
// may not be in use when d is closed.
func (h *host) dropPairs(d *Device) {
	h.pairMu.Lock()
	defer h.pairMu.Unlock()
	for key, p := range h.pairs {
		if p.from == d || p.to == d {
			delete(h.pairs, key)
			p.close()
		}
	}
}

// takeSide finds r a side line.
func (r *record) takeSide() bool {
	p := r.pair
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.side != nil {
		return true
	}
	if len(p.free) == 0 {
		return false
	}
	r.side, p.free = p.free[len(p.free)-1], p.free[:len(p.free)-1]
	return true
}

func (p *pair) giveSide(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, l)
}

// copy enqueues r's legs, behind the events in r.handles.
func (p *pair) copy(r *record) int32 {
	l := p.main
	if r.side != nil {
		l = r.side
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring.Copy(&r.cmd, p.way.Load().chunk(r.cmd.Size), r.handles, r.tag)
}

// PeerLink implements devices.PeerCopier. The first call for a pair of discrete
// devices measures the way between them, which takes some tens of milliseconds.
func (d *Device) PeerLink(other devices.Device) (mem.Link, bool) {
	if _, ok := other.(devices.HostBacked); ok {
		return mem.DirectLink(0, 0), true
	}
	o, ok := other.(*Device)
	if !ok || o.host != d.host || o == d || d.usable() != nil || o.usable() != nil {
		return mem.Link{}, false
	}
	if o.info.SharesHost && d.info.SharesHost || d.host.worker != nil {
		return mem.DirectLink(0, 0), true
	}
	p, err := d.host.pair(o, d)
	if err != nil {
		return mem.Link{}, false
	}
	p.tune()
	return p.way.Load().link(), true
}
