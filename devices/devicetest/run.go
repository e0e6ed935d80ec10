package devicetest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// runTest is a run of launches over some blocks beside what these are to hold.
type runTest struct {
	*env
	q      devices.Queue
	dice   *rand.Rand
	cmds   []devices.Command // the first with the others as its run
	from   []int             // of each launch, by number of the block; -1 is a fill
	to     []int
	blocks []mem.Block
	want   [][]byte
}

const runBytes = 64

// testRuns gives a queue the same run again and again, with other blocks and values, at once and held behind a gate, and
// takes the caller's memory away each time.
func testRuns(e *env) {
	m, q := e.build(), e.inOrder()
	r, ok := q.(devices.Runner)
	if !ok || !r.InRun(devices.OpLaunch) {
		e.t.Skip("its queues take no runs")
	}
	x := &runTest{env: e, q: q, dice: rand.New(rand.NewPCG(7, 7))}
	for i := range 4 {
		x.blocks, x.want = append(x.blocks, e.alloc(runBytes)), append(x.want, noise(uint64(i), runBytes))
		e.wait(q, e.write(q, x.blocks[i], 0, x.want[i]))
	}
	for _, n := range []int{1, 2, 7, 16} {
		x.make(m, n)
		for range 20 {
			x.replay()
		}
	}
	x.fails()
}

// make draws the launches of a run.
func (x *runTest) make(m devices.Module, n int) {
	copies, fills := x.kernel(m, "copy"), x.kernel(m, "fill_i32")
	x.cmds, x.from, x.to = make([]devices.Command, n), make([]int, n), make([]int, n)
	for i := range x.cmds {
		k := copies
		if x.dice.IntN(2) == 0 {
			k, x.from[i] = fills, -1
		}
		args := make([]devices.Arg, len(k.Args()))
		for a, info := range k.Args() {
			if args[a].Kind = info.Kind; info.Kind == devices.ArgValue {
				args[a].Value = make([]byte, info.Size)
			}
		}
		x.cmds[i] = devices.Command{Op: devices.OpLaunch, Kernel: k, Dims: 1, Global: [3]uint64{8}, Args: args}
		x.draw(i)
	}
	x.cmds[0].Run = &devices.Run{Then: x.cmds[1:]}
}

// draw has a launch use other blocks and values.
func (x *runTest) draw(i int) {
	args := x.cmds[i].Args
	dst, n := 0, uint64(runBytes/4)
	if x.to[i] = x.dice.IntN(len(x.blocks)); x.from[i] < 0 {
		binary.LittleEndian.PutUint32(args[1].Value, x.dice.Uint32())
	} else {
		x.from[i] = (x.to[i] + 1 + x.dice.IntN(len(x.blocks)-1)) % len(x.blocks)
		args[0].Block, args[0].Size, dst, n = x.blocks[x.from[i]], runBytes, 1, runBytes
	}
	args[dst].Block, args[dst].Size = x.blocks[x.to[i]], runBytes
	binary.LittleEndian.PutUint64(args[2].Value, n)
}

// replay submits the run, perhaps changed, and compares all blocks.
func (x *runTest) replay() {
	if x.dice.IntN(3) > 0 {
		i := x.dice.IntN(len(x.cmds))
		x.draw(i)
		x.cmds[0].Run.Changed = true
	}
	if x.dice.IntN(8) == 0 {
		x.cmds[0].Run.Form = nil
	}
	line := users()
	gate := line.Next()
	held := x.dice.IntN(2) == 0
	if !held {
		line.End(gate, nil)
	}
	p := x.submit(x.q, &x.cmds[0], data(gate))
	x.apply()
	if held { // the next one is submitted before this one can begin
		for i := range x.cmds {
			x.draw(i)
		}
		x.cmds[0].Run.Changed = true
		next := x.submit(x.q, &x.cmds[0])
		x.apply()
		require.False(x.t, p.Reached() || next.Reached())
		line.End(gate, nil)
		x.wait(x.q, p, next)
	}
	x.wait(x.q, p)
	x.compare("after a run")
}

// apply does what the run does.
func (x *runTest) apply() {
	for i := range x.cmds {
		if from := x.from[i]; from >= 0 {
			copy(x.want[x.to[i]], x.want[from])
		} else {
			copy(x.want[x.to[i]], bytes.Repeat(x.cmds[i].Args[1].Value[:4], runBytes/4))
		}
	}
}

func (x *runTest) compare(what string) {
	for i, b := range x.blocks {
		got := make([]byte, runBytes)
		x.wait(x.q, x.read(x.q, b, 0, got))
		x.equal(x.want[i], got, what)
	}
}

// fails has what a run waits for fail: nothing of it runs, and what is behind it does.
func (x *runTest) fails() {
	line := users()
	gate := line.Next()
	p := x.submit(x.q, &x.cmds[0], data(gate))
	behind := x.submit(x.q, marker())
	line.End(gate, errTest)
	require.ErrorIs(x.t, x.failed(p), errTest)
	x.wait(x.q, behind)
	x.compare("a run that failed before it began")
	gate = line.Next()
	p = x.submit(x.q, &x.cmds[0], order(gate))
	line.End(gate, errTest)
	x.wait(x.q, p)
	x.apply()
	x.compare("a run that failed only what it was behind")
}
