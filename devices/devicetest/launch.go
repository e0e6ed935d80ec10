package devicetest

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/lib/kernels"
	"godwit/mem"
)

// build builds the library on the device.
func (e *env) build() devices.Module {
	if !e.kernels {
		_, err := e.dev.Build(e.context(), kernels.Program())
		require.ErrorIs(e.t, err, mem.ErrInvalidOperation)
		e.t.Skip("the device runs no kernels")
	}
	m, err := e.dev.Build(e.context(), kernels.Program())
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, m.Close()) })
	return m
}

func (e *env) kernel(m devices.Module, name string) devices.Kernel {
	k, err := m.Kernel(name)
	require.NoError(e.t, err)
	require.Equal(e.t, name, k.Name())
	return k
}

func launchOf(k devices.Kernel, global, local uint64, args ...devices.Arg) *devices.Command {
	return &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{global}, Local: [3]uint64{local}, Args: args}
}

func bufferArg(b mem.Block, off, size uint64) devices.Arg {
	return devices.Arg{Kind: devices.ArgBuffer, Block: b, Off: off, Size: size}
}

func ulongArg(v uint64) devices.Arg {
	return devices.Arg{Kind: devices.ArgValue, Value: binary.LittleEndian.AppendUint64(nil, v)}
}

func floatArg(v float32) devices.Arg {
	return devices.Arg{Kind: devices.ArgValue, Value: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

func localArg(size uint64) devices.Arg { return devices.Arg{Kind: devices.ArgLocal, Size: size} }

// testLaunchArguments gives kernels every kind of argument, at offsets and in
// pieces, and changes them after Submit.
func testLaunchArguments(e *env) {
	m, q, line := e.build(), e.inOrder(), users()
	require.Subset(e.t, m.Kernels(), []string{"copy", "fill", "histogram"})
	align := e.dev.Info().BaseAlign
	text := noise(4, 5000)
	block, counts := e.alloc(2*align+5000), e.alloc(align+1024)
	e.wait(q, e.write(q, block, align, text), e.fill(q, counts, 0, counts.Size, []byte{0}))
	piece := block.Piece(align, 5000)
	gate := line.Next()
	args := []devices.Arg{bufferArg(piece, 0, 5000), bufferArg(counts, align, 1024), ulongArg(5000), localArg(1024)}
	cmd := launchOf(e.kernel(m, "histogram"), 256, 64, args...)
	p := e.submit(q, cmd, data(gate))
	for i := range args {
		clear(args[i].Value)
	}
	clear(args)
	*cmd = devices.Command{}
	line.End(gate, nil)
	e.wait(q, p)
	want := make([]byte, align+1024)
	for _, c := range text {
		at := want[align+4*uint64(c):]
		binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)+1)
	}
	got := make([]byte, len(want))
	e.wait(q, e.read(q, counts, 0, got))
	e.equal(want, got, "histogram")

	copyKernel := e.kernel(m, "copy")
	for _, local := range []uint64{0, 1, 16} {
		e.wait(q, e.fill(q, counts, 0, counts.Size, []byte{0}))
		e.wait(q, e.submit(q, launchOf(copyKernel, 48, local, bufferArg(block, align, 1000), bufferArg(counts, align, 1000), ulongArg(1000))))
		e.wait(q, e.read(q, counts, 0, got))
		e.equal(text[:1000], got[align:align+1000], "copy")
		e.equal(make([]byte, 24), got[align+1000:], "behind the copy")
	}
}

// testLaunchesOverOneBlock gives a kernel one block in two arguments, as source and
// destination, and runs launches over parts of one block that share no byte at once: none
// may take the block for itself, or write back more of it than it was given.
func testLaunchesOverOneBlock(e *env) {
	m, q := e.build(), e.outOfOrder()
	k, align := e.kernel(m, "copy"), e.dev.Info().BaseAlign
	const n = 1000
	size, _ := mem.AlignUp(n, align)
	text := noise(9, n)
	block := e.alloc(8 * size)
	e.wait(q, e.fill(q, block, 0, block.Size, []byte{0xee}))
	e.wait(q, e.write(q, block, 0, text))
	e.wait(q, e.submit(q, launchOf(k, n, 0, bufferArg(block, 0, n), bufferArg(block, size, n), ulongArg(n))))
	var points []mem.Point
	for i := range uint64(6) { // each reads what all read, and writes a part of its own
		points = append(points, e.submit(q, launchOf(k, n, 0, bufferArg(block, i%2*size, n), bufferArg(block, (2+i)*size, n), ulongArg(n))))
	}
	for _, p := range points {
		e.wait(q, p)
	}
	want, got := bytes.Repeat([]byte{0xee}, int(8*size)), make([]byte, 8*size)
	for i := range uint64(8) {
		copy(want[i*size:], text)
	}
	e.wait(q, e.read(q, block, 0, got))
	e.equal(want, got, "launches over parts of one block")
}

