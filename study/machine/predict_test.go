package machine_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/virtual"
	"godwit/internal/mover"
	"godwit/mem"
	"godwit/study/machine"
)

// shrink is by how much less than was measured is moved here, over links that carry as
// much less: the times are the same, but for chunks, of which none is shorter than 64 KiB,
// and the test needs no gigabytes.
const shrink = 64

var perSecond = regexp.MustCompile(`([0-9.]+) ([GT])B/s`)

// study is a modelled machine whose mover is used as godwit bench migrate used that of
// the real one.
type study struct {
	*testing.T
	w      *virtual.World
	m      *mover.Mover
	blocks []mem.Block // by memory, of all bytes
	devs   []devices.Device
}

func builtIn(t *testing.T, name string) string {
	text, ok := machine.File(name)
	require.True(t, ok)
	return string(text)
}

// openLess is a machine whose links carry so many times less than the file says.
func openLess(t *testing.T, text string, shrink float64, size uint64, o virtual.Options) *study {
	less := perSecond.ReplaceAllStringFunc(text, func(s string) string {
		p := perSecond.FindStringSubmatch(s)
		v, err := strconv.ParseFloat(p[1], 64)
		require.NoError(t, err)
		return strconv.FormatFloat(v/shrink, 'f', 12, 64) + " " + p[2] + "B/s"
	})
	m := parse(t, less)
	w, err := virtual.New(m, o)
	require.NoError(t, err)
	s := &study{T: t, w: w, devs: append([]devices.Device{w.Host()}, w.Devices()...)}
	opts := mover.Options{Executor: w, Budget: 16 << 20}
	for _, d := range s.devs {
		opts.Memories = append(opts.Memories, mover.Memory{Device: d, Name: d.Info().Name})
	}
	s.m, err = mover.Open(opts)
	require.NoError(t, err)
	for _, d := range s.devs {
		out := make([]mem.Block, 1)
		outcome, err := d.Memory().AllocAll([]mem.Request{{Size: size, Align: 256}}, out, nil)
		require.NoError(t, err)
		require.Equal(t, mem.Ready, outcome)
		s.blocks = append(s.blocks, out[0])
	}
	t.Cleanup(func() {
		require.NoError(t, s.m.Close())
		for i, d := range s.devs {
			require.NoError(t, d.Memory().FreeAfter(s.blocks[i], nil))
			require.NoError(t, d.Close())
		}
	})
	return s
}

// move enqueues a copy of a part of all bytes from a memory to others, after a point.
func (s *study) move(way mem.Way, off, size uint64, after mem.Point, from int, to ...int) mem.Point {
	s.w.Enter(devices.Enqueue)
	t := &mover.Transfer{Way: way, From: mover.End{Memory: mem.MemoryID(from), Block: s.blocks[from], Off: off}, Size: size, Points: make([]mem.Point, len(to))}
	for _, d := range to {
		t.To = append(t.To, mover.End{Memory: mem.MemoryID(d), Block: s.blocks[d], Off: off})
	}
	if !after.IsZero() {
		t.Waits = []mem.Wait{{Point: after, Kind: mem.Data}}
	}
	require.NoError(s, s.m.Move(t))
	return t.Points[len(t.Points)-1]
}

// wait waits for points, and says how long it all took.
func (s *study) wait(points ...mem.Point) uint64 {
	for _, p := range points {
		require.NoError(s, s.m.Wait(context.Background(), p))
	}
	return s.w.Time()
}

// pair moves bytes from one device to another.
func (s *study) pair(way mem.Way, size uint64) uint64 {
	return s.wait(s.move(way, 0, size, mem.Point{}, 1, 2))
}

// star has each of three devices copy from the first, chain from the one before in pieces.
func (s *study) star(way mem.Way, size uint64) uint64 {
	var points []mem.Point
	for to := 2; to <= 4; to++ {
		points = append(points, s.move(way, 0, size, mem.Point{}, 1, to))
	}
	return s.wait(points...)
}

func (s *study) chain(way mem.Way, size uint64, pieces, last int) uint64 {
	var points []mem.Point
	piece := size / uint64(pieces)
	for k := range uint64(pieces) {
		var before mem.Point
		for to := 2; to <= last; to++ {
			before = s.move(way, k*piece, piece, before, to-1, to)
		}
		points = append(points, before)
	}
	return s.wait(points...)
}

