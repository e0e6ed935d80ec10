package runtime_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/cpu"
	"godwit/devices/devicetest"
	"godwit/devices/work"
	"godwit/lib/kernels"
	"godwit/mem"
	"godwit/runtime"
)

// marks is a kernel that stores a value, or faults where that is 255; its buffer is declared as read, too.
var marks = &devices.Program{Name: "marks", Go: []devices.GoKernel{{
	Name: "mark",
	Args: []devices.ArgInfo{{Name: "dst", Kind: devices.ArgBuffer, Access: mem.ReadWrite}, {Name: "v", Kind: devices.ArgValue, Size: 4}},
	Func: func(g *work.Group) {
		dst, v := work.Global[uint8](g, 0), work.Value[uint32](g, 1)
		g.Items(func(it work.Item) {
			if v == 255 {
				dst.Store(math.MaxInt32, 0)
			}
			dst.Store(it.Global(0), uint8(v))
		})
	},
}}}

// marker is a house of cpu devices with base alignments, and the kernel of marks.
func marker(t *testing.T, aligns ...uint64) (*house, func(b *runtime.Buffer, v uint32) runtime.Launch) {
	t.Helper()
	var devs []devices.Device
	for _, align := range aligns {
		devs = append(devs, must(cpu.New(cpu.Options{BaseAlign: align})))
	}
	h := build(t, runtime.Options{Devices: devs, WholeBelow: 1}, runtime.QueueOptions{})
	k := must(must(h.c.Build(soon(t), marks)).Kernel("mark"))
	return h, func(b *runtime.Buffer, v uint32) runtime.Launch {
		return runtime.Launch{Kernel: k, Global: []uint64{b.Size()}, Args: []runtime.Arg{runtime.Buf(b), runtime.Uint32(v)}}
	}
}

// replayed replays a graph and waits for its end.
func replayed(t *testing.T, h *house, g *runtime.Graph, in runtime.Bindings, wait ...runtime.Event) error {
	t.Helper()
	e, err := g.Replay(soon(t), h.q[0], in, wait...)
	if err != nil {
		return err
	}
	return errors.Join(e.Wait(soon(t)), e.Release())
}

// first reads the first byte of a buffer.
func first(t *testing.T, h *house, b *runtime.Buffer) byte {
	t.Helper()
	got := make([]byte, 1)
	require.NoError(t, h.q[0].Read(soon(t), b, 0, got))
	return got[0]
}

// A value of one replay is of none after it, whatever the replays between are: on the plain route, or refused.
func TestAValueIsOfOneReplayThoughThePlainRouteComesBetween(t *testing.T) {
	h, mark := marker(t, 128)
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	rec := must(h.c.Record(h.q[0]))
	a, b := must(rec.Slot("a", 64, 0)), must(rec.Slot("b", 64, 0))
	e := must(h.q[0].EnqueueLaunch(soon(t), mark(a, 1)))
	_ = must(h.q[0].EnqueueCopy(soon(t), a, b, 0, 32, 32))
	v := must(rec.Value(e, 1))
	g := must(rec.Finish(soon(t)))
	apart := []runtime.Binding{{Slot: a, Buffer: x}, {Slot: b, Buffer: y}}
	one := []runtime.Binding{{Slot: a, Buffer: x}, {Slot: b, Buffer: x}}
	require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: apart, Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint32(5)}}}))
	require.EqualValues(t, 5, first(t, h, y)+first(t, h, x))
	require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: one}))
	require.EqualValues(t, 1, g.Figures().Plain)
	require.EqualValues(t, 1, first(t, h, x))
	require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: apart}))
	require.EqualValues(t, 1, first(t, h, x), "the value is what was recorded")
}

