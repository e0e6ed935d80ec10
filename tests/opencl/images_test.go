//go:build cgo

package opencl_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/mem"
	"godwit/runtime"
)

// imageKernels turn all bits of a pixel, and of every third pixel.
const imageKernels = `
	constant sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
	kernel void turn2(read_only image2d_t a, write_only image2d_t b, uint every) {
		int2 p = (int2)(get_global_id(0), get_global_id(1));
		if ((p.y * get_global_size(0) + p.x) % every == 0) write_imageui(b, p, 255 - read_imageui(a, s, p));
	}
	kernel void turn2a(read_only image2d_array_t a, write_only image2d_array_t b, uint every) {
		int4 p = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
		if ((p.y * get_global_size(0) + p.x) % every == 0) write_imageui(b, p, 255 - read_imageui(a, s, p));
	}
	kernel void turn1(read_only image1d_buffer_t a, write_only image1d_buffer_t b, uint every) {
		int p = get_global_id(0);
		if (p % every == 0) write_imageui(b, p, 255 - read_imageui(a, p));
	}`

var imageProgram = &devices.Program{Name: "images", Source: imageKernels}

// imageHouses are how devices have images: over their bytes and beside them, these whole or carved.
var imageHouses = map[string]map[string]string{
	"over":           {"carve": "off"},
	"beside":         {"carve": "off", "direct": "off"},
	"beside, carved": {"carve": "on", "direct": "off", "slab": "1048576"},
}

// imageWorld is a context with images, and what each has to hold.
type imageWorld struct {
	*rapid.T
	ctx    *runtime.Context
	queues []*runtime.Queue
	prog   *runtime.Program
	images []*runtime.Image
	wants  [][]byte // by image: what those over one buffer share is one slice
	flat   *runtime.Buffer
	wants0 []byte // of flat
}

const (
	rgba, unsigned8 = 0x10B5, 0x10DA // CL_RGBA, CL_UNSIGNED_INT8
	flatSize        = 4096
)

// shapes are those of the images: tight, with pitches, arrays, over a buffer.
var shapes = []devices.Image{
	{Type: devices.Image2D, Sides: [3]uint64{13, 9}},
	{Type: devices.Image2D, Sides: [3]uint64{13, 9}, Row: 64},
	{Type: devices.Image2DArray, Sides: [3]uint64{7, 5, 3}},
	{Type: devices.Image2DArray, Sides: [3]uint64{7, 5, 3}, Row: 32, Slice: 192},
	{Type: devices.Image1DBuffer, Sides: [3]uint64{101}},
	{Type: devices.Image1DBuffer, Sides: [3]uint64{1024}}, // all of flat, as this:
	{Type: devices.Image2D, Sides: [3]uint64{60, 16}, Row: 256},
}

func newImageWorld(t *rapid.T, devs []devices.Device, o runtime.Options) *imageWorld {
	o.Devices = devs
	ctx, err := runtime.NewContext(o)
	require.NoError(t, err)
	w := &imageWorld{T: t, ctx: ctx}
	w.prog, err = ctx.Build(context.Background(), imageProgram)
	require.NoError(t, err)
	for i, d := range devs {
		q, err := ctx.NewQueue(d, runtime.QueueOptions{OutOfOrder: i%2 == 1})
		require.NoError(t, err)
		w.queues = append(w.queues, q)
	}
	w.wants0 = make([]byte, flatSize)
	w.flat, err = ctx.CreateBuffer(flatSize, 0, w.wants0)
	require.NoError(t, err)
	for _, s := range shapes {
		for range 2 {
			s.Order, s.Format, s.Pixel = rgba, unsigned8, 4
			var m *runtime.Image
			want := w.wants0
			if of := s.Sides[0] == 1024 || s.Row == 256; of {
				m, err = w.flat.Image(s, 0)
			} else {
				require.NoError(t, s.Fill())
				want = bytes.Repeat([]byte{byte(len(w.images))}, int(s.Size()))
				m, err = ctx.CreateImage("", s, 0, want)
			}
			require.NoError(t, err)
			w.images, w.wants = append(w.images, m), append(w.wants, want)
		}
	}
	return w
}

// at is where a pixel is in an image's bytes.
func at(s devices.Image, x, y, z uint64) uint64 { return z*s.Slice + y*s.Row + x*s.Pixel }

