//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"godwit/mem"
	"godwit/runtime"
)

// Command buffers: cl_khr_command_buffer, _mutable_dispatch and _multi_device, on the runtime's recordings and graphs
// (docs/design/graphs.md, "Command buffers of OpenCL"). A command buffer keeps the list of its commands beside what was
// recorded of it, so that the list can be recorded anew: for other queues, or when a launch uses other buffers.

// commandBuffer is a cl_command_buffer_khr. Life: recording -> finalised -> destroyed.
type commandBuffer struct {
	self       uintptr          // immutable
	c          *clContext       // immutable
	queues     []*queue         // immutable: as given; each is retained
	run        []*runtime.Queue // immutable: theirs, each once
	flags      uint64           // immutable: cl_command_buffer_flags_khr
	asserts    uint64           // immutable: cl_mutable_dispatch_asserts_khr of all launches
	properties []uint64         // immutable: as given, with the final zero

	mu       sync.Mutex      // before a kernel's
	commands []*command      // protected by mu: sync point n is commands[n-1]
	draft    *draft          // protected by mu: nil once finalised
	graph    *runtime.Graph  // protected by mu: of the commands, where stale does not say that they have changed since
	stale    bool            // protected by mu
	lacking  int             // protected by mu: launches that lack arguments
	pending  []runtime.Event // protected by mu: of enqueues, for versions that tell of them
	gone     bool            // protected by mu: it was destroyed
}

// lockBuffer finds a command buffer and locks it; nil where the handle is none.
func lockBuffer(h uintptr) *commandBuffer {
	b := commandBuffers.get(h)
	if b == nil {
		return nil
	}
	b.mu.Lock()
	if b.gone { // by another thread, since it was looked up
		b.mu.Unlock()
		return nil
	}
	return b
}

// Bits of cl_command_buffer_flags_khr, and properties.
const (
	bufferSimultaneous = 1 << iota
	bufferMutable
	bufferDeviceSync

	bufferFlagsProperty   = 0x1293
	bufferAssertsProperty = 0x12B7
	noMoreGroups          = 1 // the one bit of cl_mutable_dispatch_asserts_khr
)

// States.
const (
	stateRecording uint32 = iota
	stateExecutable
	stateOther // Finalized; in versions before 0.9.8 Pending
)

// properties reads a list of pairs that ends in a zero. take gets each pair, each name once.
func readProperties(list unsafe.Pointer, take func(name, value uint64) int32) (all []uint64, st int32) {
	if list == nil {
		return nil, clSuccess
	}
	for at := (*[2]uint64)(list); at[0] != 0; at = (*[2]uint64)(unsafe.Add(unsafe.Pointer(at), 16)) {
		for i := 0; i < len(all); i += 2 {
			if all[i] == at[0] {
				return nil, clInvalidValue
			}
		}
		if st := take(at[0], at[1]); st != clSuccess {
			return nil, st
		}
		all = append(all, at[0], at[1])
	}
	return append(all, 0), clSuccess
}

//export gwCreateCommandBufferKHR
func gwCreateCommandBufferKHR(n uint32, list, properties unsafe.Pointer) (uintptr, int32) {
	qs, st := queueList(n, list)
	if st != clSuccess {
		return 0, st
	}
	b := &commandBuffer{c: qs[0].c, queues: qs}
	b.properties, st = readProperties(properties, func(name, value uint64) int32 {
		switch {
		case name == bufferFlagsProperty && value&^(bufferSimultaneous|bufferMutable|bufferDeviceSync) == 0:
			b.flags = value
		case name == bufferAssertsProperty && value&^noMoreGroups == 0:
			b.asserts = value
		default:
			return clInvalidValue
		}
		return clSuccess
	})
	if st != clSuccess {
		return 0, st
	}
	return b.begin()
}

// queueList resolves queues that are to be of one context.
func queueList(n uint32, list unsafe.Pointer) (qs []*queue, st int32) {
	if n == 0 || list == nil {
		return nil, clInvalidValue
	}
	for _, h := range unsafe.Slice((*uintptr)(list), n) {
		q := queues.get(h)
		switch {
		case q == nil:
			return nil, clInvalidCommandQueue
		case len(qs) > 0 && q.c != qs[0].c:
			return nil, clInvalidContext
		}
		qs = append(qs, q)
	}
	return qs, clSuccess
}

