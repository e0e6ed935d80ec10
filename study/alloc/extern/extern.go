package extern

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"godwit/mem"
	"godwit/study/alloc/replay"
)

// Options say how children are treated.
type Options struct {
	Patience time.Duration // without progress for so long, a child hangs, or for 5 s while it starts; 0 is 5 s
}

const defaultPatience = 5 * time.Second

// Is reports whether name asks for an allocator outside: lib:… or exec:….
func Is(name string) bool {
	return strings.HasPrefix(name, "lib:") || strings.HasPrefix(name, "exec:")
}

// Pool is an allocator outside as a replay.Remote, with the children that are not
// in use. Safe for use from many goroutines.
type Pool struct {
	ctx      context.Context //nolint:containedctx // what its children's lives are bound to
	name     string
	patience time.Duration
	spawn    func(st *replay.Stream) (child, error)

	mu     sync.Mutex
	idle   []child // protected by mu
	closed bool    // protected by mu
}

// child is one process.
type child interface {
	replay.Session
	// load makes it ready for a stream; false where it has no room for it.
	load(st *replay.Stream) bool
	// healthy reports that it can be used again.
	healthy() bool
	kill()
}

// Open prepares the allocator of that name. A process starts with the first
// session: whether the library or the command exists shows then. It fails with
// mem.ErrInvalidValue for any other name. Its processes end with Close, or where ctx
// does at once: what waits for one then fails with ctx's error, and no allocator is
// to blame.
func Open(ctx context.Context, name string, o Options) (*Pool, error) {
	kind, rest, _ := strings.Cut(name, ":")
	p := &Pool{ctx: ctx, name: name, patience: o.Patience}
	if p.patience == 0 {
		p.patience = defaultPatience
	}
	switch {
	case rest == "" || p.patience < 0:
	case kind == "lib":
		p.spawn = func(st *replay.Stream) (child, error) { return startHost(p, rest, st) }
		return p, nil
	case kind == "exec":
		p.spawn = func(st *replay.Stream) (child, error) { return startProgram(p, rest, st) }
		return p, nil
	}
	return nil, fmt.Errorf("%q: want lib:PATH or exec:COMMAND: %w", name, mem.ErrInvalidValue)
}

// Name is the name it was opened with.
func (p *Pool) Name() string { return p.name }

// Session hands st to an idle child or to a new one.
func (p *Pool) Session(ctx context.Context, st *replay.Stream) (replay.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	var c child
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if c != nil {
		if c.load(st) {
			return c, nil
		}
		c.kill()
	}
	return p.spawn(st)
}

// back takes a child that a session is done with.
func (p *Pool) back(c child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !c.healthy() {
		c.kill()
		return
	}
	p.idle = append(p.idle, c)
}

// Close ends the idle children; those in use end with their sessions.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.kill()
	}
	p.idle = nil
	return nil
}

// ended is err, or where the children's context has ended its error: then they were
// killed.
func (p *Pool) ended(err error) error {
	if cerr := p.ctx.Err(); cerr != nil {
		return cerr
	}
	return err
}

// fault is a defect of the allocator outside.
func (p *Pool) fault(kind replay.FaultKind, op int, format string, args ...any) *replay.Fault {
	return &replay.Fault{Subject: p.name, Kind: kind, Op: op, Detail: fmt.Sprintf(format, args...)}
}

var errEnded = errors.New("extern: the session is over")