// A ring as one flow takes what its chunks would take one by one, to 2 %: also where
// rings wait for each other, on engines that they share and over links that they share both ways.
func TestARingAsOneFlowTakesWhatItsChunksTake(t *testing.T) {
	const less, gib = 256, 1 << 30
	for _, c := range []struct {
		chunk        string
		pieces, last int
	}{{"", 1, 2}, {"", 2, 3}, {"", 4, 4}, {"", 16, 4}, {"", 64, 4}, {"chunk: 32 KiB\n", 16, 2}, {"chunk: 32 KiB\n", 4, 4}, {"chunk: 32 KiB\n", 32, 4}, {"chunk: 32 KiB\n", 64, 3}} {
		var took [2]uint64
		for i, o := range []virtual.Options{{}, {Exact: true}} {
			s := openLess(t, builtIn(t, "h200x4-pcie")+c.chunk, less, gib/less, o)
			took[i] = s.chain(mem.Ring, gib/less, c.pieces, c.last)
		}
		require.InEpsilon(t, took[1], took[0], 0.02, "%+v: %d ns, chunk by chunk %d", c, took[0], took[1])
	}
}

// What was measured on H200s (docs/measured.md), of one link both ways in the mean, and what the machines built in say. They
// are held to 5 %, but where docs/machines.md says that they are further off: more than that
// would be a change of the model.
func TestPredictionsBesideWhatWasMeasured(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	part := func(n uint64) func(*study, uint64) uint64 { // of a block
		return func(s *study, _ uint64) uint64 { return s.pair(mem.Direct, n/shrink) }
	}
	for _, c := range []struct {
		what, machine string
		measured      float64 // us
		percent       float64 // that it may be off
		size          uint64
		run           func(s *study, size uint64) uint64
	}{
		{"PCIe, one to three by a star, 1 GiB", "h200x4-pcie", 59_700, 5, gib, func(s *study, n uint64) uint64 { return s.star(mem.Ring, n) }},
		{"PCIe, one to three by a chain of 16 pieces, 1 GiB", "h200x4-pcie", 35_200, 5, gib, func(s *study, n uint64) uint64 { return s.chain(mem.Ring, n, 16, 4) }},
		{"PCIe, one to three by a chain of 64 pieces, 1 GiB", "h200x4-pcie", 37_000, 15, gib, func(s *study, n uint64) uint64 { return s.chain(mem.Ring, n, 64, 4) }},
		{"PCIe, one to three, each chunk read once, 1 GiB", "h200x4-pcie", 20_700, 5, gib, func(s *study, n uint64) uint64 {
			return s.wait(s.move(mem.Ring, 0, n, mem.Point{}, 1, 2, 3, 4))
		}},
		{"PCIe, one to one, 1 GiB", "h200x4-pcie", 20_050, 5, gib, func(s *study, n uint64) uint64 { return s.pair(mem.Ring, n) }},
		{"PCIe, one to one, 64 MiB", "h200x4-pcie", 1370, 5, 64 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Ring, n) }},
		{"NVLink, one to three by a star, 1 GiB", "h200x4-nvlink", 8150, 5, gib, func(s *study, n uint64) uint64 { return s.star(mem.Direct, n) }},
		{"NVLink, one to three by a chain of 32 pieces, 1 GiB", "h200x4-nvlink", 3220, 5, gib, func(s *study, n uint64) uint64 { return s.chain(mem.Direct, n, 32, 4) }},
		{"NVLink, one to one, 256 MiB", "h200x4-nvlink", 709, 5, 256 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
		{"NVLink, one to one, 64 MiB", "h200x4-nvlink", 189.5, 5, 64 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
		{"NVLink, one to one, 16 MiB", "h200x4-nvlink", 60.4, 5, 16 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
		{"NVLink by window, one to one, 1 GiB", "h200x4-nvlink", 2920, 5, gib, part(gib)},
		{"NVLink by window, one to one, 256 MiB of 1 GiB", "h200x4-nvlink", 744, 5, gib, part(256 * mib)},
		{"NVLink by window, one to one, 64 MiB of 1 GiB", "h200x4-nvlink", 203, 5, gib, part(64 * mib)},
		{"NVLink by window, one to one, 16 MiB of 1 GiB", "h200x4-nvlink", 83, 5, gib, part(16 * mib)},
		{"NVLink, 4 KiB of 1 GiB, by the host", "h200x4-nvlink", 26, 5, gib, part(4096)},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := c.size / shrink
			text := builtIn(t, c.machine)
			if strings.HasPrefix(c.what, "NVLink by") || strings.HasSuffix(c.what, "host") { // else all is linked
				text = strings.Replace(text, "from: 512 MiB", fmt.Sprintf("from: %d B", 512*mib/shrink), 1)
			}
			got := float64(c.run(openLess(t, text, shrink, n, virtual.Options{}), n)) / 1e3
			line := fmt.Sprintf("| %s | %.4g us | %.4g us | %+.1f %% |", c.what, c.measured, got, 100*(got/c.measured-1))
			t.Log(line)
			require.InEpsilon(t, c.measured, got, c.percent/100)
		})
	}
}
