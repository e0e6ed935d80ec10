// Package metamorphic runs one random history of commands over many
// configurations of devices and compares every byte read with one flat memory.
//
// A history is data: buffers, overlapping sub-buffers, commands on logical
// queues, wait lists, user events that hold commands back. It means the same
// whatever runs it, since commands that touch the same bytes take effect in
// enqueue order. Run replays it on a configuration (kinds and number of devices,
// peer routes or not, allocation strategy, queue order) beside the model, checks
// the context's invariants after every step, and counts the bytes that moved
// against the oracle's lower bound. A history that fails can be shrunk and
// saved.
package metamorphic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
)

// Align is the alignment in bytes of sub-buffer origins in histories; devices
// must accept it.
const Align = 128

// LogicalQueues is how many queues a history speaks of. A configuration maps
// them to those it has.
const LogicalQueues = 8

// Kind is what an operation does.
type Kind string

// The kinds of operations. User makes an event that holds back those that wait
// for it, until Set or Finish. Renew releases a root buffer and its sub-buffers,
// perhaps in use, and makes new ones without content.
const (
	Write   Kind = "write"
	Read    Kind = "read"
	Copy    Kind = "copy"
	Fill    Kind = "fill"
	Mix     Kind = "mix"     // launch: dst[i] = 31*dst[i] + src[i] + salt
	Produce Kind = "produce" // launch that promises to write all of dst: dst[i] = 7*i + salt
	Reverse Kind = "reverse" // launch that promises to write all of dst: dst[i] = src[n-1-i]
	Migrate Kind = "migrate"

	WriteRect Kind = "write-rect"
	ReadRect  Kind = "read-rect"
	CopyRect  Kind = "copy-rect"

	// A map, a host call that uses the mapped bytes, and an unmap.
	MapRead       Kind = "map-read"
	MapWrite      Kind = "map-write"
	MapInvalidate Kind = "map-invalidate"

	Marker  Kind = "marker"
	Barrier Kind = "barrier"
	User    Kind = "user"
	Set     Kind = "set"
	Finish  Kind = "finish"
	Renew   Kind = "renew"
)

// Op is one operation. ID is its name in wait lists; names of operations that
// are not there (any more) mean nothing.
type Op struct {
	ID             int
	Kind           Kind
	Queue          int    `json:",omitempty"`
	Dst, Src       int    `json:",omitempty"` // views
	DstOff, SrcOff int    `json:",omitempty"` // bytes of the views
	Size           int    `json:",omitempty"` // bytes; of a row of a rectangle
	Rows           int    `json:",omitempty"` // of a rectangle
	DstRow, SrcRow int    `json:",omitempty"` // row pitches of a rectangle in bytes
	Salt           uint32 `json:",omitempty"`
	Host           bool   `json:",omitempty"` // Migrate: to the host
	Undefined      bool   `json:",omitempty"` // Migrate: without content
	Wait           []int  `json:",omitempty"`
	Ref            int    `json:",omitempty"` // Set: the user event
	Fail           bool   `json:",omitempty"` // Set: to a failure
}

// View is a buffer or, where Sub is set, a sub-buffer of the root.
type View struct {
	Root         int
	Origin, Size int // bytes
	Sub          bool
}

// History is what is replayed.
type History struct {
	Seed  uint64
	Roots []int  // sizes in bytes
	Init  []bool // roots made with content
	Views []View
	Ops   []Op

	// Failing says that some user events fail, and with them what waits for
	// them, and what reads what that was to write.
	Failing bool
}

// String is one line that finds the history again.
func (h *History) String() string {
	return fmt.Sprintf("seed %d: %d buffers, %d views, %d operations", h.Seed, len(h.Roots), len(h.Views), len(h.Ops))
}

