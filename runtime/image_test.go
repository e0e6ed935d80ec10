package runtime_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/work"
	"godwit/mem"
	"godwit/runtime"
)

// picture is an image of layers of 8 x 4 pixels of 4 bytes.
func picture(h *house, layers uint64, host []byte) *runtime.Image {
	h.t.Helper()
	m, err := h.c.CreateImage("picture", devices.Image{Type: devices.Image2DArray, Sides: [3]uint64{8, 4, layers}, Pixel: 4}, 0, host)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, m.Release()) })
	return m
}

func TestHalfOfAnImagesSlicesIsWhatMoves(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(3)}, runtime.QueueOptions{})
	const layers, all = 6, 6 * 128
	a, b := picture(h, layers, make([]byte, all)), picture(h, layers, nil)
	half, later := [3]uint64{8, 4, layers / 2}, [3]uint64{0, 0, layers / 2}
	_, err := h.q[0].EnqueueFillImage(soon(t), a, []byte{1, 2, 3, 4}, later, half)
	require.NoError(t, err)
	require.Zero(t, h.c.Stats().BytesMoved)
	_, err = h.q[1].EnqueueCopyImage(soon(t), a, b, later, [3]uint64{}, half)
	require.NoError(t, err)
	require.EqualValues(t, all/2, h.c.Stats().BytesMoved)
	row := [3]uint64{8, 1, 1}
	_, err = h.q[2].EnqueueCopyImage(soon(t), b, a, [3]uint64{0, 1, 2}, [3]uint64{}, row)
	require.NoError(t, err)
	require.EqualValues(t, all/2+32, h.c.Stats().BytesMoved, "a row")
	got := make([]byte, 32)
	e, err := h.q[2].EnqueueReadImage(soon(t), a, [3]uint64{}, row, got, 0, 0)
	require.NoError(t, err)
	require.NoError(t, e.Wait(soon(t)))
	require.Equal(t, []byte{1, 2, 3, 4, 1}, got[:5])
}

// A Go form that declares an image gets its bytes.
func TestImagesAreForKernelsThatTakeThem(t *testing.T) {
	h := ranged(t, runtime.Options{}, 2, 1<<20)
	info := func(image bool) []devices.ArgInfo {
		return []devices.ArgInfo{{Name: "m", Kind: devices.ArgBuffer, Access: mem.ReadWrite, Type: "uchar", Image: image}}
	}
	add := func(g *work.Group) { v := work.Global[uint8](g, 0); v.Store(0, v.Load(0)+1) }
	prog := must(h.c.Build(soon(t), &devices.Program{Name: "p", Go: []devices.GoKernel{{Name: "image", Args: info(true), Func: add}, {Name: "buffer", Args: info(false), Func: add}}}))
	defer func() { require.NoError(t, prog.Close()) }()
	m, plain := picture(h, 1, make([]byte, 128)), h.buffer(128, make([]byte, 128))
	launch := func(q *runtime.Queue, name string, a runtime.Arg) error {
		_, err := q.EnqueueLaunch(soon(t), runtime.Launch{Kernel: must(prog.Kernel(name)), Global: []uint64{1}, Args: []runtime.Arg{a}})
		return err
	}
	require.NoError(t, launch(h.q[0], "image", runtime.Img(m)))
	require.NoError(t, launch(h.q[1], "image", runtime.Img(m)))
	require.ErrorIs(t, launch(h.q[0], "image", runtime.Buf(plain)), mem.ErrArgValue)
	require.ErrorIs(t, launch(h.q[0], "image", runtime.Img(nil)), mem.ErrArgValue)
	require.ErrorIs(t, launch(h.q[0], "buffer", runtime.Img(m)), mem.ErrArgValue)
	require.ErrorIs(t, launch(h.q[0], "buffer", runtime.Sampler(devices.Sampler{})), mem.ErrArgValue)
	got := make([]byte, 1)
	require.NoError(t, h.q[0].Read(soon(t), m.Buffer, 0, got))
	require.Equal(t, []byte{2}, got)
}

func TestImagesThatAreRefused(t *testing.T) {
	h := build(t, runtime.Options{Devices: memories(1)}, runtime.QueueOptions{})
	b := h.buffer(256, make([]byte, 256))
	for name, s := range map[string]devices.Image{
		"of no type":                  {Sides: [3]uint64{1, 1, 1}, Pixel: 4},
		"without rows":                {Type: devices.Image2D, Sides: [3]uint64{4}, Pixel: 4},
		"of no bytes":                 {Type: devices.Image2D, Sides: [3]uint64{4, 4}},
		"with rows that overlap":      {Type: devices.Image2D, Sides: [3]uint64{4, 4}, Pixel: 4, Row: 12},
		"with a pitch between pixels": {Type: devices.Image2D, Sides: [3]uint64{4, 4}, Pixel: 4, Row: 18},
		"with slices that overlap":    {Type: devices.Image3D, Sides: [3]uint64{4, 4, 2}, Pixel: 4, Slice: 48},
		"larger than all memory":      {Type: devices.Image3D, Sides: [3]uint64{math.MaxUint32, math.MaxUint32, 2}, Pixel: 4},
		"larger than its buffer":      {Type: devices.Image2D, Sides: [3]uint64{8, 9}, Pixel: 4},
	} {
		_, err := b.Image(s, 0)
		require.ErrorIs(t, err, mem.ErrInvalidValue, name)
	}
	m, other := picture(h, 2, nil), must(b.Image(devices.Image{Type: devices.Image2D, Sides: [3]uint64{8, 4}, Pixel: 4, Order: 7}, 0))
	defer func() { require.NoError(t, other.Release()) }()
	q, ctx, one := h.q[0], soon(t), [3]uint64{1, 1, 1}
	_, err := q.EnqueueCopyImage(ctx, m, other, [3]uint64{}, [3]uint64{}, one)
	require.ErrorIs(t, err, runtime.ErrImageFormat)
	require.Equal(t, mem.ImageFormatMismatch, mem.StatusOf(err))
	for _, at := range [][3]uint64{{8}, {0, 4}, {0, 0, 2}} {
		_, err = q.EnqueueReadImage(ctx, m, at, one, make([]byte, 4), 0, 0)
		require.ErrorIs(t, err, mem.ErrInvalidValue)
	}
	_, err = q.EnqueueReadImage(ctx, m, [3]uint64{}, one, make([]byte, 3), 0, 0)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = q.EnqueueFillImage(ctx, m, make([]byte, 3), [3]uint64{}, one)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = q.EnqueueCopyImage(ctx, m, m, [3]uint64{}, [3]uint64{1}, [3]uint64{4, 4, 1})
	require.ErrorIs(t, err, mem.ErrOverlap)
	_, err = q.EnqueueWriteImage(ctx, nil, [3]uint64{}, one, make([]byte, 4), 0, 0)
	require.ErrorIs(t, err, mem.ErrInvalidBuffer)
}
