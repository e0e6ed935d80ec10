package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/oracle"
	"godwit/mem"
	"godwit/runtime"
)

// contentModel is plain bytes beside buffers that count: what a read must give
// is what was written, as far as the count reached when it was enqueued.
type contentModel struct {
	*house
	data  [2]*modelBuffer
	sizes [2]*modelBuffer
	orc   *oracle.Oracle
	bound uint64
	gates []runtime.Event
	reads []modelRead
}

type modelBuffer struct {
	b     *runtime.Buffer
	bytes []byte
	known []bool       // written, and not from bytes that did not count
	size  *modelBuffer // nil where all of it counts
	count uint64       // of a size buffer
	set   bool         // of a size buffer: written
}

// modelRead is a read that may not have ended.
type modelRead struct {
	e         runtime.Event
	got, want []byte
	known     []bool
}

const contentSize = 4096

func newContentModel(t testing.TB, o runtime.Options) *contentModel {
	m := &contentModel{house: build(t, o, runtime.QueueOptions{OutOfOrder: true})}
	m.orc = oracle.New(m.c.Topology())
	add := func(size uint64) *modelBuffer {
		b := &modelBuffer{b: m.buffer(size, nil), bytes: make([]byte, size), known: make([]bool, size)}
		require.NoError(t, m.orc.Create(b.b.ID(), size, mem.MemorySet{}))
		return b
	}
	for i := range m.data {
		m.data[i], m.sizes[i] = add(contentSize), add(uint64(8+56*i))
	}
	return m
}

// limit is how many bytes of b count now.
func (b *modelBuffer) limit() uint64 {
	if b.size == nil || !b.size.set {
		return contentSize
	}
	return min(b.size.count, contentSize)
}

// valid lists which of the bytes of r have a value to whoever reads them now.
func (b *modelBuffer) valid(off, n uint64) []bool {
	out := append([]bool{}, b.known[off:off+n]...)
	for i := range out {
		out[i] = out[i] && off+uint64(i) < b.limit()
	}
	return out
}

// enqueued replays a command in the oracle.
func (m *contentModel) enqueued(accs ...mem.Access) {
	r, err := m.orc.Enqueue(accs)
	require.NoError(m.t, err)
	m.bound += r.Bytes
	for _, s := range m.sizes {
		m.orc.SetCount(s.b.ID(), s.count)
	}
}

func (m *contentModel) use(b *modelBuffer, q int, mode mem.Mode, off, n uint64) mem.Access {
	return mem.Access{Buffer: b.b.ID(), Range: mem.Range{Start: off, End: off + n}, Mode: mode, Memory: mem.MemoryID(q + 1)}
}

// settle ends everything and looks at all that was read.
func (m *contentModel) settle() {
	for _, g := range m.gates {
		require.NoError(m.t, g.SetStatus(runtime.Complete))
		require.NoError(m.t, g.Release())
	}
	m.gates = nil
	for _, q := range m.q {
		require.NoError(m.t, q.Finish(soon(m.t)))
	}
	for _, r := range m.reads {
		require.NoError(m.t, r.e.Wait(soon(m.t)))
		require.NoError(m.t, r.e.Release())
		for i, known := range r.known {
			if known && r.got[i] != r.want[i] {
				m.t.Fatalf("byte %d of a read is %d, not %d", i, r.got[i], r.want[i])
			}
		}
	}
	m.reads = nil
	require.Equal(m.t, m.bound, m.c.Stats().BytesMoved, "bytes moved, and the lower bound")
	require.NoError(m.t, m.c.Check())
}

