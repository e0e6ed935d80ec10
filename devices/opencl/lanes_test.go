//go:build cgo

package opencl

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/mem"
)

// Each transition of the table is gone through by a command that is stopped on both sides of it,
// and no other transition is possible.
func TestEachTransitionOfARecord(t *testing.T) {
	d := open(t, 1, map[string]string{"bus": "on", "carve": "on", "events": "watch"})[0]
	h, users := d.host, mem.NewTimeline("user", false, nil)
	q := openQueue(t, d, devices.QueueOptions{Name: "q", OutOfOrder: true})
	b := alloc(t, d, 4096)
	of := func(p mem.Point) *record {
		h.mu.Lock()
		defer h.mu.Unlock()
		return q.flight.get(p.Seq)
	}
	in := func(r *record, want state) {
		require.Eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return r.state == want
		}, 10*time.Second, time.Millisecond)
	}
	end := func(p mem.Point, r *record) {
		require.NoError(t, q.Flush())
		finishPoint(t, q, p)
		in(r, free)
	}
	seen := make(map[[2]state]bool)
	path := func(r *record, states ...state) {
		for i, s := range states {
			if i > 0 {
				seen[[2]state{states[i-1], s}] = true
			}
		}
		in(r, states[len(states)-1])
	}
	read := func(awaited bool, waits ...mem.Wait) mem.Point {
		return run(t, q, &devices.Command{Op: devices.OpCopy, Awaited: awaited, Size: 4096, Src: devices.Loc{Device: d, Block: b}, Dst: devices.Loc{Bytes: make([]byte, 4096)}}, waits...)
	}

	native0 := gateOn(t, q) // of OpenCL's: what waits for it is native
	p := read(false, mem.Wait{Point: native0.Point})
	r := of(p)
	path(r, free, held, native)
	native0.end(t, 0)
	end(p, r)
	path(r, native, ended, free)

	bad := gateOn(t, q) // OpenCL does not run what waits for it
	gate := users.Next()
	p = read(false, mem.Wait{Point: bad.Point, Kind: mem.Order}, mem.Wait{Point: gate, Kind: mem.Order})
	r = of(p)
	in(r, held)
	users.End(gate, nil)
	path(r, held, native)
	bad.end(t, mem.OutOfResources)
	end(p, r)
	path(r, native, held, native, ended, free)

	running := make(chan struct{})
	p = run(t, q, &devices.Command{Op: devices.OpHostCall, Call: func(context.Context) error { <-running; return nil }})
	r = of(p)
	path(r, held, elsewhere)
	close(running)
	end(p, r)
	path(r, elsewhere, ended, free)

	gate = users.Next()
	p = read(false, mem.Wait{Point: gate, Kind: mem.Data})
	r = of(p)
	users.End(gate, errors.New("given up"))
	require.Error(t, q.Wait(context.Background(), p, devices.Park))
	path(r, held, ended, free)

	native0 = gateOn(t, q)
	p = read(true, mem.Wait{Point: native0.Point}) // left to its Wait, by which OpenCL gets it
	r = of(p)
	in(r, elsewhere)
	h.mu.Lock()
	h.awaitUnlocks(q, p, false)
	h.mu.Unlock()
	path(r, elsewhere, held, native)
	native0.end(t, 0)
	end(p, r)

	p = read(true)
	r = of(p)
	in(r, elsewhere)
	require.NoError(t, q.Wait(context.Background(), p, devices.BlockThread)) // in one call, in which nobody can wait for it
	path(r, elsewhere, native, ended, free)

	for from, to := range transitions {
		for s := free; s <= ended; s++ {
			allowed := to>>s&1 != 0
			require.Equal(t, allowed, seen[[2]state{state(from), s}], "from %d to %d", from, s)
			x := &record{life: life{state: state(from)}}
			if !allowed {
				require.Panics(t, func() { x.to(s) }, "from %d to %d", from, s)
			}
		}
	}
}

// A function that is called with a mutex and gives it up in between is called ...Unlocks, and is
// called by such functions and by those that have locked it themselves.
func TestWhoGivesUpALockSaysSo(t *testing.T) {
	n := 0
	sources(t, func(path, text string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			locks, says := false, strings.HasSuffix(f.Name.Name, "Unlocks")
			ast.Inspect(f, func(at ast.Node) bool {
				c, ok := at.(*ast.CallExpr)
				if !ok {
					return true
				}
				s, ok := c.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				name := s.Sel.Name
				switch {
				case name == "Lock":
					locks = true
				case (name == "Unlock" || strings.HasSuffix(name, "Unlocks")) && !locks:
					n++
					require.True(t, says, "%s: %s gives up a lock that it has not taken", path, f.Name.Name)
				}
				return true
			})
		}
	})
	require.Greater(t, n, 10)
}
