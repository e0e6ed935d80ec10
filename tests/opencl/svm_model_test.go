//go:build cgo

package opencl_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/mem"
	"godwit/migration/oracle"
	"godwit/runtime"
	"godwit/svm"
)

// svmModel is plain bytes for each allocation, and the oracle for what has to
// move: OpenCL devices use the host's memory, the simulated ones their own.
type svmModel struct {
	*svmHouse
	blocks [2][]byte
	p      [2]runtime.Pointer
	alias  [2]*runtime.Buffer // over the second half
	maps   []svmMap
	orc    *oracle.Oracle
	moved  uint64
}

type svmMap struct {
	block    int
	off, end uint64
	bytes    []byte
	flags    svm.MapFlags
}

const modelSize = 8192

func newSVMModel(h *svmHouse) *svmModel {
	t, m := h.t, &svmModel{svmHouse: h, moved: h.c.Stats().BytesMoved}
	m.orc = oracle.New(m.c.Topology(), 1)
	for i := range m.p {
		m.p[i] = m.alloc(modelSize, 0)
		m.blocks[i] = make([]byte, modelSize)
		bytes, err := m.c.SVMBytes(m.p[i]+modelSize/2, modelSize/2)
		require.NoError(t, err)
		m.alias[i], err = m.c.CreateBuffer(modelSize/2, runtime.UseHostPtr, bytes)
		require.NoError(t, err)
		require.NoError(t, m.orc.Create(m.alias[i].ID(), modelSize, mem.MemorySet{}))
		m.ends(m.q[simTCE].EnqueueSVMFill(m.ctx, m.p[i], []byte{0}, modelSize))
		m.expect(m.access(i, 0, modelSize, mem.Write, simTCE))
	}
	return m
}

func (m *svmModel) access(block int, off, size uint64, mode mem.Mode, q int) mem.Access {
	on := mem.Host
	if q == simCPU || q == simTCE {
		on = m.q[q].Memory()
	}
	return mem.Access{Buffer: m.alias[block].ID(), Range: mem.Range{Start: off, End: off + size}, Mode: mode, Memory: on}
}

// expect replays a command in the oracle and compares the bytes moved.
func (m *svmModel) expect(accs ...mem.Access) {
	m.t.Helper()
	r, err := m.orc.Enqueue(accs)
	require.NoError(m.t, err)
	m.moved += r.Bytes
	require.Equal(m.t, m.moved, m.c.Stats().BytesMoved, "%+v", accs)
}

func (m *svmModel) conflicts(block int, off, size uint64, writes bool) bool {
	return slices.ContainsFunc(m.maps, func(o svmMap) bool {
		return o.block == block && o.off < off+size && off < o.end && (writes || o.flags.Writes())
	})
}

// did settles a command that must be refused where it uses what is mapped.
func (m *svmModel) did(conflict bool, e runtime.Event, err error) bool {
	m.t.Helper()
	if conflict {
		require.ErrorIs(m.t, err, svm.ErrMapped)
		return false
	}
	m.ends(e, err)
	return true
}

