//go:build cgo

package icd

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const bufferSize = 4096

// history is a random program against plain bytes.
type history struct {
	*lab
	t      *rapid.T
	model  [2][]byte
	bufs   [2]uintptr
	subs   []uintptr // of the first, with their origins
	at     []uint64
	queues []uintptr
	last   uintptr // event of the last command, what the next waits for
	kept   [][]byte
}

// where draws a range of a buffer or sub-buffer.
func (h *history) where(align uint64) (m uintptr, off, size uint64, bytes []byte) {
	i := rapid.IntRange(0, 1+len(h.subs)).Draw(h.t, "buffer")
	total, origin, which := uint64(bufferSize), uint64(0), i
	if i < 2 {
		m = h.bufs[i]
	} else {
		m, origin, total, which = h.subs[i-2], h.at[i-2], 1024, 0
	}
	off = rapid.Uint64Range(0, total/align-1).Draw(h.t, "offset") * align
	size = rapid.Uint64Range(1, (total-off)/align).Draw(h.t, "size") * align
	return m, off, size, h.model[which][origin+off:][:size]
}

func (h *history) queue() uintptr { return rapid.SampledFrom(h.queues).Draw(h.t, "queue") }

// do enqueues a command, which may wait for the one before it.
func (h *history) do(enqueue func(n uint32, waits, out unsafe.Pointer) int32) int32 {
	var n uint32
	var waits unsafe.Pointer
	var e uintptr
	if h.last != 0 && rapid.Bool().Draw(h.t, "waits for the last") {
		n, waits = 1, at(&h.last)
	}
	st := enqueue(n, waits, at(&e))
	if st == clSuccess {
		if h.last != 0 {
			release(h.last)
		}
		h.last = e
	}
	return st
}

func (h *history) noise(n uint64) []byte {
	seed := rapid.Byte().Draw(h.t, "seed")
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7)
	}
	return b
}

func (h *history) Write(t *rapid.T) {
	h.t = t
	m, off, size, model := h.where(1)
	data := h.noise(size)
	q, blocking := h.queue(), rapid.Uint32Range(0, 1).Draw(t, "blocking")
	h.kept = append(h.kept, data) // as it is until the end
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueWriteBuffer(q, m, blocking, off, size, at(&data[0]), n, w, out)
	}))
	copy(model, data)
}

func (h *history) Read(t *rapid.T) {
	h.t = t
	m, off, size, model := h.where(1)
	got := make([]byte, size)
	q := h.queue()
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueReadBuffer(q, m, 1, off, size, at(&got[0]), n, w, out)
	}))
	require.True(t, bytes.Equal(model, got))
}

func (h *history) Fill(t *rapid.T) {
	h.t = t
	width := rapid.SampledFrom([]uint64{1, 2, 4, 16, 128}).Draw(t, "pattern")
	m, off, size, model := h.where(width)
	pattern := h.noise(width)
	q := h.queue()
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueFillBuffer(q, m, at(&pattern[0]), width, off, size, n, w, out)
	}))
	for i := range model {
		model[i] = pattern[i%len(pattern)]
	}
}

func (h *history) Copy(t *rapid.T) {
	h.t = t
	from, so, size, src := h.where(1)
	to, do, room, dst := h.where(1)
	size = min(size, room)
	q := h.queue()
	st := h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueCopyBuffer(q, from, to, so, do, size, n, w, out)
	})
	if st == clMemCopyOverlap {
		a, b := uintptr(unsafe.Pointer(&src[0])), uintptr(unsafe.Pointer(&dst[0]))
		require.True(t, a < b+uintptr(size) && b < a+uintptr(size), "no overlap")
		return
	}
	require.Zero(t, st)
	copy(dst[:size], src[:size])
}

func (h *history) CopyRect(t *rapid.T) {
	h.t = t
	const pitch = 64
	region := [3]uint64{rapid.Uint64Range(1, pitch).Draw(t, "width"), rapid.Uint64Range(1, 20).Draw(t, "rows"), 1}
	so := [3]uint64{rapid.Uint64Range(0, pitch-region[0]).Draw(t, "x"), rapid.Uint64Range(0, 40).Draw(t, "y"), 0}
	do := [3]uint64{rapid.Uint64Range(0, pitch-region[0]).Draw(t, "x"), rapid.Uint64Range(0, 40).Draw(t, "y"), 0}
	q := h.queue()
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueCopyBufferRect(q, h.bufs[0], h.bufs[1], at(&so), at(&do), at(&region), pitch, 0, pitch, 0, n, w, out)
	}))
	for y := range region[1] {
		copy(h.model[1][(do[1]+y)*pitch+do[0]:][:region[0]], h.model[0][(so[1]+y)*pitch+so[0]:][:region[0]])
	}
}