// Save writes h as JSON.
func (h *History) Save(path string) error {
	b, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// Load reads a history that Save wrote.
func Load(path string) (*History, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := new(History)
	return h, json.Unmarshal(b, h)
}

// generator draws a history.
type generator struct {
	*rand.Rand
	h     *History
	users []int // user events not set yet
	// How often each kind is drawn, itself drawn, so that histories differ in
	// character: some write, some read, some are held back most of the time.
	weights []weight
	total   int
	waits   float64
}

type weight struct {
	kind Kind
	n    int
}

// Generate draws a history of n operations.
func Generate(seed uint64, n int) *History {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), h: &History{Seed: seed}}
	g.character()
	g.buffers()
	g.ops(n)
	return g.h
}

// GenerateFailing draws a history of n operations in which about every other
// user event fails.
func GenerateFailing(seed uint64, n int) *History {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), h: &History{Seed: seed, Failing: true}}
	g.character()
	g.weigh(User, 2)
	g.weigh(Set, 2)
	g.buffers()
	g.ops(n)
	return g.h
}

// drawOver draws n operations over the buffers of h.
func drawOver(h *History, seed uint64, n int) *History {
	other := *h
	other.Seed, other.Ops = seed, nil
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), h: &other}
	g.character()
	g.ops(n)
	return g.h
}

// character draws how often each kind comes.
func (g *generator) character() {
	for _, k := range []Kind{Write, Read, Copy, Fill, Mix, Produce, Reverse} {
		g.weigh(k, 1+g.IntN(10))
	}
	for _, k := range []Kind{WriteRect, ReadRect, CopyRect, MapRead, MapWrite, MapInvalidate} {
		g.weigh(k, g.IntN(6))
	}
	for _, k := range []Kind{Migrate, Marker, Barrier, User, Set} {
		g.weigh(k, g.IntN(4))
	}
	g.weigh(Finish, g.IntN(2))
	g.weigh(Renew, g.IntN(2))
	g.waits = g.Float64() * 0.6
}

func (g *generator) ops(n int) {
	for id := range n {
		g.h.Ops = append(g.h.Ops, g.op(id))
	}
}

func (g *generator) weigh(k Kind, n int) {
	g.weights = append(g.weights, weight{k, n})
	g.total += n
}

// buffers draws roots and views, sub-buffers mostly overlapping.
func (g *generator) buffers() {
	for root := range 1 + g.IntN(4) {
		size := Align * (1 + g.IntN(32))
		if g.IntN(3) == 0 {
			size += g.IntN(Align)
		}
		g.h.Roots = append(g.h.Roots, size)
		g.h.Init = append(g.h.Init, g.IntN(2) == 0)
		g.h.Views = append(g.h.Views, View{Root: root, Size: size})
		for range g.IntN(4) {
			origin := Align * g.IntN((size+Align-1)/Align)
			g.h.Views = append(g.h.Views, View{Root: root, Origin: origin, Size: 1 + g.IntN(size-origin), Sub: true})
		}
	}
}

func (g *generator) kind() Kind {
	n := g.IntN(g.total)
	for _, w := range g.weights {
		if n -= w.n; n < 0 {
			return w.kind
		}
	}
	panic("weights do not add up")
}