// Each replay reads into memory of its own, and writes from it, though they run at once and take either route; without any it uses what was recorded.
func TestReplaysUseHostMemoryOfTheirOwn(t *testing.T) {
	h, _ := graphHouse(t)
	ctx, q := soon(t), h.q[0]
	x, y := h.buffer(256, make([]byte, 256)), h.buffer(128, make([]byte, 128))
	left, right := must(x.Sub(0, 128, 0)), must(x.Sub(128, 128, 0))
	rec := must(h.c.Record(h.q...))
	a, b := must(rec.Slot("a", 128, 0)), must(rec.Slot("b", 128, 0))
	recorded, got := bytes.Repeat([]byte{99}, 128), make([]byte, 256)
	row := runtime.Box{Row: 128}
	write := must(q.EnqueueWrite(ctx, a, 0, recorded))
	copied := must(h.q[1].EnqueueCopy(ctx, a, b, 0, 0, 128, write))
	read := must(h.q[1].EnqueueRead(ctx, b, 0, got[:128], copied))
	rows := must(h.q[1].EnqueueReadRect(ctx, b, row, got[128:], row, [3]uint64{128, 1, 1}, copied))
	into, from, intoRows := must(rec.HostMemory(read)), must(rec.HostMemory(write)), must(rec.HostMemory(rows))
	_, err := rec.HostMemory(copied)
	require.ErrorIs(t, err, mem.ErrInvalidOperation)
	require.ErrorContains(t, err, "uses no memory of the program's")
	g := must(rec.Finish(ctx))
	_, err = rec.HostMemory(read)
	require.ErrorIs(t, err, mem.ErrInvalidOperation, "the recording is over")
	require.NoError(t, errors.Join(write.Release(), copied.Release(), read.Release(), rows.Release()))

	apart := []runtime.Binding{{Slot: a, Buffer: left}, {Slot: b, Buffer: y}}
	one := []runtime.Binding{{Slot: a, Buffer: left}, {Slot: b, Buffer: right}}
	var wants, all [][]byte
	for i := range 8 {
		in := runtime.Bindings{Slots: apart}
		if i%4 == 3 {
			in.Slots = one // the plain route
		}
		want, mine := bytes.Repeat([]byte{byte(i)}, 128), make([]byte, 256)
		in.Memory = []runtime.NewMemory{{Memory: from, Bytes: want}, {Memory: into, Bytes: mine[:128]}, {Memory: intoRows, Bytes: mine[128:]}}
		h.ok(g.Replay(ctx, q, in))
		wants, all = append(wants, want, want), append(all, mine[:128], mine[128:])
	}
	require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: apart}))
	require.Equal(t, wants, all)
	require.Equal(t, append(recorded, recorded...), got)
	require.EqualValues(t, 2, g.Figures().Plain)
	for name, m := range map[string]runtime.NewMemory{"127 bytes, in place of 128": {Memory: from, Bytes: recorded[:127]}, "another recording": {Bytes: recorded}} {
		_, err := g.Replay(ctx, q, runtime.Bindings{Slots: apart, Memory: []runtime.NewMemory{m}})
		require.ErrorIs(t, err, mem.ErrInvalidValue)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, errors.Join(left.Release(), right.Release()))
}