func (h *history) ReadRect(t *rapid.T) {
	h.t = t
	region, origin, zero := [3]uint64{16, 8, 2}, [3]uint64{rapid.Uint64Range(0, 16).Draw(t, "x"), 3, 1}, [3]uint64{}
	got := make([]byte, 16*8*2)
	require.Zero(t, gwEnqueueReadBufferRect(h.queue(), h.bufs[0], 1, at(&origin), at(&zero), at(&region), 32, 1024, 0, 0, at(&got[0]), 0, nil, nil))
	for z := range uint64(2) {
		for y := range uint64(8) {
			require.Equal(t, h.model[0][(1+z)*1024+(3+y)*32+origin[0]:][:16], got[(z*8+y)*16:][:16])
		}
	}
}

func (h *history) Map(t *rapid.T) {
	h.t = t
	m, off, size, model := h.where(1)
	flags := rapid.SampledFrom([]uint64{1, 2, 3, 4}).Draw(t, "flags")
	var st int32
	q := h.queue()
	var p unsafe.Pointer
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		p, st = gwEnqueueMapBuffer(q, m, 1, flags, off, size, n, w, out)
		return st
	}))
	mapped := bytesAt(p, size)
	if flags != 4 {
		require.True(t, bytes.Equal(model, mapped))
	}
	if flags != 1 {
		copy(mapped, h.noise(size))
		copy(model, mapped)
	}
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueUnmapMemObject(q, m, uintptr(p), n, w, out)
	}))
}

func (h *history) Migrate(t *rapid.T) {
	h.t = t
	q, flags := h.queue(), rapid.Uint64Range(0, 1).Draw(t, "host")
	require.Zero(t, h.do(func(n uint32, w, out unsafe.Pointer) int32 {
		return gwEnqueueMigrateMemObjects(q, 2, at(&h.bufs[0]), flags, n, w, out)
	}))
}

func (h *history) Sub(t *rapid.T) {
	if len(h.subs) == 4 {
		t.Skip("enough")
	}
	region := [2]uint64{1024 * rapid.Uint64Range(0, 3).Draw(t, "origin"), 1024}
	h.subs = append(h.subs, h.made(gwCreateSubBuffer(h.bufs[0], 0, 0x1220, at(&region))))
	h.at = append(h.at, region[0])
}

func (h *history) Check(t *rapid.T) {
	require.NoError(t, contexts.get(h.ctx).run.Check())
}

// Random programs over several queues of several devices, in and out of order,
// with and without wait lists: what is read is what plain bytes would hold.
func TestCommandsAgreeWithPlainBytes(t *testing.T) {
	l := newLab(t)
	rapid.Check(t, func(t *rapid.T) {
		h := &history{lab: l, t: t, queues: l.queues}
		outOfOrder := l.made(gwCreateCommandQueue(l.ctx, l.devs[1], 1))
		defer release(outOfOrder)
		h.queues = append(h.queues[:len(h.queues):len(h.queues)], outOfOrder)
		for i := range h.bufs {
			h.model[i] = h.noise(bufferSize)
			h.bufs[i] = l.made(gwCreateBuffer(l.ctx, 1<<5, bufferSize, at(&h.model[i][0])))
			defer release(h.bufs[i])
		}
		t.Repeat(rapid.StateMachineActions(h))
		for i := range h.bufs {
			got := make([]byte, bufferSize)
			require.Zero(t, gwEnqueueReadBuffer(l.queues[0], h.bufs[i], 1, 0, bufferSize, at(&got[0]), 0, nil, nil))
			require.True(t, bytes.Equal(h.model[i], got))
		}
		for _, s := range append(h.subs, h.last) {
			if s != 0 {
				release(s)
			}
		}
	})
}

