//go:build linux

package extern

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"godwit/study/alloc/replay"
)

// window is the number of lines sent before answers are read: they and their
// answers fit into the pipes, so that neither side waits for the other for ever.
// To a program that answers in batches larger ones are sent: their answers do, and it
// reads all lines.
const (
	window = 256
	batch  = 1024
)

// batches is what a program says that answers when it is asked to, by an empty line.
const batches = "batches"

// program is a process that reads and writes lines.
type program struct {
	pool     *Pool
	p        *remote
	in       *bufio.Reader
	out      bytes.Buffer
	st       *replay.Stream
	answers  []uint64
	heard    uint64 // answers to the command in progress
	batches  bool   // it wants an empty line behind what it should answer
	answered bool   // it has said something
}

func startProgram(pool *Pool, command string, st *replay.Stream) (child, error) {
	cmd := exec.CommandContext(pool.ctx, "/bin/sh", "-c", command)
	p, err := start(pool.ctx, cmd, pool.patience, func(in, out *os.File) { cmd.Stdin, cmd.Stdout = in, out })
	if err != nil {
		return nil, err
	}
	g := &program{pool: pool, p: p}
	g.in = bufio.NewReaderSize(patient{g}, 1<<14)
	g.load(st)
	return g, nil
}

// patient reads the program's answers, and gives up as remote.read does.
type patient struct{ g *program }

func (r patient) Read(b []byte) (int, error) {
	return r.g.p.read(b, func() uint64 { return r.g.heard })
}

func (g *program) load(st *replay.Stream) bool {
	g.st = st
	return true
}

func (g *program) healthy() bool { return !g.p.dead }
func (g *program) kill()         { g.p.kill() }

// Close gives the program back.
func (g *program) Close() error {
	g.pool.back(g)
	return nil
}

// Play is replay.Session's.
func (g *program) Play(ctx context.Context, size uint64, stop bool) ([]uint64, error) {
	g.answers = g.answers[:0]
	g.open(size)
	for rest := g.st.Ops; len(rest) > 0; {
		n := window
		if g.batches {
			n = batch
		}
		ops := rest[:min(n, len(rest))]
		rest = rest[len(ops):]
		if err := g.exchange(ctx, ops); err != nil {
			return g.answers, err
		}
		if stop && g.refused(len(ops)) {
			return g.answers, nil
		}
	}
	return g.answers, g.settle(ctx)
}

// settle waits until a stream that ends with a free is done with: frees have no answers,
// so one more request is sent, for the slot that became free. What goes wrong is
// the free's.
func (g *program) settle(ctx context.Context) error {
	last := g.st.Ops[len(g.st.Ops)-1]
	if last.Size != 0 {
		return nil
	}
	g.answers = g.answers[:len(g.answers)-1]
	err := g.exchange(ctx, []replay.Op{{Size: g.st.Align, Slot: last.Slot}})
	if err == nil {
		g.answers[len(g.answers)-1] = 0 // the free's
	}
	return err
}

// open puts the line that begins anew before the next ones.
func (g *program) open(size uint64) {
	g.out.Reset()
	g.heard = 0
	fmt.Fprintf(&g.out, "open %d %d\n", size, g.st.Slots)
}

// refused reports whether one of the last n answers is a refusal, and forgets what
// came after it.
func (g *program) refused(n int) bool {
	first := len(g.answers) - n
	for i, a := range g.answers[first:] {
		if a == replay.NoPlace && g.st.Ops[first+i].Size != 0 {
			g.answers = g.answers[:first+i+1]
			return true
		}
	}
	return false
}

// exchange sends operations and reads the answers to them.
func (g *program) exchange(ctx context.Context, ops []replay.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.p.dead {
		return errEnded
	}
	for _, op := range ops {
		if op.Size == 0 {
			fmt.Fprintf(&g.out, "f %d\n", op.Slot)
			continue
		}
		fmt.Fprintf(&g.out, "a %d %d %d %d\n", op.Slot, (op.Size+g.st.Align-1)&^(g.st.Align-1), g.st.Align, op.Life)
	}
	if g.batches {
		g.out.WriteByte('\n')
	}
	if err := g.send(); err != nil {
		return g.ended(err)
	}
	for _, op := range ops {
		answer := uint64(0)
		if op.Size != 0 {
			var err error
			if answer, err = g.answer(); err != nil {
				return err
			}
		}
		g.answers = append(g.answers, answer)
	}
	return nil
}

// send writes what is waiting, within the time of patience: a program that reads
// nothing hangs.
func (g *program) send() error {
	if err := g.p.writeDeadline(); err != nil {
		return err
	}
	_, err := g.out.WriteTo(g.p.to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errHang
	}
	return err
}

func (g *program) answer() (uint64, error) {
	line, err := g.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return 0, g.nonsense(line[:40])
	}
	if err != nil {
		return 0, g.ended(err)
	}
	line = bytes.TrimSpace(line)
	if !g.answered && string(line) == batches {
		return g.inBatches()
	}
	g.heard++
	g.answered = true
	if string(line) == "-" {
		return replay.NoPlace, nil
	}
	addr, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil || addr == replay.NoPlace {
		return 0, g.nonsense(line)
	}
	return addr, nil
}

// inBatches asks for the answers to what was sent before it was known that the program
// wants to be asked, and reads the first.
func (g *program) inBatches() (uint64, error) {
	g.batches, g.answered = true, true
	g.out.WriteByte('\n')
	if err := g.send(); err != nil {
		return 0, g.ended(err)
	}
	return g.answer()
}

func (g *program) nonsense(line []byte) error {
	g.p.kill()
	return g.pool.fault(replay.Nonsense, len(g.answers), "the answer %q is neither an address nor -", line[:min(len(line), 40)])
}

func (g *program) ended(err error) error {
	how := g.p.kill()
	if errors.Is(err, errHang) {
		return g.pool.ended(g.pool.fault(replay.Hang, len(g.answers), "no answer in %v", g.p.patience))
	}
	if !errors.Is(err, io.EOF) && how == "" {
		how = err.Error()
	}
	return g.pool.ended(g.pool.fault(replay.Crash, len(g.answers), "its process ended: %s", how))
}

// Time is replay.Session's: not by lines.
func (g *program) Time(context.Context, uint64, int, []float64, []float64) (int, bool, error) {
	return 0, false, nil
}

// Step is replay.Session's.
func (g *program) Step(_ context.Context, size uint64) (replay.Stepper, error) {
	g.answers = g.answers[:0]
	g.open(size)
	return g, nil
}

// Do is replay.Stepper's.
func (g *program) Do(ctx context.Context, op replay.Op) (uint64, error) {
	if err := g.exchange(ctx, []replay.Op{op}); err != nil {
		return 0, err
	}
	return g.answers[len(g.answers)-1], nil
}
