package machine_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/model"
	"godwit/devices/model/machine"
	"godwit/devices/mover"
	"godwit/mem"
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
	w      *model.World
	m      *mover.Mover
	blocks []mem.Block // by memory, of all bytes
	devs   []devices.Device
}

func open(t *testing.T, name string, size uint64) *study {
	return openLess(t, name, "", shrink, size, model.Options{})
}

// openLess is a machine built in with more keys, whose links carry so many times less.
func openLess(t *testing.T, name, more string, shrink float64, size uint64, o model.Options) *study {
	text, ok := machine.File(name)
	require.True(t, ok)
	less := perSecond.ReplaceAllStringFunc(string(text), func(s string) string {
		p := perSecond.FindStringSubmatch(s)
		v, err := strconv.ParseFloat(p[1], 64)
		require.NoError(t, err)
		return strconv.FormatFloat(v/shrink, 'f', 12, 64) + " " + p[2] + "B/s"
	})
	m := parse(t, less+more)
	w, err := model.New(m, o)
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
		for i, o := range []model.Options{{}, {Exact: true}} {
			s := openLess(t, "h200x4-pcie", c.chunk, less, gib/less, o)
			took[i] = s.chain(mem.Ring, gib/less, c.pieces, c.last)
		}
		require.InEpsilon(t, took[1], took[0], 0.02, "%+v: %d ns, chunk by chunk %d", c, took[0], took[1])
	}
}

// What was measured on H200s (docs/measured.md), and what the machines built in say. They
// are held to 5 %, but where docs/machines.md says that they are further off: more than that
// would be a change of the model.
func TestPredictionsBesideWhatWasMeasured(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
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
		{"NVLink, one to one, 256 MiB", "h200x4-nvlink", 707, 5, 256 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
		{"NVLink, one to one, 64 MiB", "h200x4-nvlink", 189, 5, 64 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
		{"NVLink, one to one, 16 MiB", "h200x4-nvlink", 62.3, 10, 16 * mib, func(s *study, n uint64) uint64 { return s.pair(mem.Direct, n) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := c.size / shrink
			got := float64(c.run(open(t, c.machine, n), n)) / 1e3
			line := fmt.Sprintf("| %s | %.4g us | %.4g us | %+.1f %% |", c.what, c.measured, got, 100*(got/c.measured-1))
			t.Log(line)
			require.InEpsilon(t, c.measured, got, c.percent/100)
		})
	}
}