// each calls f with each pixel of a region, by its place in an image's bytes and its number in the region.
func each(s devices.Image, origin, region [3]uint64, f func(at, n uint64)) {
	n := uint64(0)
	for z := range region[2] {
		for y := range region[1] {
			for x := range region[0] {
				f(at(s, origin[0]+x, origin[1]+y, origin[2]+z), n)
				n++
			}
		}
	}
}

// part draws an image and a region of it.
func (w *imageWorld) part(name string) (i int, s devices.Image, origin, region [3]uint64) {
	i = rapid.IntRange(0, len(w.images)-1).Draw(w.T, name)
	s = w.images[i].Shape()
	for k, n := range s.Sides {
		origin[k] = rapid.Uint64Range(0, n-1).Draw(w.T, "origin")
		region[k] = rapid.Uint64Range(1, n-origin[k]).Draw(w.T, "region")
	}
	return i, s, origin, region
}

func (w *imageWorld) queue() *runtime.Queue { return rapid.SampledFrom(w.queues).Draw(w.T, "queue") }

func (w *imageWorld) bytes(n uint64) []byte {
	b, first := make([]byte, n), rapid.Byte().Draw(w.T, "byte")
	for i := range b {
		b[i] = first + byte(i*7)
	}
	return b
}

// done waits for a command, which may fail only with what was injected, and returns whether it did what it is for.
func (w *imageWorld) done(e runtime.Event, err error) {
	require.NoError(w, err)
	require.NoError(w, e.Wait(context.Background()))
	require.NoError(w, e.Release())
}

func (w *imageWorld) write() {
	i, s, o, r := w.part("to")
	data := w.bytes(r[0] * r[1] * r[2] * s.Pixel)
	w.done(w.queue().EnqueueWriteImage(context.Background(), w.images[i], o, r, data, 0, 0))
	each(s, o, r, func(at, n uint64) { copy(w.wants[i][at:at+s.Pixel], data[n*s.Pixel:]) })
}

func (w *imageWorld) fill() {
	i, s, o, r := w.part("to")
	pixel := w.bytes(s.Pixel)
	w.done(w.queue().EnqueueFillImage(context.Background(), w.images[i], pixel, o, r))
	each(s, o, r, func(at, _ uint64) { copy(w.wants[i][at:], pixel) })
}

func (w *imageWorld) read() {
	i, s, o, r := w.part("from")
	row := r[0]*s.Pixel + 4*rapid.Uint64Range(0, 3).Draw(w.T, "row")
	data := make([]byte, row*r[1]*r[2])
	w.done(w.queue().EnqueueReadImage(context.Background(), w.images[i], o, r, data, row, 0))
	each(s, o, r, func(at, n uint64) {
		got := data[n/r[0]*row+n%r[0]*s.Pixel:][:s.Pixel]
		require.Equal(w, w.wants[i][at:at+s.Pixel], got, "pixel %d of %v at %v of image %d", n, r, o, i)
	})
}

func (w *imageWorld) mapped() {
	i, s, o, r := w.part("of")
	flags := rapid.SampledFrom([]runtime.MapFlags{runtime.MapRead | runtime.MapWrite, runtime.MapInvalidate}).Draw(w.T, "flags")
	q := w.queue()
	m, e, err := q.EnqueueMapImage(context.Background(), w.images[i], o, r, flags)
	w.done(e, err)
	first, with := at(s, o[0], o[1], o[2]), w.bytes(s.Pixel)
	each(s, o, r, func(at, _ uint64) {
		if flags != runtime.MapInvalidate {
			require.Equal(w, w.wants[i][at:at+s.Pixel], m.Bytes()[at-first:][:s.Pixel])
		}
		copy(m.Bytes()[at-first:], with)
		copy(w.wants[i][at:], with)
	})
	w.done(q.EnqueueUnmap(context.Background(), m))
}

func (w *imageWorld) copies() {
	i, s, o, r := w.part("from")
	k := rapid.IntRange(0, len(w.images)-1).Draw(w.T, "to")
	d, to := w.images[k].Shape(), [3]uint64{}
	for x := range r {
		r[x] = min(r[x], d.Sides[x])
		to[x] = rapid.Uint64Range(0, d.Sides[x]-r[x]).Draw(w.T, "origin")
	}
	e, err := w.queue().EnqueueCopyImage(context.Background(), w.images[i], w.images[k], o, to, r)
	if &w.wants[i][0] == &w.wants[k][0] && err != nil { // of one buffer
		require.ErrorIs(w, err, mem.ErrOverlap)
		return
	}
	w.done(e, err)
	from := bytes.Clone(w.wants[i])
	var places []uint64
	each(s, o, r, func(at, _ uint64) { places = append(places, at) })
	each(d, to, r, func(at, n uint64) { copy(w.wants[k][at:at+s.Pixel], from[places[n]:]) })
}

