package runtime_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/null"
	"godwit/mem"
	"godwit/migration/oracle"
	"godwit/runtime"
	"godwit/svm"
)

// svmModel is plain bytes for each allocation, and the oracle for what has to
// move.
type svmModel struct {
	*svmHouse
	blocks [2][]byte
	p      [2]runtime.Pointer
	id     [2]mem.BufferID
	alias  [2]*runtime.Buffer // over the second half
	maps   []svmModelMap
	orc    *oracle.Oracle
	moved  uint64
}

type svmModelMap struct {
	block    int
	off, end uint64
	bytes    []byte
	flags    svm.MapFlags
}

const modelSize = 8192

func newSVMModel(t testing.TB) *svmModel {
	m := &svmModel{svmHouse: svmBuild(t)}
	m.orc = oracle.New(m.c.Topology(), 1)
	for i := range m.p {
		m.p[i] = m.alloc(modelSize, 0)
		m.blocks[i] = make([]byte, modelSize)
		bytes, err := m.c.SVMBytes(m.p[i]+modelSize/2, modelSize/2)
		require.NoError(t, err)
		m.alias[i], err = m.c.CreateBuffer(modelSize/2, runtime.UseHostPtr, bytes)
		require.NoError(t, err)
		m.id[i] = m.alias[i].ID()
		require.NoError(t, m.orc.Create(m.id[i], modelSize, mem.MemorySet{}))
		m.ends(m.q[own].EnqueueSVMFill(soon(t), m.p[i], []byte{0}, modelSize))
		m.expect(m.access(i, 0, modelSize, mem.Write, own+1))
	}
	return m
}

func (m *svmModel) access(block int, off, size uint64, mode mem.Mode, on int) mem.Access {
	return mem.Access{Buffer: m.id[block], Range: mem.Range{Start: off, End: off + size}, Mode: mode, Memory: mem.MemoryID(on)}
}

// expect replays a command in the oracle and compares the bytes moved.
func (m *svmModel) expect(accs ...mem.Access) {
	m.t.Helper()
	r, err := m.orc.Enqueue(accs)
	require.NoError(m.t, err)
	m.moved += r.Bytes
	require.Equal(m.t, m.moved, m.c.Stats().BytesMoved, "%+v", accs)
}

// mapped reports whether a use conflicts with a map.
func (m *svmModel) conflicts(block int, off, size uint64, writes bool) bool {
	for _, o := range m.maps {
		if o.block == block && o.off < off+size && off < o.end && (writes || o.flags.Writes()) {
			return true
		}
	}
	return false
}

// TestSVMAgainstPlainBytes runs random commands on random devices.
func TestSVMAgainstPlainBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newSVMModel(t)
		defer m.end()
		ctx := soon(t)
		span := func() (block int, off, size uint64) {
			block = rapid.IntRange(0, 1).Draw(rt, "block")
			off = rapid.Uint64Range(0, modelSize-1).Draw(rt, "off")
			return block, off, rapid.Uint64Range(1, modelSize-off).Draw(rt, "size")
		}
		queue := func() int { return rapid.IntRange(0, 2).Draw(rt, "queue") }
		// did settles a command that must be refused where it uses what is mapped.
		did := func(conflict bool, e runtime.Event, err error) bool {
			if conflict {
				require.ErrorIs(t, err, svm.ErrMapped)
				return false
			}
			m.ends(e, err)
			return true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"fill": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				v := rapid.Byte().Draw(rt, "value")
				e, err := m.q[q].EnqueueSVMFill(ctx, m.p[b]+runtime.Pointer(off), []byte{v}, size)
				if did(m.conflicts(b, off, size, true), e, err) {
					m.expect(m.access(b, off, size, mem.Write, q+1))
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
				e, err := m.q[q].EnqueueSVMMemcpy(ctx, m.p[to]+runtime.Pointer(at), m.p[from]+runtime.Pointer(off), size)
				if did(m.conflicts(from, off, size, false) || m.conflicts(to, at, size, true), e, err) {
					m.expect(m.access(from, off, size, mem.Read, q+1), m.access(to, at, size, mem.Write, q+1))
					copy(m.blocks[to][at:at+size], m.blocks[from][off:])
				}
			},
			"launch": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				e, err := m.q[q].EnqueueLaunch(ctx, runtime.Launch{Kernel: m.kernel["increment"], Global: []uint64{1},
					Args: []runtime.Arg{runtime.SVM(m.p[b]+runtime.Pointer(off)).Range(0, size)}})
				if did(m.conflicts(b, off, size, true), e, err) {
					m.expect(m.access(b, off, size, mem.ReadWrite, q+1))
					for i := off; i < off+size; i++ {
						m.blocks[b][i]++
					}
				}
			},
			"launch on the alias": func(*rapid.T) {
				q, b := queue(), rapid.IntRange(0, 1).Draw(rt, "block")
				e, err := m.q[q].EnqueueLaunch(ctx, runtime.Launch{Kernel: m.kernel["increment"], Global: []uint64{1}, Args: []runtime.Arg{runtime.Buf(m.alias[b])}})
				if did(m.conflicts(b, modelSize/2, modelSize/2, true), e, err) {
					m.expect(m.access(b, modelSize/2, modelSize/2, mem.ReadWrite, q+1))
					for i := modelSize / 2; i < modelSize; i++ {
						m.blocks[b][i]++
					}
				}
			},
			"read": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				got := make([]byte, size)
				e, err := m.q[q].EnqueueSVMRead(ctx, m.p[b]+runtime.Pointer(off), got)
				if did(m.conflicts(b, off, size, false), e, err) {
					m.expect(m.access(b, off, size, mem.Read, q+1))
					require.Equal(t, m.blocks[b][off:off+size], got)
				}
			},
			"map": func(*rapid.T) {
				q := queue()
				b, off, size := span()
				f := rapid.SampledFrom([]svm.MapFlags{svm.MapRead, svm.MapWrite, svm.MapRead | svm.MapWrite, svm.MapWriteInvalidate}).Draw(rt, "flags")
				bytes, e, err := m.q[q].EnqueueSVMMap(ctx, m.p[b]+runtime.Pointer(off), size, f)
				if !did(m.conflicts(b, off, size, f.Writes()), e, err) {
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
				m.expect(m.access(b, off, size, mode, 0))
				require.Equal(t, m.blocks[b][off:off+size], bytes)
				m.maps = append(m.maps, svmModelMap{b, off, off + size, bytes, f})
			},
			"unmap": func(*rapid.T) {
				if len(m.maps) == 0 {
					rt.Skip("nothing mapped")
				}
				m.unmapAny(queue(), rapid.IntRange(0, len(m.maps)-1).Draw(rt, "map"))
			},
		})
	})
}