// Wrong handles, and more wrong values, are in tests/icd: testdata/errors.c.
func TestMistakesWithBuffersAreErrors(t *testing.T) {
	l := newLab(t)
	q, ctx := l.queues[0], l.ctx
	data := make([]byte, 64)
	p := at(&data[0])
	create := func(flags, size uint64, host unsafe.Pointer) int32 {
		return refused(gwCreateBuffer(ctx, flags, size, host))
	}
	m := l.ints(make([]int32, 1024)...)
	secret := l.make(gwCreateBuffer(ctx, 1<<9, 64, nil))
	sub := func(parent uintptr, origin, size, flags uint64) int32 {
		region := [2]uint64{origin, size}
		return refused(gwCreateSubBuffer(parent, flags, 0x1220, at(&region)))
	}
	part := l.make(gwCreateSubBuffer(m, 0, 0x1220, at(&[2]uint64{0, 64})))
	read := func(q, m uintptr, off, size uint64, p unsafe.Pointer) int32 {
		return gwEnqueueReadBuffer(q, m, 1, off, size, p, 0, nil, nil)
	}
	fill := func(pattern, off, size uint64) int32 {
		return gwEnqueueFillBuffer(q, m, p, pattern, off, size, 0, nil, nil)
	}
	mapIt := func(m uintptr, flags, off, size uint64) (st int32) {
		_, st = gwEnqueueMapBuffer(q, m, 1, flags, off, size, 0, nil, nil)
		return st
	}
	rect := func(region [3]uint64, row uint64) int32 {
		return gwEnqueueReadBufferRect(q, m, 1, at(&[3]uint64{}), at(&[3]uint64{}), at(&region), row, 0, 0, 0, p, 0, nil, nil)
	}
	for name, c := range map[string][2]int32{
		"unknown flag":            {create(1<<6, 64, nil), clInvalidValue},
		"use and copy":            {create(1<<3|1<<5, 64, p), clInvalidValue},
		"properties":              {refused(gwCreateBufferWithProperties(ctx, at(&[]uint64{5, 0}[0]), 0, 64, nil)), clInvalidProperty},
		"sub of a sub":            {sub(part, 0, 16, 0), clInvalidMemObject},
		"sub misaligned":          {sub(m, 4, 64, 0), -13},
		"sub with a host pointer": {sub(m, 0, 64, 1<<3), clInvalidValue},
		"read of a secret":        {read(q, secret, 0, 4, p), clInvalidOperation},
		"read of nothing":         {read(q, m, 4096, 0, p), clSuccess},
		"fill of odd size":        {fill(4, 0, 10), clInvalidValue},
		"map of nothing":          {mapIt(m, 1, 0, 0), clInvalidValue},
		"map with bad flags":      {mapIt(m, 8, 0, 4), clInvalidValue},
		"map of a secret":         {mapIt(secret, 1, 0, 4), clInvalidOperation},
		"rect without a side":     {rect([3]uint64{4, 0, 1}, 0), clInvalidValue},
		"rect with short rows":    {rect([3]uint64{8, 2, 1}, 4), clInvalidValue},
		"rect past the end":       {rect([3]uint64{8, 2, 1}, 4096), clInvalidValue},
		"migrate of nothing":      {gwEnqueueMigrateMemObjects(q, 0, nil, 0, 0, nil, nil), clInvalidValue},
		"migrate with bad flags":  {gwEnqueueMigrateMemObjects(q, 1, at(&m), 4, 0, nil, nil), clInvalidValue},
		"no destructor":           {gwSetMemObjectDestructorCallback(m, nil, nil), clInvalidValue},
	} {
		require.Equal(t, c[1], c[0], name)
	}
}

// What buffers answer besides is in tests/icd: testdata/objects.c.
func TestAMapOfTheProgramsMemoryIsThatMemory(t *testing.T) {
	l := newLab(t)
	data := make([]byte, 4096)
	m := l.make(gwCreateBuffer(l.ctx, 1<<3, 4096, at(&data[0])))
	maps := func() uint32 {
		return word[uint32](l, func(room uint64, value, size unsafe.Pointer) int32 {
			return gwGetMemObjectInfo(m, 0x1104, room, value, size)
		})
	}
	p, _ := gwEnqueueMapBuffer(l.queues[0], m, 1, 1, 100, 8, 0, nil, nil)
	require.Equal(t, at(&data[100]), p)
	require.EqualValues(t, 1, maps())
	require.Zero(t, gwEnqueueUnmapMemObject(l.queues[0], m, uintptr(p), 0, nil, nil))
	require.Zero(t, gwFinish(l.queues[0]))
	require.Zero(t, maps())

	secret := l.make(gwCreateBuffer(l.ctx, 1<<8, 64, nil)) // the host reads
	p, st := gwEnqueueMapBuffer(l.queues[0], secret, 1, 0, 0, 8, 0, nil, nil)
	require.Zero(t, st, "no flags: what the buffer lets the host do")
	require.Zero(t, gwEnqueueUnmapMemObject(l.queues[0], secret, uintptr(p), 0, nil, nil))
}

// Only what a buffer's size buffer counts is copied (PoCL's cl_pocl_content_size).
func TestContentSizeIsWhatCopiesMove(t *testing.T) {
	l := newLab(t)
	m, dst, size := l.ints(make([]int32, 256)...), l.ints(1, 1, 1, 1), l.ints(8, 0)
	small, foreign := l.ints(1), l.make(gwCreateBuffer(l.other, 0, 64, nil))
	for name, c := range map[string][2]int32{
		"of nothing":      {gwSetContentSizeBuffer(0, size), clInvalidMemObject},
		"by no buffer":    {gwSetContentSizeBuffer(m, l.ctx), clInvalidMemObject},
		"another context": {gwSetContentSizeBuffer(m, foreign), clInvalidContext},
		"too small":       {gwSetContentSizeBuffer(m, small), clInvalidBufferSize},
		"itself":          {gwSetContentSizeBuffer(m, m), clInvalidValue},
	} {
		require.Equal(t, c[1], c[0], name)
	}
	require.Zero(t, gwSetContentSizeBuffer(m, size))
	require.Zero(t, gwEnqueueCopyBuffer(l.queues[1], m, dst, 0, 0, 16, 0, nil, nil))
	require.Equal(t, []int32{0, 0, 1, 1}, l.read(l.queues[2], dst, 4))
	require.Zero(t, gwSetContentSizeBuffer(m, 0))
	require.Zero(t, gwEnqueueCopyBuffer(l.queues[1], m, dst, 0, 0, 16, 0, nil, nil))
	require.Equal(t, []int32{0, 0, 0, 0}, l.read(l.queues[0], dst, 4))
}
