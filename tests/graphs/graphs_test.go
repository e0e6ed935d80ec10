// Rounds of real programs as lists of accesses, for tests of runtime.Graph: a training step, a decoder's token and a halo exchange. Sizes are
// those of the programs' arrays; kernels compute nothing.
package graphs_test

import (
	"fmt"

	"godwit/mem"
)

// Graph is one round of a program on some devices. Device d has memory d+1.
type Graph struct {
	Name     string
	Devices  int
	Buffers  []buffer
	Commands []command
}

// buffer is a buffer of a graph. Size in bytes. The content of a transient one ends with the round.
type buffer struct {
	Name      string
	Size      uint64
	Transient bool
}

// command is a launch on a device.
type command struct {
	Name   string
	Device int
	Uses   []use
}

// use is what a command does with some bytes of a buffer, which has a number.
type use struct {
	Buffer int
	Range  mem.Range
	Mode   mem.Mode
}

// add adds a buffer.
func (g *Graph) add(transient bool, size uint64, name string, of ...any) int {
	g.Buffers = append(g.Buffers, buffer{fmt.Sprintf(name, of...), size, transient})
	return len(g.Buffers) - 1
}

// run adds a command.
func (g *Graph) run(device int, name string, uses ...use) {
	g.Commands = append(g.Commands, command{name, device, uses})
}

func (g *Graph) use(mode mem.Mode, buffers ...int) (uses []use) {
	for _, b := range buffers {
		uses = append(uses, use{b, mem.Range{End: g.Buffers[b].Size}, mode})
	}
	return uses
}

// in, out and inOut use buffers whole.
func (g *Graph) in(buffers ...int) []use    { return g.use(mem.Read, buffers...) }
func (g *Graph) out(buffers ...int) []use   { return g.use(mem.Write, buffers...) }
func (g *Graph) inOut(buffers ...int) []use { return g.use(mem.ReadWrite, buffers...) }

// Accesses are those of the commands; a Buffer is a number.
func (g *Graph) Accesses() (list [][]mem.Access) {
	for _, c := range g.Commands {
		var accs []mem.Access
		for _, u := range c.Uses {
			accs = append(accs, mem.Access{Buffer: mem.BufferID(u.Buffer), Memory: mem.MemoryID(c.Device + 1), Range: u.Range, Mode: u.Mode})
		}
		list = append(list, accs)
	}
	return list
}

// Data is how many bytes a device's commands use; of transients the most that are in use at once.
func (g *Graph) Data(device int) (bytes uint64) {
	used, first, last := g.lives(device)
	var most uint64
	for i := range g.Commands {
		var now uint64
		for b := range g.Buffers {
			if used[b] && g.Buffers[b].Transient && first[b] <= i && i <= last[b] {
				now += g.Buffers[b].Size
			}
		}
		most = max(most, now)
	}
	for b := range g.Buffers {
		if used[b] && !g.Buffers[b].Transient {
			bytes += g.Buffers[b].Size
		}
	}
	return bytes + most
}

// lives says which buffers a device uses, and the first and the last command of all that uses each.
func (g *Graph) lives(device int) (used []bool, first, last []int) {
	used, first, last = make([]bool, len(g.Buffers)), make([]int, len(g.Buffers)), make([]int, len(g.Buffers))
	seen := make([]bool, len(g.Buffers))
	for i, c := range g.Commands {
		for _, u := range c.Uses {
			if !seen[u.Buffer] {
				first[u.Buffer], seen[u.Buffer] = i, true
			}
			last[u.Buffer], used[u.Buffer] = i, used[u.Buffer] || c.Device == device
		}
	}
	return used, first, last
}

// Widest is how many bytes a device's command uses at most.
func (g *Graph) Widest(device int) (most uint64) {
	for _, c := range g.Commands {
		var now uint64
		for k, u := range c.Uses {
			if first := !contains(c.Uses[:k], u.Buffer); first && c.Device == device {
				now += g.Buffers[u.Buffer].Size
			}
		}
		most = max(most, now)
	}
	return most
}

func contains(uses []use, buffer int) bool {
	for _, u := range uses {
		if u.Buffer == buffer {
			return true
		}
	}
	return false
}