// unmapAny writes to a map that permits it, unmaps it, and checks that the host
// has no rights to what no other map covers.
func (m *svmModel) unmapAny(q, i int) {
	o := m.maps[i]
	for k := range m.maps { // of several at one pointer the youngest goes
		if m.maps[k].block == o.block && m.maps[k].off == o.off {
			i = k
		}
	}
	o = m.maps[i]
	if o.flags.Writes() {
		o.bytes[0] ^= 0xff
		m.blocks[o.block][o.off] ^= 0xff
	}
	m.unmap(q, m.p[o.block]+runtime.Pointer(o.off))
	m.maps = append(m.maps[:i], m.maps[i+1:]...)
	if o.flags.Writes() {
		m.expect(m.access(o.block, o.off, o.end-o.off, mem.Write, 0))
	}
	if len(m.maps) == 0 {
		require.ErrorIs(m.t, m.c.SVMGuard(func() { sink = o.bytes[0] }), svm.ErrFault)
	}
}

// end frees all and closes the house of one run.
func (m *svmModel) end() {
	for len(m.maps) > 0 {
		m.unmapAny(own, 0)
	}
	for i, want := range m.blocks {
		got := make([]byte, modelSize)
		m.ends(m.q[sim].EnqueueSVMRead(soon(m.t), m.p[i], got))
		require.Equal(m.t, want, got)
		require.NoError(m.t, m.alias[i].Release())
		require.NoError(m.t, m.c.SVMFree(m.p[i]))
	}
	require.NoError(m.t, m.c.Check())
	require.NoError(m.t, m.c.Close(soon(m.t)))
	m.closed = true
}

// TestSVMArgumentsAllocateNothing counts the Go heap allocations of commands over
// shared virtual memory that were given before.
func TestSVMArgumentsAllocateNothing(t *testing.T) {
	devs := []devices.Device{null.New(devices.Config{Name: "a"}), null.New(devices.Config{Name: "b"})}
	c, err := runtime.NewContext(runtime.Options{Devices: devs, OwnDevices: true, SVMSize: 1 << 20})
	require.NoError(t, err)
	ctx := soon(t)
	prog, err := c.Build(ctx, three)
	require.NoError(t, err)
	k, err := prog.Kernel("three")
	require.NoError(t, err)
	var q [2]*runtime.Queue
	for i, d := range devs {
		q[i], err = c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
	}
	var p [3]runtime.Pointer
	for i := range p {
		p[i], err = c.SVMAlloc(4096, 0, 0)
		require.NoError(t, err)
	}
	buf, err := c.CreateBuffer(4096, 0, nil)
	require.NoError(t, err)
	sub, err := buf.Sub(128, 1024, 0)
	require.NoError(t, err)
	free := func(e runtime.Event, err error) {
		if err == nil {
			err = e.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pattern := []byte{1, 2, 3, 4}
	for name, f := range map[string]func(){
		"launch": func() {
			for i := range q { // to and fro: copies each time
				free(q[i].EnqueueLaunch(ctx, runtime.Launch{
					Kernel: k, Global: []uint64{64, 2}, Local: []uint64{8, 1},
					Args: []runtime.Arg{runtime.SVM(p[0] + 128), runtime.Buf(sub), runtime.SVMIn(p[1]).Range(8, 16)},
					SVM:  []runtime.Arg{runtime.SVM(p[2])},
				}))
			}
		},
		"fill":   func() { free(q[0].EnqueueSVMFill(ctx, p[0]+64, pattern, 64)) },
		"memcpy": func() { free(q[1].EnqueueSVMMemcpy(ctx, p[0], p[1]+1, 64)) },
	} {
		for range 100 {
			f()
		}
		require.Zero(t, testing.AllocsPerRun(200, f), name)
	}
	for _, b := range []*runtime.Buffer{buf, sub} {
		require.NoError(t, b.Release())
	}
	for i := range p {
		require.NoError(t, c.SVMFree(p[i]), fmt.Sprint(i))
	}
	require.NoError(t, c.Close(ctx))
}
