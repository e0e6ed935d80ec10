// Package svmmodel runs random histories of commands over shared virtual memory
// on any context and compares them with plain bytes: what each command reads,
// which are refused since the host has mapped what they use, what the host may
// touch, and the bytes that move with the oracle's lower bound.
package svmmodel

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/runtime"
	"godwit/svm"
)

// Rig is what a history runs on. The fields are immutable while it runs.
type Rig struct {
	Ctx     context.Context
	Context *runtime.Context
	Queues  []*runtime.Queue
	// Memory is the memory that commands of a queue use shared virtual memory in.
	Memory func(queue int) mem.MemoryID
	// Increment is Program's kernel of that name.
	Increment *runtime.Kernel
	First     int   // queue that writes the blocks first
	Last      []int // queues that read them in the end
}

// model is plain bytes for each allocation, and the oracle for what has to move.
type model struct {
	Rig
	rt     *rapid.T
	blocks [2][]byte
	p      [2]runtime.Pointer
	alias  [2]*runtime.Buffer // over the second half
	maps   []held
	orc    *oracle.Oracle
	moved  uint64
}

// held is a map that is not unmapped yet.
type held struct {
	block    int
	off, end uint64
	bytes    []byte
	flags    svm.MapFlags
}

const blockSize = 8192 // bytes

func begin(rt *rapid.T, r Rig) *model {
	m := &model{Rig: r, rt: rt, moved: r.Context.Stats().BytesMoved}
	m.orc = oracle.New(m.Context.Topology())
	for i := range m.p {
		var err error
		m.p[i], err = m.Context.SVMAllocNamed("cells", blockSize, 0, 0)
		require.NoError(rt, err)
		m.blocks[i] = make([]byte, blockSize)
		bytes, err := m.Context.SVMBytes(m.p[i]+blockSize/2, blockSize/2)
		require.NoError(rt, err)
		m.alias[i], err = m.Context.CreateBuffer(blockSize/2, runtime.UseHostPtr, bytes)
		require.NoError(rt, err)
		require.NoError(rt, m.orc.Create(m.alias[i].ID(), blockSize, mem.MemorySet{}))
		m.ends(m.Queues[m.First].EnqueueSVMFill(m.Ctx, m.p[i], []byte{0}, blockSize))
		m.expect(m.access(i, 0, blockSize, mem.Write, m.First))
	}
	return m
}

func (m *model) access(block int, off, size uint64, mode mem.Mode, q int) mem.Access {
	return mem.Access{Buffer: m.alias[block].ID(), Range: mem.Range{Start: off, End: off + size}, Mode: mode, Memory: m.Memory(q)}
}

// ends waits for a command that must succeed.
func (m *model) ends(e runtime.Event, err error) {
	require.NoError(m.rt, err)
	require.NoError(m.rt, e.Wait(m.Ctx))
	require.NoError(m.rt, e.Release())
	require.NoError(m.rt, m.Context.Check())
}

// expect replays a command in the oracle and compares the bytes moved.
func (m *model) expect(accs ...mem.Access) {
	r, err := m.orc.Enqueue(accs)
	require.NoError(m.rt, err)
	m.moved += r.Bytes
	require.Equal(m.rt, m.moved, m.Context.Stats().BytesMoved, "%+v", accs)
}

// conflicts reports whether a use conflicts with a map.
func (m *model) conflicts(block int, off, size uint64, writes bool) bool {
	return slices.ContainsFunc(m.maps, func(o held) bool {
		return o.block == block && o.off < off+size && off < o.end && (writes || o.flags.Writes())
	})
}

// did settles a command that must be refused where it uses what is mapped.
func (m *model) did(conflict bool, e runtime.Event, err error) bool {
	if conflict {
		require.ErrorIs(m.rt, err, svm.ErrMapped)
		return false
	}
	m.ends(e, err)
	return true
}