func (g *generator) op(id int) Op {
	op := Op{ID: id, Kind: g.kind(), Queue: g.IntN(LogicalQueues), Salt: g.Uint32()}
	for g.Float64() < g.waits && id > 0 && len(op.Wait) < 4 {
		w := g.IntN(id)
		if len(g.users) > 0 && g.IntN(4) == 0 {
			w = g.users[g.IntN(len(g.users))]
		}
		op.Wait = append(op.Wait, w)
	}
	switch op.Kind {
	case WriteRect, ReadRect:
		op.Dst = g.IntN(len(g.h.Views))
		g.rect(&op, g.h.Views[op.Dst].Size)
		op.DstOff = g.IntN(g.h.Views[op.Dst].Size - extent(op.Size, op.Rows, op.DstRow) + 1)
	case CopyRect:
		if !g.rectPair(&op) {
			op.Kind = Marker
		}
	case Write, Read, Fill, Produce, MapRead, MapWrite, MapInvalidate:
		op.Dst = g.IntN(len(g.h.Views))
		op.DstOff, op.Size = g.span(g.h.Views[op.Dst].Size)
	case Copy, Mix, Reverse:
		if !g.pair(&op) {
			op.Kind = Marker
		}
	case Migrate:
		op.Dst, op.Host, op.Undefined = g.IntN(len(g.h.Views)), g.IntN(3) == 0, g.IntN(6) == 0
	case User:
		g.users = append(g.users, id)
	case Set:
		if len(g.users) == 0 {
			op.Kind = Marker
			break
		}
		i := g.IntN(len(g.users))
		op.Ref, op.Fail = g.users[i], g.h.Failing && g.IntN(2) == 0
		g.users = append(g.users[:i], g.users[i+1:]...)
	case Finish:
		g.users = nil
	case Renew:
		op.Dst = g.IntN(len(g.h.Roots))
	}
	return op
}

// span draws a range of a view: often all of it, often its ends.
func (g *generator) span(size int) (off, n int) {
	if g.IntN(4) == 0 {
		return 0, size
	}
	off = g.IntN(size)
	n = 1 + g.IntN(size-off)
	if g.IntN(4) == 0 {
		n = size - off
	}
	return off, n
}

// extent is how far a rectangle reaches from its first byte.
func extent(size, rows, pitch int) int { return (rows-1)*pitch + size }

// rect draws a rectangle that fits into limit bytes.
func (g *generator) rect(op *Op, limit int) {
	op.Size = 1 + g.IntN(min(limit, 64))
	op.DstRow = op.Size + g.IntN(32)
	op.Rows = 1 + g.IntN(min((limit-op.Size)/op.DstRow+1, 24))
	op.SrcRow = op.DstRow
}

// rectPair draws a rectangle, and where it is in a source and a destination that
// share no byte; false where luck fails it.
func (g *generator) rectPair(op *Op) bool {
	for range 20 {
		op.Dst, op.Src = g.IntN(len(g.h.Views)), g.IntN(len(g.h.Views))
		dst, src := g.h.Views[op.Dst], g.h.Views[op.Src]
		g.rect(op, min(dst.Size, src.Size))
		if op.Dst != op.Src && g.IntN(2) == 0 {
			op.SrcRow = op.Size
		}
		op.DstOff = g.IntN(dst.Size - extent(op.Size, op.Rows, op.DstRow) + 1)
		op.SrcOff = g.IntN(src.Size - extent(op.Size, op.Rows, op.SrcRow) + 1)
		if dst.Root != src.Root || !g.rowsMeet(op, dst.Origin, src.Origin) {
			return true
		}
	}
	return false
}

// rowsMeet compares every row with every other.
func (g *generator) rowsMeet(op *Op, dst, src int) bool {
	for i := range op.Rows {
		for j := range op.Rows {
			d, s := dst+op.DstOff+i*op.DstRow, src+op.SrcOff+j*op.SrcRow
			if d < s+op.Size && s < d+op.Size {
				return true
			}
		}
	}
	return false
}

// pair draws a source and a destination of one size that share no byte; false
// where luck fails it.
func (g *generator) pair(op *Op) bool {
	for range 20 {
		op.Dst, op.Src = g.IntN(len(g.h.Views)), g.IntN(len(g.h.Views))
		dst, src := g.h.Views[op.Dst], g.h.Views[op.Src]
		op.DstOff, op.Size = g.span(min(dst.Size, src.Size))
		op.SrcOff = g.IntN(src.Size - op.Size + 1)
		d, s := dst.Origin+op.DstOff, src.Origin+op.SrcOff
		if dst.Root != src.Root || d+op.Size <= s || s+op.Size <= d {
			return true
		}
	}
	return false
}