// begin makes a command buffer that has its queues and flags an object, and has it record.
func (b *commandBuffer) begin() (uintptr, int32) {
	for _, q := range b.queues {
		if b.flags&bufferDeviceSync != 0 && q.d != b.queues[0].d {
			return 0, C.GW_INCOMPATIBLE_COMMAND_QUEUE // devices are synchronised by the host
		}
		if !slices.Contains(b.run, q.run) {
			b.run = append(b.run, q.run)
		}
	}
	var err error
	if b.draft, err = b.newDraft(); err != nil {
		return 0, refusal(err)
	}
	for i, q := range b.queues {
		if queues.hold(q.self) == nil {
			b.draft.drop()
			for _, q := range b.queues[:i] {
				release(q.self)
			}
			return 0, clInvalidCommandQueue
		}
	}
	return commandBuffers.add(b, &b.self)
}

// destroy implements destroyer. Enqueues that have not ended go on.
func (b *commandBuffer) destroy() {
	b.mu.Lock()
	b.gone = true
	b.mu.Unlock()
	b.draft.drop()
	for _, c := range b.commands {
		if c.self != 0 {
			release(c.self)
		}
		c.drop()
	}
	for _, e := range b.pending {
		_ = e.Release() // ours: it cannot fail
	}
	for _, q := range b.queues {
		release(q.self)
	}
}

// draft is a recording of a command buffer's list that is under way.
type draft struct {
	rec     *runtime.Recording
	on      []*runtime.Queue // in place of commandBuffer.run
	events  []runtime.Event  // by command
	barrier int              // the last barrier; -1 is none
	full    int              // the first command that no barrier without a list stands behind
}

func (b *commandBuffer) newDraft() (*draft, error) {
	rec, err := b.c.run.RecordApart(b.run...)
	if err != nil {
		return nil, err
	}
	return &draft{rec: rec, on: rec.Queues(), barrier: -1}, nil
}

// add records the next command of the list.
func (d *draft) add(c *command) error {
	e, err := c.record(d.on[c.on], d.waits(c))
	if err != nil {
		return err
	}
	if c.barrier {
		if d.barrier = len(d.events); len(c.after) == 0 {
			d.full = d.barrier
		}
	}
	d.events = append(d.events, e)
	return nil
}

// waits are the events that a command is recorded with: its sync points, the last barrier, and for a barrier without sync points
// everything before, without what only orders it and its in-order queue orders as well.
func (d *draft) waits(c *command) (list []runtime.Event) {
	wait := func(i int) {
		if o := c.b.commands[i]; o.on != c.on || c.b.loose(c.on) {
			list = append(list, d.events[i])
		}
	}
	for _, i := range c.after { // also of its own in-order queue, which passes no failure on
		list = append(list, d.events[i])
	}
	if d.barrier >= 0 && !slices.Contains(c.after, d.barrier) {
		wait(d.barrier)
	}
	if c.barrier && len(c.after) == 0 {
		for i := d.full; i < len(d.events); i++ {
			if i != d.barrier {
				wait(i)
			}
		}
	}
	return list
}

// loose reports whether one of the buffer's queues is out of order.
func (b *commandBuffer) loose(on int) bool {
	i := slices.IndexFunc(b.queues, func(q *queue) bool { return q.run == b.run[on] })
	return b.queues[i].flags&C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0
}

// finish ends the draft and makes the graph.
func (d *draft) finish() (*runtime.Graph, error) {
	defer d.release()
	return d.rec.Finish(context.Background())
}

// drop ends a draft that nobody wants; nil is none.
func (d *draft) drop() {
	if d != nil {
		_ = d.rec.Discard() // the context may be closed
		d.release()
	}
}

func (d *draft) release() {
	for _, e := range d.events {
		_ = e.Release()
	}
}

// build records the whole list and makes the graph. mu is held.
func (b *commandBuffer) build() (*runtime.Graph, error) {
	d, err := b.newDraft()
	if err != nil {
		return nil, err
	}
	for i, c := range b.commands {
		if err := d.add(c); err != nil {
			d.drop()
			return nil, fmt.Errorf("command %d of a command buffer: %w", i+1, err)
		}
	}
	return d.finish()
}

//export gwFinalizeCommandBufferKHR
func gwFinalizeCommandBufferKHR(h uintptr) int32 {
	b := lockBuffer(h)
	if b == nil {
		return C.GW_INVALID_COMMAND_BUFFER
	}
	defer b.mu.Unlock()
	return b.finalize()
}