// What a replay gets is held to the rules of an enqueue.
func TestAReplayIsHeldToTheRulesOfEnqueues(t *testing.T) {
	h, mark := marker(t, 128, 1024)
	q := h.q[1]
	rec := must(h.c.Record(q))
	s := must(rec.Slot("s", 64, 0))
	_ = must(q.EnqueueLaunch(soon(t), mark(s, 3)))
	_ = must(q.EnqueueWrite(soon(t), s, 0, make([]byte, 8)))
	g := must(rec.Finish(soon(t)))

	at := func(b *runtime.Buffer) runtime.Bindings {
		return runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: b}}}
	}
	whole := h.buffer(4096, make([]byte, 4096))
	var all []*runtime.Buffer
	keep := func(b *runtime.Buffer) *runtime.Buffer { all = append(all, b); return b }
	require.NoError(t, replayed(t, h, g, at(keep(must(whole.Sub(1024, 64, 0))))))
	require.ErrorIs(t, replayed(t, h, g, at(keep(must(whole.Sub(128, 64, 0))))), mem.ErrMisaligned)
	require.ErrorIs(t, replayed(t, h, g, at(keep(h.create(64, runtime.HostReadOnly, nil)))), mem.ErrInvalidOperation, "the host may not write it")
	require.ErrorIs(t, replayed(t, h, g, at(keep(h.create(64, runtime.HostNoAccess, nil)))), mem.ErrInvalidOperation)
	require.ErrorIs(t, replayed(t, h, g, at(keep(h.create(64, runtime.ReadOnly, nil)))), mem.ErrInvalidValue)

	other := must(h.c.Record(q))
	require.ErrorIs(t, replayed(t, h, g, at(h.buffer(64, nil))), mem.ErrInvalidOperation, "its queue records")
	require.NoError(t, other.Discard())
	require.NoError(t, replayed(t, h, g, at(h.buffer(64, nil))))
	require.NoError(t, g.Close())
	require.ErrorIs(t, replayed(t, h, g, at(h.buffer(64, nil))), mem.ErrClosed)
	for _, b := range all {
		require.NoError(t, b.Release())
	}
}

// Placeholders of a size that nothing has are refused as buffers are.
func TestABufferInASlotPermitsWhatTheHostDoes(t *testing.T) {
	h, _ := marker(t, 128, 64)
	q, data := h.q[1], make([]byte, 8)
	for _, c := range []struct {
		name    string
		enqueue func(s *runtime.Buffer) (runtime.Event, error)
		refuses runtime.Flags
	}{
		{"read", func(s *runtime.Buffer) (runtime.Event, error) { return q.EnqueueRead(soon(t), s, 0, data) }, runtime.HostWriteOnly},
		{"write", func(s *runtime.Buffer) (runtime.Event, error) { return q.EnqueueWrite(soon(t), s, 0, data) }, runtime.HostReadOnly},
		{"read of a rectangle", func(s *runtime.Buffer) (runtime.Event, error) {
			return q.EnqueueReadRect(soon(t), s, runtime.Box{}, data, runtime.Box{}, [3]uint64{8, 1, 1})
		}, runtime.HostWriteOnly},
		{"write of a rectangle", func(s *runtime.Buffer) (runtime.Event, error) {
			return q.EnqueueWriteRect(soon(t), s, runtime.Box{}, data, runtime.Box{}, [3]uint64{8, 1, 1})
		}, runtime.HostReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := must(h.c.Record(q))
			s := must(rec.Slot("s", 64, 0))
			_ = must(c.enqueue(s))
			g := must(rec.Finish(soon(t)))
			for _, flags := range []runtime.Flags{runtime.HostReadOnly, runtime.HostWriteOnly} {
				b := must(h.c.CreateBuffer(64, flags, nil))
				err := replayed(t, h, g, runtime.Bindings{Slots: []runtime.Binding{{Slot: s, Buffer: b}}})
				if flags == c.refuses {
					require.ErrorIs(t, err, mem.ErrInvalidOperation)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, b.Release())
			}
			require.NoError(t, g.Close())
		})
	}
}

func TestPlaceholdersAreAsLargeAsBuffers(t *testing.T) {
	h, _ := marker(t, 128)
	rec := must(h.c.Record(h.q[0]))
	for _, size := range []uint64{0, 1 << 63, math.MaxUint64, math.MaxUint64 - 127} {
		_, err := rec.Slot("s", size, 0)
		require.ErrorIs(t, err, mem.ErrInvalidSize, "%#x", size)
		_, err = rec.Transient("t", size)
		require.ErrorIs(t, err, mem.ErrInvalidSize, "%#x", size)
	}
	require.NoError(t, rec.Discard())
}