// Run runs a random history of commands over pointers, and over buffers made of
// them, on two blocks, which it frees in the end.
func Run(rt *rapid.T, rig Rig) {
	m := begin(rt, rig)
	defer m.end()
	span := func() (block int, off, size uint64) {
		block = rapid.IntRange(0, 1).Draw(rt, "block")
		off = rapid.Uint64Range(0, blockSize-1).Draw(rt, "off")
		return block, off, rapid.Uint64Range(1, blockSize-off).Draw(rt, "size")
	}
	queue := func() int { return rapid.IntRange(0, len(m.Queues)-1).Draw(rt, "queue") }
	rt.Repeat(map[string]func(*rapid.T){
		"fill": func(*rapid.T) {
			q := queue()
			b, off, size := span()
			v := rapid.Byte().Draw(rt, "value")
			e, err := m.Queues[q].EnqueueSVMFill(m.Ctx, m.p[b]+runtime.Pointer(off), []byte{v}, size)
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
			at := rapid.Uint64Range(0, blockSize-size).Draw(rt, "at")
			e, err := m.Queues[q].EnqueueSVMMemcpy(m.Ctx, m.p[to]+runtime.Pointer(at), m.p[from]+runtime.Pointer(off), size)
			if m.did(m.conflicts(from, off, size, false) || m.conflicts(to, at, size, true), e, err) {
				m.expect(m.access(from, off, size, mem.Read, q), m.access(to, at, size, mem.Write, q))
				copy(m.blocks[to][at:at+size], m.blocks[from][off:])
			}
		},
		"launch": func(*rapid.T) {
			q := queue()
			b, off, size := span()
			e, err := m.Queues[q].EnqueueLaunch(m.Ctx, Increment(m.Increment, runtime.SVM(m.p[b]+runtime.Pointer(off)).Range(0, size), size))
			if m.did(m.conflicts(b, off, size, true), e, err) {
				m.incremented(b, off, size, q)
			}
		},
		"launch on the alias": func(*rapid.T) {
			q, b := queue(), rapid.IntRange(0, 1).Draw(rt, "block")
			e, err := m.Queues[q].EnqueueLaunch(m.Ctx, Increment(m.Increment, runtime.Buf(m.alias[b]), blockSize/2))
			if m.did(m.conflicts(b, blockSize/2, blockSize/2, true), e, err) {
				m.incremented(b, blockSize/2, blockSize/2, q)
			}
		},
		"read": func(*rapid.T) {
			q := queue()
			b, off, size := span()
			got := make([]byte, size)
			e, err := m.Queues[q].EnqueueSVMRead(m.Ctx, m.p[b]+runtime.Pointer(off), got)
			if m.did(m.conflicts(b, off, size, false), e, err) {
				m.expect(m.access(b, off, size, mem.Read, q))
				require.Equal(rt, m.blocks[b][off:off+size], got)
			}
		},
		"write the alias": func(*rapid.T) {
			q := queue()
			b, off, size := span()
			off, size = off/2, (size+1)/2
			data := rapid.SliceOfN(rapid.Byte(), int(size), int(size)).Draw(rt, "data")
			e, err := m.Queues[q].EnqueueWrite(m.Ctx, m.alias[b], off, data)
			if m.did(m.conflicts(b, off+blockSize/2, size, true), e, err) {
				m.expect(m.access(b, off+blockSize/2, size, mem.Write, q))
				copy(m.blocks[b][off+blockSize/2:], data)
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
}

func (m *model) incremented(b int, off, size uint64, q int) {
	m.expect(m.access(b, off, size, mem.ReadWrite, q))
	for i := off; i < off+size; i++ {
		m.blocks[b][i]++
	}
}

func (m *model) mapIt(q, b int, off, size uint64, f svm.MapFlags) {
	bytes, e, err := m.Queues[q].EnqueueSVMMap(m.Ctx, m.p[b]+runtime.Pointer(off), size, f)
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
	require.Equal(m.rt, m.blocks[b][off:off+size], bytes)
	m.maps = append(m.maps, held{b, off, off + size, bytes, f})
}

// unmapIt writes to a map that permits it, unmaps it, and checks that the host
// has no rights where nothing is mapped.
func (m *model) unmapIt(q, i int) {
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
	m.ends(m.Queues[q].EnqueueSVMUnmap(m.Ctx, m.p[o.block]+runtime.Pointer(o.off)))
	m.maps = slices.Delete(m.maps, i, i+1)
	if o.flags.Writes() {
		a := m.access(o.block, o.off, o.end-o.off, mem.Write, q)
		a.Memory = mem.Host
		m.expect(a)
	}
	if len(m.maps) == 0 {
		var got byte
		err := m.Context.SVMGuard(func() { got = o.bytes[0] })
		require.ErrorIs(m.rt, err, svm.ErrFault, "read %d", got)
	}
}

// end compares all content on the last queues and frees it.
func (m *model) end() {
	if m.rt.Failed() {
		m.drop()
		return
	}
	for len(m.maps) > 0 {
		m.unmapIt(0, 0)
	}
	for i, want := range m.blocks {
		for _, q := range m.Last {
			got := make([]byte, blockSize)
			m.ends(m.Queues[q].EnqueueSVMRead(m.Ctx, m.p[i], got))
			require.Equal(m.rt, want, got)
		}
		require.NoError(m.rt, m.alias[i].Release())
		require.NoError(m.rt, m.Context.SVMFree(m.p[i]))
	}
}

// drop frees what it can after a failure, so that the next, smaller history finds
// the context as this one did.
func (m *model) drop() {
	for _, o := range m.maps {
		_, _ = m.Queues[m.First].EnqueueSVMUnmap(m.Ctx, m.p[o.block]+runtime.Pointer(o.off))
	}
	for i, p := range m.p {
		_ = m.alias[i].Release()
		_ = m.Context.SVMFree(p)
	}
}
