package scenario

import "godwit/internal/expr"

// A repeat is no command: it is unrolled when it is read.
var repeatShape = &shape{name: "repeat", what: "repeat", keys: []key{
	{"repeat", aNumber, true, "how often"}, {"as", aWord, false, "a name: 0, 1, 2, …"}, {"do", listOf(object("command")), true, "the commands to repeat"},
	{"graph", aFlag, false, "record one round, and replay it"}, {"transient", someWords, false, "buffers of a graph whose content ends with each round"},
}}

func (l *loader) readRepeat(m *mapping, depth int) {
	before := l.faults
	count := l.natural(m, "repeat", 0, 0)
	name := m.text("as")
	body := l.list(m.get("do"))
	if count == 0 && l.faults == before { // what is not run is held against its form
		l.checkShape(m.get("do"), &m.shape.find("do").form, "repeat: do")
	}
	_, shadows := l.scope.Vars[name]
	switch {
	case depth >= maxRepeats:
		l.errorf(m.Node, "repeat: nested more than %d deep", maxRepeats)
		return
	case len(body) == 0:
		l.errorf(m.Node, "repeat: do is missing: the commands to repeat")
		return
	case name != "" && !nameRule.MatchString(name):
		l.errorf(m.get("as"), "repeat: as %q: a name is letters, digits and _, and begins with no digit", name)
		return
	case shadows:
		l.errorf(m.get("as"), "repeat: as %q: the name is taken", name)
		return
	case count > uint64(l.limits["commands"]):
		l.errorf(m.Node, "repeat: %d times: more than %d commands (--limit commands=N)", count, l.limits["commands"])
		return
	case m.Has("transient") && !m.isTrue("graph"):
		l.errorf(m.get("transient"), "repeat: transient: want graph: true, too: only a graph has transients")
		return
	}
	graph := l.flag(m, "graph")
	if graph && !l.beginGraph(m) {
		return
	}
	outermost := depth == 0
	if outermost {
		l.loop = loop{Line: m.Node.GetToken().Position.Line, Start: len(l.out.Commands), Rounds: int(count)}
	}
	for i := range int(count) {
		l.spend(1)
		start := len(l.out.Commands)
		if graph {
			l.round = start
		}
		if outermost {
			l.loop.Round = i
		}
		if name != "" {
			l.scope.Vars[name] = expr.Integer(int64(i))
		}
		for _, n := range body {
			l.readCommand(n, depth+1)
		}
		if graph {
			l.endRound(m, start, before)
		}
		if len(l.errs) > 0 {
			break
		}
	}
	if graph {
		l.graph = 0
	}
	if name != "" {
		delete(l.scope.Vars, name)
	}
	if outermost {
		l.loop = loop{}
	}
}