// Two transients of all that 63 bits count are more than that together.
func TestTransientsThatTogetherAreTooLarge(t *testing.T) {
	h, _ := marker(t, 128)
	rec := must(h.c.Record(h.q[0]))
	var ts []*runtime.Buffer
	for range 3 {
		ts = append(ts, must(rec.Transient("t", math.MaxInt64-4096)))
	}
	for range 2 {
		for _, b := range ts {
			_ = must(h.q[0].EnqueueFill(soon(t), b, []byte{1}, 0, 64))
		}
	}
	_, err := rec.Finish(soon(t))
	require.ErrorIs(t, err, mem.ErrInvalidSize)
}

// Recorded with a size buffer, replayed without: everything counts.
func TestACopyOfContentIsReplayedWithoutItsCount(t *testing.T) {
	h, _ := marker(t, 128)
	x, y := h.buffer(64, noise(64)), h.buffer(64, make([]byte, 64))
	size := h.buffer(8, count(10))
	require.NoError(t, x.SetContentSizeBuffer(size))
	rec := must(h.c.Record(h.q[0]))
	_ = must(h.q[0].EnqueueCopyContent(soon(t), x, y, 0, 0, 64))
	g := must(rec.Finish(soon(t)))
	got := make([]byte, 64)
	require.NoError(t, replayed(t, h, g, runtime.Bindings{}))
	require.NoError(t, h.q[0].Read(soon(t), y, 0, got))
	require.Equal(t, append(noise(64)[:10], make([]byte, 54)...), got)
	require.NoError(t, x.SetContentSizeBuffer(nil))
	require.NoError(t, replayed(t, h, g, runtime.Bindings{}))
	require.NoError(t, h.q[0].Read(soon(t), y, 0, got))
	require.Equal(t, noise(64), got)
}

// both are bindings of two slots with which a graph is replayed as prepared, and on the plain route.
func both(a, b, x, y *runtime.Buffer) [][]runtime.Binding {
	return [][]runtime.Binding{{{Slot: a, Buffer: x}, {Slot: b, Buffer: y}}, {{Slot: a, Buffer: x}, {Slot: b, Buffer: x}}}
}

// Two transients that share bytes have nothing to do with each other when the first's command fails, nor one with what it
// was in the replay before, on any route; and a launch that uses one may be changed.
func TestTransientsInTheSameBytesFailApart(t *testing.T) {
	h, mark := marker(t, 128)
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	rec := must(h.c.Record(h.q[0]))
	a, b := must(rec.Slot("a", 64, 0)), must(rec.Slot("b", 64, 0))
	t1, t2 := must(rec.Transient("t1", 64)), must(rec.Transient("t2", 64))
	e := must(h.q[0].EnqueueLaunch(soon(t), mark(t1, 1)))
	_ = must(h.q[0].EnqueueCopy(soon(t), t1, a, 0, 0, 32))
	_ = must(h.q[0].EnqueueLaunch(soon(t), mark(t2, 2)))
	_ = must(h.q[0].EnqueueCopy(soon(t), t2, b, 0, 32, 32))
	v := must(rec.Value(e, 1))
	g := must(rec.Finish(soon(t)))
	require.EqualValues(t, 128, g.Figures().Transients)
	got := make([]byte, 1)
	for i, in := range both(a, b, x, y) {
		gate := must(h.c.NewUserEvent())
		done := must(g.Replay(soon(t), h.q[0], runtime.Bindings{Slots: in, Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint32(255)}}}, gate))
		require.NoError(t, gate.SetStatus(runtime.Complete))
		require.ErrorIs(t, done.Wait(soon(t)), mem.ErrFault)
		require.NoError(t, h.q[0].Read(soon(t), in[1].Buffer, 32, got))
		require.EqualValues(t, 2, got[0])
		require.ErrorIs(t, h.q[0].Finish(soon(t)), mem.ErrFault)
		require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: in}))
		require.EqualValues(t, 1, first(t, h, x))
		require.EqualValues(t, 2*i, g.Figures().Plain)
		require.NoError(t, errors.Join(gate.Release(), done.Release()))
	}
	require.NoError(t, g.SetLaunch(0, mark(t1, 9)))
	for _, in := range both(a, b, x, y) {
		require.NoError(t, replayed(t, h, g, runtime.Bindings{Slots: in}))
		require.EqualValues(t, 9, first(t, h, x))
	}
	require.NoError(t, g.Close())
}