// testLaunchesInPlace gives a kernel the same bytes in two arguments, of which it reads one
// and writes the other: what it writes is what is there afterwards, whichever argument a
// driver that runs kernels on copies writes back last.
func testLaunchesInPlace(e *env) {
	m, q := e.build(), e.inOrder()
	const n = 300
	b := e.alloc(4 * n)
	e.wait(q, e.fill(q, b, 0, b.Size, floatArg(1.5).Value))
	arg := bufferArg(b, 0, b.Size)
	e.wait(q, e.submit(q, launchOf(e.kernel(m, "scale"), n, 0, arg, arg, floatArg(2), ulongArg(n))))
	e.wait(q, e.submit(q, launchOf(e.kernel(m, "add"), n, 0, arg, arg, arg, ulongArg(n))))
	got := make([]byte, b.Size)
	e.wait(q, e.read(q, b, 0, got))
	e.equal(bytes.Repeat(floatArg(6).Value, n), got, "launches in place")
}

func testLaunchRules(e *env) {
	m, q := e.build(), e.inOrder()
	_, err := m.Kernel("nonesuch")
	require.ErrorIs(e.t, err, mem.ErrKernelName)
	k, b := e.kernel(m, "copy"), e.alloc(64)
	arg, n := bufferArg(b, 0, 64), ulongArg(64)
	info := e.dev.Info()
	last := q.Timeline().Last()
	for _, c := range []struct {
		name string
		cmd  *devices.Command
		err  error
	}{
		{"no kernel", launchOf(nil, 1, 1), mem.ErrInvalidKernel},
		{"too few arguments", launchOf(k, 64, 0, arg, arg), mem.ErrKernelArgs},
		{"too many arguments", launchOf(k, 64, 0, arg, arg, n, n), mem.ErrKernelArgs},
		{"a value for a buffer", launchOf(k, 64, 0, arg, n, n), mem.ErrArgValue},
		{"a value of the wrong size", launchOf(k, 64, 0, arg, arg, floatArg(1)), mem.ErrArgSize},
		{"past the block's end", launchOf(k, 64, 0, arg, bufferArg(b, 1, 64), n), mem.ErrInvalidValue},
		{"no work-items", launchOf(k, 0, 0, arg, arg, n), mem.ErrGlobalSize},
		{"a local size that does not divide", launchOf(k, 64, 3, arg, arg, n), mem.ErrWorkGroupSize},
		{"no dimensions", &devices.Command{Op: devices.OpLaunch, Kernel: k, Global: [3]uint64{1}, Args: []devices.Arg{arg, arg, n}}, mem.ErrWorkDimension},
		{"four dimensions", &devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 4, Global: [3]uint64{1, 1, 1}, Args: []devices.Arg{arg, arg, n}}, mem.ErrWorkDimension},
		{"too much local memory", launchOf(e.kernel(m, "histogram"), 64, 64, arg, arg, n, localArg(info.LocalMemory+1)), mem.ErrNoResources},
		{"no local memory", launchOf(e.kernel(m, "histogram"), 64, 64, arg, arg, n, localArg(0)), mem.ErrArgSize},
	} {
		_, err := q.Submit(c.cmd, nil)
		require.ErrorIs(e.t, err, c.err, c.name)
	}
	if most := info.MaxWorkGroup; most != 0 {
		_, err := q.Submit(launchOf(k, 2*most, 2*most, arg, arg, n), nil)
		want := mem.ErrWorkGroupSize
		if wide := info.MaxWorkItems[0]; wide != 0 && 2*most > wide { // OpenCL names the dimension first
			want = mem.ErrWorkItemSize
		}
		require.ErrorIs(e.t, err, want)
	}
	require.Equal(e.t, last, q.Timeline().Last(), "nothing was accepted")
}