func (w *imageWorld) toBuffer() {
	i, s, o, r := w.part("of")
	size := r[0] * r[1] * r[2] * s.Pixel
	if &w.wants[i][0] == &w.wants0[0] || size > flatSize {
		return
	}
	off := rapid.Uint64Range(0, flatSize-size).Draw(w.T, "off")
	if rapid.Bool().Draw(w.T, "back") {
		w.done(w.queue().EnqueueCopyBufferToImage(context.Background(), w.flat, w.images[i], off, o, r))
		each(s, o, r, func(at, n uint64) { copy(w.wants[i][at:at+s.Pixel], w.wants0[off+n*s.Pixel:]) })
		return
	}
	w.done(w.queue().EnqueueCopyImageToBuffer(context.Background(), w.images[i], w.flat, o, r, off))
	each(s, o, r, func(at, n uint64) { copy(w.wants0[off+n*s.Pixel:][:s.Pixel], w.wants[i][at:]) })
}

func (w *imageWorld) launch() {
	i := 2 * rapid.IntRange(0, len(shapes)-1).Draw(w.T, "shape")
	a, b := i, i+1
	if rapid.Bool().Draw(w.T, "turned") {
		a, b = b, a
	}
	s, every := w.images[i].Shape(), rapid.Uint32Range(1, 3).Draw(w.T, "every")
	name := map[uint32]string{devices.Image2D: "turn2", devices.Image2DArray: "turn2a", devices.Image1DBuffer: "turn1"}[s.Type]
	k, err := w.prog.Kernel(name)
	require.NoError(w, err)
	w.done(w.queue().EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: s.Sides[:s.Rank()],
		Args: []runtime.Arg{runtime.Img(w.images[a]), runtime.Img(w.images[b]), runtime.Uint32(every)}}))
	each(s, [3]uint64{}, s.Sides, func(at, n uint64) {
		if n%(s.Sides[0]*s.Sides[1])%uint64(every) == 0 {
			for c := range s.Pixel {
				w.wants[b][at+c] = 255 - w.wants[a][at+c]
			}
		}
	})
}

// end compares all and closes.
func (w *imageWorld) end() {
	for i, m := range append([]*runtime.Buffer{w.flat}, buffersOf(w.images)...) {
		want := append([][]byte{w.wants0}, w.wants...)[i]
		got := make([]byte, len(want))
		require.NoError(w, w.queues[0].Read(context.Background(), m, 0, got))
		require.True(w, bytes.Equal(want, got), "buffer of image %d", i-1)
		require.NoError(w, m.Release())
	}
	require.NoError(w, w.ctx.Check())
	require.NoError(w, w.prog.Close())
	require.NoError(w, w.ctx.Close(context.Background()))
}

func buffersOf(images []*runtime.Image) (all []*runtime.Buffer) {
	for _, m := range images {
		all = append(all, m.Buffer)
	}
	return all
}

// TestHistoriesOfImagesAgreeWithBytes draws commands on images, over their bytes and beside them, on one device and on two.
func TestHistoriesOfImagesAgreeWithBytes(t *testing.T) {
	need(t)
	for name, params := range imageHouses {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				params["count"] = fmt.Sprint(n)
				devs, err := devices.Open(context.Background(), "opencl", devices.Config{Params: params})
				require.NoError(t, err)
				built, err := devs[0].Build(context.Background(), imageProgram) // once for all contexts
				require.NoError(t, err)
				rapid.Check(t, func(r *rapid.T) {
					w := newImageWorld(r, devs, runtime.Options{})
					r.Repeat(map[string]func(*rapid.T){
						"write": func(*rapid.T) { w.write() }, "fill": func(*rapid.T) { w.fill() }, "read": func(*rapid.T) { w.read() }, "map": func(*rapid.T) { w.mapped() },
						"copy": func(*rapid.T) { w.copies() }, "buffer": func(*rapid.T) { w.toBuffer() }, "launch": func(*rapid.T) { w.launch() }, "launch more": func(*rapid.T) { w.launch() },
					})
					w.end()
				})
				require.NoError(t, built.Close())
				for _, d := range devs {
					require.NoError(t, d.Close())
				}
				released(t)
			})
		}
	}
}