// finalize ends the recording. mu is held.
func (b *commandBuffer) finalize() int32 {
	d := b.draft
	if d == nil {
		return clInvalidOperation
	}
	if b.draft = nil; b.lacking > 0 {
		d.drop()
		b.stale = true
		return clSuccess
	}
	var err error
	b.graph, err = d.finish()
	b.stale = err != nil
	return refusal(err)
}

//export gwEnqueueCommandBufferKHR
func gwEnqueueCommandBufferKHR(n uint32, list unsafe.Pointer, h uintptr, waitCount uint32, waitList, out unsafe.Pointer) int32 {
	b := lockBuffer(h)
	if b == nil {
		return C.GW_INVALID_COMMAND_BUFFER
	}
	defer b.mu.Unlock()
	switch state := b.state(); {
	case state == stateRecording, state == stateOther && (newest() || b.flags&bufferSimultaneous == 0):
		return clInvalidOperation
	}
	qs, st := b.onto(n, list)
	if st != clSuccess {
		return st
	}
	var w waits
	wait, st := b.c.waitList(w[:0], waitCount, waitList)
	if st != clSuccess {
		return st
	}
	if b.stale {
		g, err := b.build()
		if err != nil {
			return refusal(err)
		}
		b.graph, b.stale = g, false
	}
	return b.replay(qs, wait, out)
}

// onto resolves the queues of an enqueue.
func (b *commandBuffer) onto(n uint32, list unsafe.Pointer) ([]*queue, int32) {
	if n == 0 && list == nil {
		return b.queues, clSuccess
	}
	if n == 0 || list == nil || uint64(n) != uint64(len(b.queues)) {
		return nil, clInvalidValue
	}
	qs, st := queueList(n, list)
	if st != clSuccess {
		return nil, st
	}
	if qs[0].c != b.c {
		return nil, clInvalidContext
	}
	for i, q := range qs {
		if q.d == b.queues[i].d {
			continue
		}
		if version().linked {
			return nil, C.GW_INCOMPATIBLE_COMMAND_QUEUE
		}
		return nil, clInvalidDevice
	}
	return qs, clSuccess
}

// replay replays the graph on some queues. mu is held.
func (b *commandBuffer) replay(qs []*queue, wait []runtime.Event, out unsafe.Pointer) int32 {
	var in runtime.Bindings
	if !slices.Equal(qs, b.queues) {
		for _, r := range b.run {
			in.Queues = append(in.Queues, qs[slices.IndexFunc(b.queues, func(q *queue) bool { return q.run == r })].run)
		}
	}
	e := &event{c: b.c, q: qs[0], command: C.CL_COMMAND_COMMAND_BUFFER_KHR, several: len(qs) > 1}
	if i := slices.IndexFunc(qs, (*queue).profiles); i >= 0 && out != nil {
		e.q = qs[i]
		if len(wait) > 0 || e.q.flags&C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0 { // else it would wait for more than the commands do
			e.begin, _ = e.q.run.EnqueueMarker(context.Background(), wait...)
		}
	}
	var err error
	if e.run, err = b.graph.Replay(context.Background(), e.q.run, in, wait...); err != nil {
		if !e.begin.IsZero() {
			_ = e.begin.Release()
		}
		return refusal(err)
	}
	if !newest() && e.run.Retain() == nil {
		b.pending = append(b.pending, e.run)
	}
	if out == nil {
		_ = e.run.Release()
		return clSuccess
	}
	h, st := e.add()
	if st == clSuccess {
		*(*uintptr)(out) = h
	}
	return st
}

// state is a cl_command_buffer_state_khr. mu is held.
func (b *commandBuffer) state() uint32 {
	switch {
	case b.draft != nil:
		return stateRecording
	case newest() && b.lacking > 0:
		return stateOther
	case !newest() && b.isPending():
		return stateOther
	}
	return stateExecutable
}

// isPending reports whether an enqueue has not ended. mu is held.
func (b *commandBuffer) isPending() bool {
	b.pending = slices.DeleteFunc(b.pending, func(e runtime.Event) bool {
		s, err := e.Status()
		ended := err != nil || s <= runtime.Complete
		if ended {
			_ = e.Release()
		}
		return ended
	})
	return len(b.pending) > 0
}