func (m *contentModel) actions(t *testing.T, rt *rapid.T) map[string]func(*rapid.T) {
	ctx := soon(t)
	queue := func() int { return rapid.IntRange(0, len(m.q)-1).Draw(rt, "queue") }
	span := func() (b *modelBuffer, off, n uint64) {
		off = rapid.Uint64Range(0, contentSize-1).Draw(rt, "off")
		return m.data[rapid.IntRange(0, 1).Draw(rt, "buffer")], off, rapid.Uint64Range(1, contentSize-off).Draw(rt, "size")
	}
	wait := func() []runtime.Event {
		if len(m.gates) == 0 || rapid.Bool().Draw(rt, "free") {
			return nil
		}
		return m.gates[len(m.gates)-1:]
	}
	drop := func(e runtime.Event, err error) {
		require.NoError(t, err)
		require.NoError(t, e.Release())
	}
	return map[string]func(*rapid.T){
		"fill": func(*rapid.T) {
			q, v := queue(), rapid.Byte().Draw(rt, "value")
			b, off, n := span()
			drop(m.q[q].EnqueueFill(ctx, b.b, []byte{v}, off, n, wait()...))
			for i := off; i < off+n; i++ {
				b.bytes[i], b.known[i] = v, true
			}
			m.enqueued(m.use(b, q, mem.Write, off, n))
		},
		"copy": func(*rapid.T) {
			q := queue()
			b, off, n := span()
			to := m.data[0]
			if to == b {
				to = m.data[1]
			}
			drop(m.q[q].EnqueueCopy(ctx, b.b, to.b, off, off, n, wait()...))
			copy(to.known[off:], b.valid(off, n))
			copy(to.bytes[off:off+n], b.bytes[off:])
			m.enqueued(m.use(b, q, mem.Read, off, n), m.use(to, q, mem.Write, off, n))
		},
		"read": func(*rapid.T) {
			q := queue()
			b, off, n := span()
			r := modelRead{got: make([]byte, n), want: append([]byte{}, b.bytes[off:off+n]...), known: b.valid(off, n)}
			var err error
			r.e, err = m.q[q].EnqueueRead(ctx, b.b, off, r.got, wait()...)
			require.NoError(t, err)
			m.reads = append(m.reads, r)
			m.enqueued(m.use(b, q, mem.Read, off, n))
		},
		"count": func(*rapid.T) {
			q := queue()
			s := m.sizes[rapid.IntRange(0, 1).Draw(rt, "size buffer")]
			s.count, s.set = rapid.Uint64Range(0, contentSize+100).Draw(rt, "count"), true
			drop(m.q[q].EnqueueWrite(ctx, s.b, 0, count(s.count), wait()...))
			m.enqueued(m.use(s, q, mem.Write, 0, 8))
		},
		"by": func(*rapid.T) {
			b, by := m.data[rapid.IntRange(0, 1).Draw(rt, "buffer")], rapid.IntRange(0, 2).Draw(rt, "by")
			b.size = nil
			var size *runtime.Buffer
			var id mem.BufferID
			if by < 2 {
				b.size = m.sizes[by]
				size, id = b.size.b, b.size.b.ID()
			}
			require.NoError(t, b.b.SetContentSizeBuffer(size))
			require.NoError(t, m.orc.SetContentSize(b.b.ID(), id))
		},
		"gate": func(*rapid.T) {
			g, err := m.c.NewUserEvent()
			require.NoError(t, err)
			m.gates = append(m.gates, g)
		},
		"settle": func(*rapid.T) { m.settle() },
	}
}

// TestContentSizeAgainstPlainBytes runs random commands, some of them held back,
// on devices of several kinds.
func TestContentSizeAgainstPlainBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var o runtime.Options
		switch rapid.IntRange(0, 2).Draw(rt, "devices") {
		case 0:
			o.Devices = memories(3)
		case 1:
			o.Devices, o.NoPeer = memories(2), true
		default:
			o.Devices = mixed(t)
		}
		m := newContentModel(t, o)
		m.closed = true
		rt.Repeat(m.actions(t, rt))
		m.settle()
		for _, b := range append(m.data[:], m.sizes[:]...) {
			require.NoError(t, b.b.Release())
		}
		require.NoError(t, m.c.Close(soon(t)))
	})
}