// imageContext is a context over devices with images, with a program and a queue for each.
func imageContext(t *testing.T, params map[string]string, source string) (*runtime.Context, *runtime.Program, []*runtime.Queue) {
	t.Helper()
	return imageContextOf(t, devices.Config{Params: params}, source)
}

func imageContextOf(t *testing.T, of devices.Config, source string) (*runtime.Context, *runtime.Program, []*runtime.Queue) {
	t.Helper()
	need(t)
	devs, err := devices.Open(context.Background(), "opencl", of)
	require.NoError(t, err)
	c, err := runtime.NewContext(runtime.Options{Devices: devs})
	require.NoError(t, err)
	prog, err := c.Build(context.Background(), &devices.Program{Name: "images", Source: source})
	require.NoError(t, err)
	var queues []*runtime.Queue
	for _, d := range devs {
		q, err := c.NewQueue(d, runtime.QueueOptions{})
		require.NoError(t, err)
		queues = append(queues, q)
	}
	t.Cleanup(func() {
		require.NoError(t, c.Check())
		require.NoError(t, prog.Close())
		require.NoError(t, c.Close(context.Background()))
		for _, d := range devs {
			require.NoError(t, d.Close())
		}
		released(t)
	})
	return c, prog, queues
}

// square is the shape of an image of n times n pixels.
func square(n uint64) devices.Image {
	return devices.Image{Type: devices.Image2D, Order: rgba, Format: unsigned8, Pixel: 4, Sides: [3]uint64{n, n}}
}

const lookSource = `kernel void look(read_only image2d_t a, sampler_t s, write_only image2d_t b) {
	int2 p = (int2)(get_global_id(0), get_global_id(1));
	write_imageui(b, p, read_imageui(a, s, p + 100) + 1);
}
typedef struct { int x; } image_info_t;
kernel void value(image_info_t v, global int *p) { *p = v.x; }`

// edge is a sampler that sees the last pixel beyond it.
var edge = runtime.Sampler(devices.Sampler{Addressing: 0x1131, Filter: 0x1140}) // CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST

// looks enqueues what has b hold a's last pixel and one, throughout.
func looks(t *testing.T, q *runtime.Queue, k *runtime.Kernel, a, b *runtime.Image) runtime.Event {
	t.Helper()
	e, err := q.EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: []uint64{8, 8}, Args: []runtime.Arg{runtime.Img(a), edge, runtime.Img(b)}})
	require.NoError(t, err)
	return e
}

// imageOf is an image of 8 times 8 pixels.
func imageOf(t *testing.T, c *runtime.Context, flags runtime.Flags, bytes []byte) *runtime.Image {
	t.Helper()
	m, err := c.CreateImage("", square(8), flags, bytes)
	require.NoError(t, err)
	return m
}

func TestGraphsReplayLaunchesWithImagesAndSamplers(t *testing.T) {
	for name, params := range map[string]map[string]string{"over": {"count": "1"}, "beside": {"count": "1", "direct": "off"}} {
		t.Run(name, func(t *testing.T) {
			c, prog, q := imageContext(t, params, lookSource)
			a, b := imageOf(t, c, 0, bytes.Repeat([]byte{5}, 256)), imageOf(t, c, 0, make([]byte, 256))
			k, err := prog.Kernel("look")
			require.NoError(t, err)
			rec, err := c.Record(q[0])
			require.NoError(t, err)
			for _, m := range [][2]*runtime.Image{{a, b}, {b, a}} {
				looks(t, q[0], k, m[0], m[1])
			}
			g, err := rec.Finish(context.Background())
			require.NoError(t, err)
			for range 3 {
				e, err := g.Replay(context.Background(), q[0], runtime.Bindings{})
				require.NoError(t, err)
				require.NoError(t, e.Release())
			}
			got := make([]byte, 256)
			require.NoError(t, q[0].Read(context.Background(), a.Buffer, 0, got))
			require.Equal(t, bytes.Repeat([]byte{11}, 256), got)
			require.NoError(t, g.Close())
			require.NoError(t, a.Release())
			require.NoError(t, b.Release())
		})
	}
}

