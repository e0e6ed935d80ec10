// Package process keeps what a process must not leave behind when it has to end at
// once: children, temporary folders, files that are half written.
//
// A program's main makes a Guard and hands it down in a context. Whatever makes
// such a thing says to the context's guard how to undo it, and says so again when
// that is no longer needed. Where the program must end without unwinding (a second
// Ctrl-C), main calls Undo and exits. Without a guard in the context nothing is
// kept, and everything works as it would.
//
// What undoes must be quick and must not take locks that the rest of the program
// holds. A process that is killed outright (SIGKILL) undoes nothing, but its
// children are killed with it on Linux.
package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Guard is a list of what to undo. The zero value is ready. All methods are safe
// for use from many goroutines.
type Guard struct {
	mu     sync.Mutex
	undone bool           // protected by mu
	next   int            // protected by mu
	undo   map[int]func() // protected by mu
}

type guardKey struct{}

// With returns a context that carries g.
func With(ctx context.Context, g *Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

// Of is the guard of a context, or nil.
func Of(ctx context.Context) *Guard {
	g, _ := ctx.Value(guardKey{}).(*Guard)
	return g
}

// errEnding is that the process is about to exit, so that nothing more is made.
var errEnding = errors.New("the process is ending")

// Make runs create, which makes something and says how to undo it, and keeps that
// until done is called. Nothing made is missed: Undo waits for a create that is
// running, and after Undo Make fails. A nil guard keeps nothing.
func (g *Guard) Make(create func() (undo func(), err error)) (done func(), err error) {
	if g == nil {
		_, err := create()
		return func() {}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.undone {
		return nil, errEnding
	}
	undo, err := create()
	if err != nil {
		return nil, err
	}
	if g.undo == nil {
		g.undo = make(map[int]func())
	}
	i := g.next
	g.next++
	g.undo[i] = undo
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.undo, i)
	}, nil
}

// undoLimit is how long Undo waits for what it runs.
const undoLimit = time.Second

// Undo runs all that is kept, the youngest first, and returns when that is done or
// after a second.
func (g *Guard) Undo() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		g.mu.Lock()
		g.undone = true
		list := g.undo
		g.undo = nil
		g.mu.Unlock()
		for _, i := range slices.Backward(slices.Sorted(maps.Keys(list))) {
			list[i]()
		}
	}()
	select {
	case <-finished:
	case <-time.After(undoLimit):
	}
}

// TempDir makes a temporary folder in parent, as os.MkdirTemp does; "" is the default
// place. remove deletes it; ctx's guard does where that comes too late.
func TempDir(ctx context.Context, parent, pattern string) (dir string, remove func() error, err error) {
	done, err := Of(ctx).Make(func() (func(), error) {
		var err error
		dir, err = os.MkdirTemp(parent, pattern)
		return func() { _ = removeAll(dir) }, err
	})
	if err != nil {
		return "", nil, err
	}
	return dir, func() error {
		defer done()
		return removeAll(dir)
	}, nil
}

// removeAll removes dir though a child's child that was killed just now may still
// put a file there.
func removeAll(dir string) (err error) {
	for wait := time.Millisecond; wait < 200*time.Millisecond; wait *= 2 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(wait)
	}
	return err
}
