package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"godwit/devices"
	"godwit/internal/storage"
	"godwit/mem"
	"godwit/runtime"
)

// Pinning says when a PinnedPool locks pages.
type Pinning uint8

// PinAuto locks where it helps: some device of the context has memory of its own, and
// GODWIT_PINNED_H2D is not 0. PinAlways locks wherever the system can. PinNever does
// not: the pool lends ordinary host memory.
const (
	PinAuto Pinning = iota
	PinAlways
	PinNever
)

// PinnedOptions shape a PinnedPool. The zero value is a good default.
type PinnedOptions struct {
	Bins    Bins
	Pinning Pinning
	// Ceiling is what the pool may hold at most, in bytes: memory that is locked is
	// lost to everybody else. 0 is an eighth of the host's memory, up to 4 GiB. High
	// and Low are as in BoundedOptions.
	Ceiling, High, Low uint64
	// Resource, where not nil, is called for the memory of each NUMA node and returns
	// the stack of layers that blocks come from.
	Resource func(node int, base mem.Resource) mem.Resource
}

// PinnedPool is a pool of page-locked host memory of one context, to stage transfers
// in: devices read and write it without the help of the host. It has a BoundedPool's
// ceiling and buckets, for each NUMA node where there are several. Safe for use from
// many goroutines.
//
// Commands that move bytes from or to a loan are under way until their event ends;
// the host must not touch the bytes before. So memory given back with PutAfter goes to
// nobody, not even to the same queue, before its point has passed: here the pool
// differs from one of buffers, whose content only commands touch.
type PinnedPool struct {
	BoundedPool
	source devices.PageLocker                             // immutable; nil where nothing is locked
	own    *storage.Host                                  // immutable; not nil where nothing is locked
	off    string                                         // immutable: why nothing is locked
	nodes  []int                                          // immutable: where the device of each memory is
	layers func(node int, base mem.Resource) mem.Resource // immutable; may be nil

	mu      sync.Mutex
	sources map[int]*pinnedSource // protected by mu: by node
}

// pinnedSource is where the memory of one NUMA node comes from. Immutable.
type pinnedSource struct {
	res    mem.Resource // the top of the layers
	view   devices.Viewer
	memory devices.PinnedMemory // nil where nothing is locked
}

type pinnedKey struct{}

// Pinned returns the pool of the queue's context, made with default options at the
// first call and closed with the context. It fails like NewPinnedPool.
func Pinned(q *runtime.Queue) (*PinnedPool, error) {
	if q == nil {
		return nil, fmt.Errorf("pinned pool of no queue: %w", mem.ErrInvalidQueue)
	}
	c := q.Context()
	p, err := c.Attached(pinnedKey{}, func() (io.Closer, error) { return NewPinnedPool(c, PinnedOptions{}) })
	if err != nil {
		return nil, err
	}
	return p.(*PinnedPool), nil
}

// NewPinnedPool returns an empty pool for the transfers of c's devices, to be closed
// before c is. Its memory is that of the first device with memory of its own that can
// lock some; other devices of its platform are served by it as well. It fails with
// mem.ErrInvalidValue on options that make no sense.
func NewPinnedPool(c *runtime.Context, o PinnedOptions) (*PinnedPool, error) {
	if o.Bins > LeadingBits || o.Pinning > PinNever {
		return nil, fmt.Errorf("pinned pool with %v, pinning %d: %w", o.Bins, o.Pinning, mem.ErrInvalidValue)
	}
	if o.Ceiling == 0 {
		o.Ceiling = min(max(storage.PhysicalMemory()/8, 64<<20), 4<<30)
	}
	b := BoundedOptions{Options: Options{Bins: o.Bins}, Ceiling: o.Ceiling, High: o.High, Low: o.Low}
	if err := b.complete(); err != nil {
		return nil, err
	}
	p := &PinnedPool{layers: o.Resource, sources: make(map[int]*pinnedSource)}
	p.o = b
	p.init(c, b.Options, p.pin)
	p.choose(c, o.Pinning)
	return p, nil
}