// TestSVMOnOpenCLAgainstPlainBytes runs random commands over pointers, and over
// buffers made of them, on two OpenCL devices and two simulated ones.
func TestSVMOnOpenCLAgainstPlainBytes(t *testing.T) {
	need(t)
	h := openSVM(t, house("off", true))
	defer h.close()
	rapid.Check(t, func(rt *rapid.T) {
		m := newSVMModel(h)
		defer m.end()
		span := func() (block int, off, size uint64) {
			block = rapid.IntRange(0, 1).Draw(rt, "block")
			off = rapid.Uint64Range(0, modelSize-1).Draw(rt, "off")
			return block, off, rapid.Uint64Range(1, modelSize-off).Draw(rt, "size")
		}
		queue := func() int { return rapid.IntRange(0, 3).Draw(rt, "queue") }
		rt.Repeat(map[string]func(*rapid.T){
			"fill": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				v := rapid.Byte().Draw(rt, "value")
				e, err := m.q[q].EnqueueSVMFill(m.ctx, m.p[b]+runtime.Pointer(off), []byte{v}, size)
				if m.did(m.conflicts(b, off, size, true), e, err) {
					m.expect(m.access(b, off, size, mem.Write, q))
					for i := off; i < off+size; i++ {
						m.blocks[b][i] = v
					}
				}
			},
			"memcpy": func(*rapid.T) {
				q := queue()
				from, off, size := span()
				to := 1 - from
				at := rapid.Uint64Range(0, modelSize-size).Draw(rt, "at")
				e, err := m.q[q].EnqueueSVMMemcpy(m.ctx, m.p[to]+runtime.Pointer(at), m.p[from]+runtime.Pointer(off), size)
				if m.did(m.conflicts(from, off, size, false) || m.conflicts(to, at, size, true), e, err) {
					m.expect(m.access(from, off, size, mem.Read, q), m.access(to, at, size, mem.Write, q))
					copy(m.blocks[to][at:at+size], m.blocks[from][off:])
				}
			},
			"launch": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				e, err := m.increment(q, m.p[b]+runtime.Pointer(off), size)
				if m.did(m.conflicts(b, off, size, true), e, err) {
					m.incremented(b, off, size, q)
				}
			},
			"launch on the alias": func(*rapid.T) {
				q, b := queue(), rapid.IntRange(0, 1).Draw(rt, "block")
				e, err := m.q[q].EnqueueLaunch(m.ctx, runtime.Launch{Kernel: m.inc, Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(m.alias[b]), runtime.Uint64(modelSize / 2)}})
				if m.did(m.conflicts(b, modelSize/2, modelSize/2, true), e, err) {
					m.incremented(b, modelSize/2, modelSize/2, q)
				}
			},
			"read": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				got := make([]byte, size)
				e, err := m.q[q].EnqueueSVMRead(m.ctx, m.p[b]+runtime.Pointer(off), got)
				if m.did(m.conflicts(b, off, size, false), e, err) {
					m.expect(m.access(b, off, size, mem.Read, q))
					require.Equal(t, m.blocks[b][off:off+size], got)
				}
			},
			"write the alias": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				off, size = off/2, (size+1)/2
				data := rapid.SliceOfN(rapid.Byte(), int(size), int(size)).Draw(rt, "data")
				e, err := m.q[q].EnqueueWrite(m.ctx, m.alias[b], off, data)
				if m.did(m.conflicts(b, off+modelSize/2, size, true), e, err) {
					m.expect(m.access(b, off+modelSize/2, size, mem.Write, q))
					copy(m.blocks[b][off+modelSize/2:], data)
				}
			},
			"map": func(*rapid.T) {
				b, off, size := span()
				m.mapIt(queue(), b, off, size, rapid.SampledFrom([]svm.MapFlags{svm.MapRead, svm.MapWrite, svm.MapRead | svm.MapWrite, svm.MapWriteInvalidate}).Draw(rt, "flags"))
			},
			"unmap": func(*rapid.T) {
				if len(m.maps) == 0 {
					rt.Skip("nothing mapped")
				}
				m.unmapIt(queue(), rapid.IntRange(0, len(m.maps)-1).Draw(rt, "map"))
			},
		})
	})
}

func (m *svmModel) incremented(b int, off, size uint64, q int) {
	m.expect(m.access(b, off, size, mem.ReadWrite, q))
	for i := off; i < off+size; i++ {
		m.blocks[b][i]++
	}
}

func (m *svmModel) mapIt(q, b int, off, size uint64, f svm.MapFlags) {
	bytes, e, err := m.q[q].EnqueueSVMMap(m.ctx, m.p[b]+runtime.Pointer(off), size, f)
	if !m.did(m.conflicts(b, off, size, f.Writes()), e, err) {
		return
	}
	mode := mem.Read
	switch {
	case f == svm.MapWriteInvalidate:
		mode = mem.Write
		for i := range bytes { // the promise
			bytes[i] = byte(i)
		}
		copy(m.blocks[b][off:], bytes)
	case f.Writes():
		mode = mem.ReadWrite
	}
	a := m.access(b, off, size, mode, q)
	a.Memory = mem.Host
	m.expect(a)
	require.Equal(m.t, m.blocks[b][off:off+size], bytes)
	m.maps = append(m.maps, svmMap{b, off, off + size, bytes, f})
}

// unmapIt writes to a map that permits it, unmaps it, and checks that the host
// has no rights where nothing is mapped.
func (m *svmModel) unmapIt(q, i int) {
	for k := range m.maps { // of several at one pointer the youngest goes
		if m.maps[k].block == m.maps[i].block && m.maps[k].off == m.maps[i].off {
			i = k
		}
	}
	o := m.maps[i]
	if o.flags.Writes() {
		o.bytes[0] ^= 0xff
		m.blocks[o.block][o.off] ^= 0xff
	}
	m.unmap(q, m.p[o.block]+runtime.Pointer(o.off))
	m.maps = slices.Delete(m.maps, i, i+1)
	if o.flags.Writes() {
		a := m.access(o.block, o.off, o.end-o.off, mem.Write, q)
		a.Memory = mem.Host
		m.expect(a)
	}
	if len(m.maps) == 0 {
		require.ErrorIs(m.t, m.c.SVMGuard(func() { sink = o.bytes[0] }), svm.ErrFault)
	}
}

// sink keeps loads from being optimised away.
var sink byte

// end compares all content on a simulated device and an OpenCL one, and frees it.
func (m *svmModel) end() {
	for len(m.maps) > 0 {
		m.unmapIt(first, 0)
	}
	for i, want := range m.blocks {
		for _, q := range []int{simTCE, second} {
			got := make([]byte, modelSize)
			m.ends(m.q[q].EnqueueSVMRead(m.ctx, m.p[i], got))
			require.Equal(m.t, want, got)
		}
		require.NoError(m.t, m.alias[i].Release())
		require.NoError(m.t, m.c.SVMFree(m.p[i]))
	}
}