var commandBufferFacts = facts[commandBuffer]{
	C.CL_COMMAND_BUFFER_QUEUES_KHR: func(b *commandBuffer) any {
		var list []uintptr
		for _, q := range b.queues {
			list = append(list, q.self)
		}
		return list
	},
	C.CL_COMMAND_BUFFER_NUM_QUEUES_KHR:      func(b *commandBuffer) any { return uint32(len(b.queues)) },
	C.CL_COMMAND_BUFFER_REFERENCE_COUNT_KHR: func(b *commandBuffer) any { return refs(b.self) },
	C.CL_COMMAND_BUFFER_PROPERTIES_ARRAY_KHR: func(b *commandBuffer) any {
		return b.properties
	},
	bufferContext: func(b *commandBuffer) any { return b.c.self },
	C.CL_COMMAND_BUFFER_STATE_KHR: func(b *commandBuffer) any {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.state()
	},
}

const bufferContext = 0x1299 // CL_COMMAND_BUFFER_CONTEXT_KHR

//export gwGetCommandBufferInfoKHR
func gwGetCommandBufferInfoKHR(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	return commandBuffers.info(h, commandBufferFacts, what, room, value, sizeRet)
}

// gwRemapCommandBufferKHR records the list on other queues. Where it may choose, a command stays on a queue of its device,
// if there is one.
//
//export gwRemapCommandBufferKHR
func gwRemapCommandBufferKHR(h uintptr, automatic, n uint32, list unsafe.Pointer, count uint32, handles, out unsafe.Pointer) (uintptr, int32) {
	old := lockBuffer(h)
	if old == nil {
		return 0, C.GW_INVALID_COMMAND_BUFFER
	}
	defer old.mu.Unlock()
	switch {
	case n == 0 || list == nil, automatic == 0 && uint64(n) != uint64(len(old.queues)), (count == 0) != (handles == nil), (count == 0) != (out == nil):
		return 0, clInvalidValue
	}
	qs, st := queueList(n, list)
	switch {
	case st != clSuccess:
		return 0, st
	case qs[0].c != old.c:
		return 0, clInvalidContext
	}
	asked, st := old.numbers(unsafe.Slice((*uintptr)(handles), count))
	if st != clSuccess {
		return 0, st
	}
	b := &commandBuffer{c: old.c, queues: qs, flags: old.flags, asserts: old.asserts, properties: old.properties}
	if _, st := b.begin(); st != clSuccess {
		return 0, st
	}
	if st := b.takeOver(old, automatic != 0, asked, unsafe.Slice((*uintptr)(out), count)); st != clSuccess {
		release(b.self)
		return 0, st
	}
	return b.self, clSuccess
}

// numbers are the places in the list of commands that a program names. mu is held.
func (b *commandBuffer) numbers(handles []uintptr) (list []int, st int32) {
	for _, h := range handles {
		c := commands.get(h)
		if c == nil || c.b != b {
			return nil, clInvalidValue
		}
		list = append(list, c.n)
	}
	return list, clSuccess
}

// takeOver records copies of another command buffer's commands, and finalises if that is. old.mu is held.
func (b *commandBuffer) takeOver(old *commandBuffer, automatic bool, asked []int, out []uintptr) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range old.commands {
		i := slices.Index(old.queues, o.q)
		if automatic {
			if i = slices.IndexFunc(b.queues, func(q *queue) bool { return q.d == o.q.d }); i < 0 {
				i = slices.Index(old.queues, o.q) % len(b.queues)
			}
		}
		c, st := o.copy(b, b.queues[i])
		if st != clSuccess {
			return st
		}
		if st := b.append(c); st != clSuccess {
			c.drop()
			return st
		}
	}
	if old.draft == nil {
		if st := b.finalize(); st != clSuccess {
			return st
		}
	}
	for i, k := range asked {
		c := b.commands[k]
		if c.self == 0 {
			if _, st := commands.add(c, &c.self); st != clSuccess {
				return st
			}
		}
		out[i] = c.self
	}
	return clSuccess
}

// restore takes updates back after one was refused. mu is held.
func (b *commandBuffer) restore(done []*command) {
	for _, c := range done {
		if err := b.graph.SetLaunch(c.n, c.dispatch.launch()); err != nil && !errors.Is(err, mem.ErrInvalidOperation) {
			b.stale = true
		}
	}
}