// testPromises runs every kernel of the library over outputs filled with two
// different kinds of garbage: where the results differ, an argument declared
// Write is not all written.
func testPromises(e *env) {
	if !e.content {
		e.t.Skip("the device moves nothing")
	}
	m, q := e.build(), e.inOrder()
	const n, group = 256, 64
	for _, form := range kernels.Program().Go {
		if form.Args[0].Name == "pointers" {
			continue // garbage for addresses is a real device's crash
		}
		k := e.kernel(m, form.Name)
		require.Len(e.t, k.Args(), len(form.Args))
		for i, a := range k.Args() {
			require.Equal(e.t, form.Args[i].Kind, a.Kind, "kernel %s, argument %d", form.Name, i)
		}
		var results [2][]byte
		for i, garbage := range []byte{0x00, 0xa5} {
			results[i] = e.runOverGarbage(q, k, form.Args, n, group, garbage)
		}
		require.True(e.t, bytes.Equal(results[0], results[1]), "kernel %s promises to write what it does not", form.Name)
	}
}

// runOverGarbage launches a kernel of the library with all sizes n, outputs as
// large as it writes, and returns what the promised ones hold.
func (e *env) runOverGarbage(q devices.Queue, k devices.Kernel, args []devices.ArgInfo, n, group uint64, garbage byte) []byte {
	var cmd devices.Command
	var outputs, blocks []mem.Block
	defer func() {
		for _, b := range blocks {
			require.NoError(e.t, e.dev.Memory().FreeAfter(b, nil))
		}
	}()
	block := func(size uint64, fill byte) mem.Block {
		out := make([]mem.Block, 1)
		got, err := e.dev.Memory().AllocAll([]mem.Request{{Size: size}}, out, nil)
		require.NoError(e.t, err)
		require.Equal(e.t, mem.Ready, got)
		blocks = append(blocks, out[0])
		e.wait(q, e.fill(q, out[0], 0, size, []byte{fill}))
		return out[0]
	}
	// Matrices and grids have n elements in all, where others have n.
	side := map[string]uint64{"m": 16, "n": 16, "k": 16, "width": 16, "height": 16, "hi": 16, "rows": 16, "columns": 16}
	square := false
	for _, a := range args {
		square = square || a.Name == "m" || a.Name == "width" || a.Name == "rows"
	}
	for _, a := range args {
		width := map[string]uint64{"uchar": 1, "float": 4, "int": 4, "uint": 4, "double": 8, "ulong": 8}[a.Type]
		require.NotZero(e.t, width, "kernel %s, argument %s: type %q", k.Name(), a.Name, a.Type)
		switch {
		case a.Kind == devices.ArgLocal:
			cmd.Args = append(cmd.Args, localArg(256*width))
		case a.Kind == devices.ArgBuffer && a.Access == mem.Write:
			count := n
			if a.Name == "partial" {
				count = n / group
			}
			b := block(count*width, garbage)
			outputs = append(outputs, b)
			cmd.Args = append(cmd.Args, bufferArg(b, 0, b.Size))
		case a.Kind == devices.ArgBuffer:
			b := block(n*8, 0) // zeroes are good numbers of any type
			cmd.Args = append(cmd.Args, bufferArg(b, 0, b.Size))
		case a.Type == "ulong" && a.Name == "lo":
			cmd.Args = append(cmd.Args, ulongArg(0))
		case a.Type == "ulong" && square:
			cmd.Args = append(cmd.Args, ulongArg(side[a.Name]))
		case a.Type == "ulong":
			cmd.Args = append(cmd.Args, ulongArg(n))
		default:
			cmd.Args = append(cmd.Args, devices.Arg{Kind: devices.ArgValue, Value: make([]byte, width)})
		}
	}
	cmd.Op, cmd.Kernel, cmd.Dims = devices.OpLaunch, k, 1
	cmd.Global[0], cmd.Local[0] = n, group
	e.wait(q, e.submit(q, &cmd))
	var all []byte
	for _, b := range outputs {
		got := make([]byte, b.Size)
		e.wait(q, e.read(q, b, 0, got))
		all = append(all, got...)
	}
	return all
}
