package resource

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/mem"
)

// Track remembers who holds what: for every live block the request's tag, a
// name given later (Name), the time and the stack of the caller.
type Track struct {
	base
	depth int // immutable: stack frames kept; 0 keeps none

	mu   sync.Mutex
	live map[mem.Block]*Holding // protected by mu
	seq  uint64                 // protected by mu
}

// Holding is one live block and where it came from.
type Holding struct {
	Block mem.Block
	Tag   uint64 // of the request
	Name  string // by Name; empty where nobody said
	Since time.Time
	seq   uint64
	stack []uintptr
}

// Stack prints the frames that asked for the block, one a line.
func (h Holding) Stack() string {
	if len(h.stack) == 0 {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(h.stack)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s:%d %s\n", f.File, f.Line, f.Function)
		if !more {
			return b.String()
		}
	}
}

// NewTrack returns a tracking layer that keeps depth stack frames of each
// request (0 for none: stacks cost about a microsecond).
func NewTrack(up mem.Resource, depth int) *Track {
	return &Track{base: base{up}, depth: max(depth, 0), live: make(map[mem.Block]*Holding)}
}

// String names the layer.
func (t *Track) String() string { return "track" }

// AllocAll remembers the blocks it could get.
func (t *Track) AllocAll(reqs []mem.Request, out []mem.Block, reuse *mem.Reuse) (mem.Outcome, error) {
	o, err := t.Resource.AllocAll(reqs, out, reuse)
	if err != nil || o != mem.Ready {
		return o, err
	}
	var stack []uintptr
	if t.depth > 0 {
		stack = make([]uintptr, t.depth)
		stack = stack[:runtime.Callers(2, stack)]
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, b := range out {
		t.seq++
		t.live[b] = &Holding{Block: b, Tag: reqs[i].Tag, Since: now, seq: t.seq, stack: stack}
	}
	return o, nil
}

// FreeAfter forgets the block.
func (t *Track) FreeAfter(b mem.Block, after []mem.Point) error {
	t.mu.Lock()
	h, ok := t.live[b]
	delete(t.live, b) // before it can be given out again below
	t.mu.Unlock()
	if !ok {
		return notLive("track", b)
	}
	if err := t.Resource.FreeAfter(b, after); err != nil {
		t.mu.Lock()
		t.live[b] = h
		t.mu.Unlock()
		return err
	}
	return nil
}

// Name names a live block in reports. A block that is not live is an error.
func (t *Track) Name(b mem.Block, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.live[b]
	if !ok {
		return notLive("track", b)
	}
	h.Name = name
	return nil
}

// Holdings lists the live blocks, largest first, oldest first among equals.
func (t *Track) Holdings() []Holding {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Holding, 0, len(t.live))
	for _, h := range t.live {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Block.Size, a.Block.Size), cmp.Compare(a.seq, b.seq))
	})
	return all
}