// A replay of which a command is refused goes on in the prepared bytes, in which a transient still has nothing of the one before it there.
func TestTransientsInTheSameBytesFailApartBehindARefusal(t *testing.T) {
	var refuse devicetest.Submits
	h := build(t, runtime.Options{Devices: []devices.Device{devicetest.FailNth(must(cpu.New(cpu.Options{})), &refuse)}}, runtime.QueueOptions{})
	k := must(must(h.c.Build(soon(t), marks)).Kernel("mark"))
	mark := func(b *runtime.Buffer, v uint32) runtime.Launch {
		return runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.Buf(b), runtime.Uint32(v)}}
	}
	x, y := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	rec := must(h.c.Record(h.q[0]))
	t1, t2 := must(rec.Transient("t1", 64)), must(rec.Transient("t2", 64))
	_ = must(h.q[0].EnqueueLaunch(soon(t), mark(t1, 255)))
	_ = must(h.q[0].EnqueueCopy(soon(t), t1, x, 0, 0, 64))
	_ = must(h.q[0].EnqueueLaunch(soon(t), mark(t2, 2)))
	_ = must(h.q[0].EnqueueCopy(soon(t), t2, y, 0, 0, 64))
	g := must(rec.Finish(soon(t)))
	require.EqualValues(t, 128, g.Figures().Transients, "they share what is aligned for one")
	refuse.Fail(2)
	gate := must(h.c.NewUserEvent())
	done := must(g.Replay(soon(t), h.q[0], runtime.Bindings{}, gate))
	refuse.Fail(0)
	require.EqualValues(t, 1, g.Figures().Plain)
	require.NoError(t, gate.SetStatus(runtime.Complete))
	require.ErrorIs(t, done.Wait(soon(t)), mem.ErrFault)
	require.EqualValues(t, 2, first(t, h, y))
	require.ErrorIs(t, h.q[0].Finish(soon(t)), mem.ErrFault)
	require.NoError(t, errors.Join(gate.Release(), done.Release(), g.Close()))
}

// A replay of which a command is refused goes on command by command, and others come between, yet none meets another's transients.
func TestReplaysThatGoOnCommandByCommandKeepTheirTransients(t *testing.T) {
	var refuse devicetest.Submits
	d := devicetest.FailNth(must(cpu.New(cpu.Options{})), &refuse)
	h := build(t, runtime.Options{Devices: []devices.Device{d}}, runtime.QueueOptions{})
	q := h.q[0]
	k := must(must(h.c.Build(soon(t), marks)).Kernel("mark"))
	rec := must(h.c.Record(q))
	out, tmp := must(rec.Slot("out", 64, 0)), must(rec.Transient("tmp", 64))
	e := must(q.EnqueueLaunch(soon(t), runtime.Launch{Kernel: k, Global: []uint64{64}, Args: []runtime.Arg{runtime.Buf(tmp), runtime.Uint32(0)}}))
	v := must(rec.Value(e, 1))
	for range 4 {
		_ = must(q.EnqueueCopy(soon(t), tmp, out, 0, 0, 64))
	}
	g := must(rec.Finish(soon(t)))
	var all sync.WaitGroup
	for i := range uint32(4) {
		to := h.buffer(64, make([]byte, 64))
		all.Go(func() {
			for n := range uint32(50) {
				refuse.Fail(3)
				want := 4*(n%50) + i
				in := runtime.Bindings{Slots: []runtime.Binding{{Slot: out, Buffer: to}}, Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint32(want)}}}
				if err := replayed(t, h, g, in); err != nil {
					continue // refused on the plain route, too
				}
				refuse.Fail(0)
				got := make([]byte, 64)
				if q.Read(soon(t), to, 0, got) == nil {
					assert.EqualValues(t, want, got[63])
				}
			}
		})
	}
	all.Wait()
	refuse.Fail(0)
	require.NoError(t, g.Close())
	t.Log(g.Figures())
}