func TestImagesOverSharedVirtualMemory(t *testing.T) {
	c, prog, q := imageContext(t, map[string]string{"count": "2"}, lookSource)
	p, err := c.SVMAlloc(256, 0, 0)
	require.NoError(t, err)
	host, err := c.SVMBytes(p, 256)
	require.NoError(t, err)
	a, b := imageOf(t, c, runtime.UseHostPtr, host), imageOf(t, c, 0, bytes.Repeat([]byte{5}, 256))
	k, err := prog.Kernel("look")
	require.NoError(t, err)
	for i := range 4 {
		m := [2]*runtime.Image{b, a}
		if i%2 == 1 {
			m = [2]*runtime.Image{a, b}
		}
		require.NoError(t, looks(t, q[i/2], k, m[0], m[1]).Release())
	}
	got := make([]byte, 256)
	require.NoError(t, q[0].Read(context.Background(), b.Buffer, 0, got))
	require.Equal(t, bytes.Repeat([]byte{9}, 256), got)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	require.NoError(t, c.SVMFree(p))
}

func TestWhatIsNoImageIsRefusedWhereAKernelWantsOne(t *testing.T) {
	c, prog, q := imageContext(t, map[string]string{"count": "1"}, lookSource)
	m := imageOf(t, c, 0, make([]byte, 256))
	p, err := c.SVMAlloc(256, 0, 0)
	require.NoError(t, err)
	k, err := prog.Kernel("look")
	require.NoError(t, err)
	for name, a := range map[string]runtime.Arg{"a pointer": runtime.SVM(p), "a null pointer": runtime.SVM(0), "no buffer": runtime.Buf(nil), "no image": runtime.Img(nil), "a buffer": runtime.Buf(m.Buffer)} {
		_, err = q[0].EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: []uint64{8, 8}, Args: []runtime.Arg{a, edge, runtime.Img(m)}})
		require.ErrorIs(t, err, mem.ErrArgValue, name)
	}
	value, err := prog.Kernel("value")
	require.NoError(t, err)
	require.Equal(t, devices.ArgValue, value.Args()[0].Kind, "a struct whose name begins as images' do")
	require.NoError(t, m.Release())
	require.NoError(t, c.SVMFree(p))
}

func TestARangeOfAnImageLimitsNothing(t *testing.T) {
	c, prog, q := imageContext(t, map[string]string{"count": "1"}, lookSource)
	m := imageOf(t, c, 0, make([]byte, 256))
	k, err := prog.Kernel("look")
	require.NoError(t, err)
	e, err := q[0].EnqueueLaunch(context.Background(), runtime.Launch{Kernel: k, Global: []uint64{8, 8}, Args: []runtime.Arg{runtime.Img(m).Range(0, 64), edge, runtime.Img(m).Range(64, 64)}})
	require.NoError(t, err)
	require.NoError(t, e.Wait(context.Background()))
	require.EqualValues(t, 256, c.Stats().BytesMoved)
	require.NoError(t, m.Release())
}

// TestImagesThatNothingUsesGo: of many shapes over each of some buffers, used once, the library below keeps a few, and as many caches as a device has room for.
func TestImagesThatNothingUsesGo(t *testing.T) {
	for name, params := range imageHouses {
		t.Run(name, func(t *testing.T) {
			p := maps.Clone(params)
			p["count"] = "1"
			c, prog, q := imageContextOf(t, devices.Config{Memory: 8 << 20, Params: p}, lookSource)
			k, err := prog.Kernel("look")
			require.NoError(t, err)
			before, gone := opencl.Objects()
			for range 3 {
				b, err := c.CreateBuffer(1<<20, 0, bytes.Repeat([]byte{5}, 1<<20))
				require.NoError(t, err)
				defer func() { require.NoError(t, b.Release()) }()
				for n := range uint64(40) {
					m, err := b.Image(square(512-n), 0)
					require.NoError(t, err)
					e := looks(t, q[0], k, m, m)
					require.NoError(t, e.Wait(context.Background()))
					require.NoError(t, m.Release())
					require.NoError(t, e.Release())
				}
			}
			made, released := opencl.Objects()
			require.Less(t, made.Buffers-before.Buffers-released.Buffers+gone.Buffers, int64(3*8))
		})
	}
}
