package scenario

import (
	"context"
	"fmt"
	"math"

	"github.com/goccy/go-yaml/ast"

	"godwit/runtime"
)

// setKind is the end of a user event.
type setKind struct{ base }

func (setKind) shapes() []*shape {
	return []*shape{{name: "set", what: "set", keys: append(of("set", aWord, "a user event"), key{"status", aNumber, false, "negative: it fails"})}}
}

func (setKind) parse(l *loader, m *mapping, c *command) {
	name := l.expanded(m.get("set"), "set")
	w, ok := l.ids[name]
	switch {
	case name == "":
		l.faults++
	case !ok || w.event < 0:
		l.errorf(m.get("set"), "set %q: no user event has this name; declare it under events", name)
	case l.out.Events[w.event].Set >= 0:
		l.errorf(m.get("set"), "set %q: it was set in line %d: a user event is set once", name, l.out.Commands[l.out.Events[w.event].Set].Line)
	default:
		c.Event, c.Status = w.event, runtime.Complete
		if n := m.get("status"); n != nil {
			l.readStatus(n, c)
		}
		l.out.Events[w.event].Set = len(l.out.Commands)
	}
}

// readStatus reads with which status a user event fails.
func (l *loader) readStatus(n ast.Node, c *command) {
	before := l.faults
	v := l.number(n, "set: status")
	if (v >= 0 || v < math.MinInt32) && l.faults == before {
		l.errorf(n, "set: status is %d: want a negative one, such as an OpenCL error's", v)
		return
	}
	c.Status = runtime.ExecStatus(v)
	if l.track.failed == 0 {
		l.track.failed = c.Line
	}
}

func (setKind) text(s *Scenario, c *command) string {
	if c.Status < 0 {
		return fmt.Sprintf("set %s to status %d", s.Events[c.Event].Name, c.Status)
	}
	return "set " + s.Events[c.Event].Name
}

func (setKind) enqueue(_ context.Context, r *runner, i int, _ *runtime.Queue, _ []runtime.Event) (runtime.Event, error) {
	c := &r.s.Commands[i]
	return runtime.Event{}, r.user[c.Event].SetStatus(c.Status)
}