// Of a replay of which a command is refused those before it stand, and are not enqueued again.
func TestARefusedReplayGoesOnBehindWhatWasAccepted(t *testing.T) {
	var refuse devicetest.Submits
	d := devicetest.FailNth(must(cpu.New(cpu.Options{})), &refuse)
	h := build(t, runtime.Options{Devices: []devices.Device{d}}, runtime.QueueOptions{})
	q := h.q[0]
	k := must(must(h.c.Build(soon(t), kernels.Program())).Kernel("scale"))
	b := h.buffer(64, bytes.Repeat([]byte{0, 0, 128, 63}, 16)) // ones
	rec := must(h.c.Record(q))
	for range 3 {
		_ = must(q.EnqueueLaunch(soon(t), runtime.Launch{Kernel: k, Global: []uint64{16}, Args: []runtime.Arg{
			runtime.Buf(b), runtime.Buf(b), runtime.Float32(2), runtime.Uint64(16),
		}}))
	}
	g := must(rec.Finish(soon(t)))
	want := float32(1)
	for n := range 4 { // the first refuses none
		refuse.Fail(n)
		require.NoError(t, replayed(t, h, g, runtime.Bindings{}))
		refuse.Fail(0)
		want *= 8
		got := make([]byte, 4)
		require.NoError(t, q.Read(soon(t), b, 0, got))
		require.Equal(t, want, math.Float32frombits(binary.LittleEndian.Uint32(got)), "submit %d was refused", n)
	}
	require.Positive(t, g.Figures().Plain)
	require.NoError(t, g.Close())
}

// A copy of a rectangle whose slots are bound to bytes that overlap is refused, as if enqueued.
func TestABoundRectangleThatOverlapsIsRefused(t *testing.T) {
	h, _ := marker(t, 128)
	rec := must(h.c.Record(h.q[0]))
	a, b := must(rec.Slot("a", 512, 0)), must(rec.Slot("b", 512, 0))
	_ = must(h.q[0].EnqueueCopyRect(soon(t), a, b, runtime.Box{Row: 128}, runtime.Box{Row: 128}, [3]uint64{64, 4, 1}))
	g := must(rec.Finish(soon(t)))
	x := h.buffer(1024, make([]byte, 1024))
	lo, hi := must(x.Sub(0, 512, 0)), must(x.Sub(128, 512, 0))
	require.ErrorIs(t, replayed(t, h, g, runtime.Bindings{Slots: []runtime.Binding{{Slot: a, Buffer: lo}, {Slot: b, Buffer: hi}}}), mem.ErrOverlap)
	require.NoError(t, errors.Join(lo.Release(), hi.Release()))
}

// A command fails whose content only the next round reads, elsewhere: the replay's event says so.
func TestAReplayFailsWithACommandThatOnlyTheNextReads(t *testing.T) {
	h, mark := marker(t, 128, 128)
	b, c := h.buffer(64, make([]byte, 64)), h.buffer(64, make([]byte, 64))
	rec := must(h.c.Record(h.q...))
	_ = must(h.q[1].EnqueueCopy(soon(t), b, c, 0, 0, 64))
	e := must(h.q[0].EnqueueLaunch(soon(t), mark(b, 1)))
	v := must(rec.Value(e, 1))
	g := must(rec.Finish(soon(t)))
	require.NoError(t, replayed(t, h, g, runtime.Bindings{}))
	require.ErrorIs(t, replayed(t, h, g, runtime.Bindings{Values: []runtime.NewValue{{Value: v, Arg: runtime.Uint32(255)}}}), mem.ErrFault)
}