// choose finds who locks pages, and where the devices are.
func (p *PinnedPool) choose(c *runtime.Context, how Pinning) {
	var some, discrete devices.PageLocker
	for i := range c.Topology().Len() {
		d, _ := c.Device(mem.MemoryID(i)) // there is one
		l, ok := d.(devices.PageLocker)
		node := devices.NodeAny
		if ok {
			node = l.NUMANode()
			if discrete == nil && i > 0 && !d.Info().SharesHost {
				discrete = l
			}
			if some == nil || i == 1 { // a device's rather than the host's
				some = l
			}
		}
		p.nodes = append(p.nodes, node)
	}
	switch {
	case how == PinNever:
		p.off = "not page-locked: the pool is told not to"
	case how == PinAlways && discrete == nil:
		p.source = some
	case how == PinAuto && os.Getenv("GODWIT_PINNED_H2D") == "0":
		p.off = "not page-locked: GODWIT_PINNED_H2D is 0"
	case discrete == nil:
		p.off = "not page-locked: no device of the context has memory of its own and can use it"
	default:
		p.source = discrete
	}
	if p.source == nil {
		p.own = storage.NewHost("pinned pool", 0)
	}
}

// at is where the memory of a node comes from.
func (p *PinnedPool) at(node int) (*pinnedSource, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sources[node]; s != nil {
		return s, nil
	}
	s := &pinnedSource{res: p.own, view: p.own}
	if p.source != nil {
		m, err := p.source.PinnedMemory(node)
		if err != nil {
			return nil, err
		}
		s = &pinnedSource{res: m, view: m, memory: m}
	}
	if p.layers != nil {
		s.res = p.layers(node, s.res)
	}
	p.sources[node] = s
	return s, nil
}

// Buckets are keyed by the flags; here they are the node.
func nodeFlags(node int) runtime.Flags { return runtime.Flags(node - devices.NodeAny) }
func flagsNode(f runtime.Flags) int    { return int(f) + devices.NodeAny }

// pin makes the memory of an entry.
func (p *PinnedPool) pin(e *entry, size uint64, flags runtime.Flags) error {
	s, err := p.at(flagsNode(flags))
	if err != nil {
		return err
	}
	b, err := storage.Allocate(s.res, s.view, size, 0)
	if errors.Is(err, mem.ErrNoHostMemory) {
		return fmt.Errorf("pinned memory: %s: %w", p.Locking().Why, err)
	}
	e.pin = &b
	return err
}

// Get lends page-locked memory of at least size bytes for transfers on q, near the
// device of q; q may be nil where that is not known. Where nothing is idle and the
// ceiling is reached it gives up idle memory of other sizes, then waits under ctx for
// commands whose memory was given back. It fails with mem.ErrInvalidSize,
// mem.ErrNoMemory where the loans leave no room under the ceiling,
// mem.ErrNoHostMemory where the system gives none, and with ctx's error.
func (p *PinnedPool) Get(ctx context.Context, q *runtime.Queue, size uint64) (Handle, error) {
	node := devices.NodeAny
	if q != nil {
		node = p.nodes[q.Memory()]
	}
	return p.BoundedPool.Get(ctx, nil, size, nodeFlags(node))
}

// Bytes is the memory on loan of a PinnedPool: Size bytes, with content left over from
// earlier use; nil for other loans, and once h was given back.
func (h Handle) Bytes() []byte {
	if h.e == nil || h.e.pin == nil || h.e.gen.Load() != h.gen {
		return nil
	}
	return h.e.pin.Bytes[:h.size:h.size]
}

// Locking says how much of the memory is page-locked, and if not all is, why.
func (p *PinnedPool) Locking() devices.Locking {
	sum := devices.Locking{Why: p.off}
	if p.own != nil {
		sum.Unlocked = p.Held()
		return sum
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		l := s.memory.Locking()
		sum.Locked += l.Locked
		sum.Unlocked += l.Unlocked
		if sum.Why == "" {
			sum.Why = l.Why
		}
	}
	return sum
}

// Clear gives idle memory back to the system. Memory that commands still use stays
// until they have ended: a later Clear, Trim or the ceiling gives it up.
func (p *PinnedPool) Clear() (uint64, error) { return p.Trim(0) }

// Close gives all memory back. It fails with mem.ErrInvalidOperation, and gives only
// idle memory back, where some is lent or in use.
func (p *PinnedPool) Close() error {
	_, err := p.Clear()
	if s := p.Stats(); s.Held > 0 {
		return errors.Join(err, fmt.Errorf("pinned pool closed with %d bytes lent and %d in use by commands: %w", s.Out, s.Waiting, mem.ErrInvalidOperation))
	}
	if p.own != nil {
		err = errors.Join(err, p.own.Close())
	}
	return err
}
