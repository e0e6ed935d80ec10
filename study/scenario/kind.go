package scenario

import (
	"context"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/flat"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/mem"
	"godwit/runtime"
)

// commandKind is all there is to a kind of command: the keys that it has, how it is read, shown,
// enqueued and replayed. Each lies in a file of its own.
type commandKind interface {
	traits() base
	shapes() []*shape
	// parse reads what is particular to the kind into c.
	parse(l *loader, m *mapping, c *command)
	// text is a command in a line.
	text(s *Scenario, c *command) string
	// uses lists what a command does to which bytes.
	uses(s *Scenario, c *command) []use
	// memories are those in which a command makes its accesses.
	memories(s *Scenario, c *command) []mem.MemoryID
	// enqueue executes command i. The queue is nil, and the event zero, where it goes to none.
	enqueue(ctx context.Context, r *runner, i int, q *runtime.Queue, wait []runtime.Event) (runtime.Event, error)
	// refer does to the reference run's memory what a command does.
	refer(ctx context.Context, ref *reference, c *command) error
	// stamp does the same by stamps, for the command whose number in the context is by.
	stamp(x *stamped, c *command, by uint64)
	// look compares what a command found, by stamps.
	look(v *verifier, what string, c *command, seen []flat.Seen)
}

// base is what most kinds have in common: a command of a queue that changes no bytes.
type base struct {
	name       op
	mode       mem.Mode // how it uses its place, where it has one
	reason     string   // why time passes while one runs (see criticalPath)
	infallible bool     // a scenario cannot have one fail
	unqueued   bool     // it goes to no queue
	hostBytes  bool     // it takes as many bytes of the host, beside the buffers, as it moves
}

func (b base) traits() base                                { return b }
func (base) parse(*loader, *mapping, *command)             {}
func (b base) text(*Scenario, *command) string             { return string(b.name) }
func (base) stamp(*stamped, *command, uint64)              {}
func (base) look(*verifier, string, *command, []flat.Seen) {}

func (b base) uses(_ *Scenario, c *command) []use {
	if b.unqueued || c.Place.Name == "" {
		return nil
	}
	return c.useOfPlace(b.mode)
}

func (base) memories(s *Scenario, c *command) []mem.MemoryID {
	return []mem.MemoryID{s.memory(s.Queues[c.Queue].Device)}
}

// refer writes the content that a command has.
func (base) refer(_ context.Context, ref *reference, c *command) error {
	if c.Data != nil {
		ref.write(c)
	}
	return nil
}

// onHost is a command of memory that the host uses where it is.
type onHost struct{ base }

func (onHost) memories(*Scenario, *command) []mem.MemoryID { return []mem.MemoryID{mem.Host} }

// kinds are all kinds, in the order in which people are told of them.
var kinds = []commandKind{
	writeKind{base{name: opWrite, mode: mem.Write, reason: reasonCopy, hostBytes: true}},
	readKind{base{name: opRead, mode: mem.Read, reason: reasonCopy, hostBytes: true}},
	copyKind{base{name: opCopy, reason: reasonCopy}},
	fillKind{base{name: opFill, mode: mem.Write, reason: reasonCompute}},
	launchKind{base{name: opLaunch, reason: reasonCompute}},
	migrateKind{base{name: opMigrate, reason: reasonHost}},
	mapKind{onHost{base{name: opMap, reason: reasonHost, infallible: true}}},
	unmapKind{onHost{base{name: opUnmap, reason: reasonHost, infallible: true}}},
	hostWriteKind{hostUse{base{name: opHostWrite, mode: mem.Write, reason: reasonHost, infallible: true, hostBytes: true}}},
	hostReadKind{hostUse{base{name: opHostRead, mode: mem.Read, reason: reasonHost, infallible: true, hostBytes: true}}},
	allocKind{base{name: opAlloc, unqueued: true}},
	freeKind{base{name: opFree, reason: reasonHost, infallible: true}},
	setKind{base{name: opSet, unqueued: true}},
	waitKind{base{name: opBarrier, reason: reasonHost}, (*runtime.Queue).EnqueueBarrier},
	waitKind{base{name: opMarker, reason: reasonHost}, (*runtime.Queue).EnqueueMarker},
}

// commandKinds are the keys that say what a command is.
var commandKinds = func() (out []string) {
	for _, k := range kinds {
		out = append(out, string(k.traits().name))
	}
	return append(out, "repeat")
}()

var kindByName = func() map[op]commandKind {
	out := make(map[op]commandKind)
	for _, k := range kinds {
		out[k.traits().name] = k
	}
	return out
}()

func (c *command) kind() commandKind { return kindByName[c.Kind] }

// commandShapes are those of all commands.
func commandShapes() (out []*shape) {
	for _, k := range kinds {
		out = append(out, k.shapes()...)
	}
	out = append(out, repeatShape)
	all := &shape{name: "command", what: "command", pick: pickCommand}
	for _, s := range out {
		all.variants = append(all.variants, s.name)
	}
	return append(out, all)
}

// kindsIn are the keys of m that say what a command is.
func kindsIn(m *mapping) []string {
	return slices.DeleteFunc(m.among(commandKinds), func(k string) bool {
		return k == "fill" && (m.Has("write") || m.Has("host-write")) // a write may be given a fill
	})
}

// pickCommand is the name of a command's shape, or "".
func pickCommand(m *mapping) string {
	found := kindsIn(m)
	if len(found) != 1 {
		return ""
	}
	switch kind := found[0]; {
	case (kind == "write" || kind == "read" || kind == "copy") && m.hasRows():
		return kind + " of rows"
	case kind == "free" && m.isTrue("now"):
		return "free at once"
	default:
		return kind
	}
}

// hasRows reports whether a command is on rows.
func (m *mapping) hasRows() bool { return m.Has("rows") || m.Has("slices") }

// kindOfCommand finds the key that says what a command is, or "".
func (l *loader) kindOfCommand(n ast.Node, m *mapping) string {
	found := kindsIn(m)
	switch {
	case len(found) == 1:
		return found[0]
	case len(found) > 1:
		l.misshapen(n, "command: %s beside %s: one command does one thing", found[1], found[0])
	case len(m.Keys) > 0:
		name := yaml.Name(m.Keys[0]) // what a command does is written first
		for _, kv := range m.Keys {
			if suggest.Nearest(yaml.Name(kv), commandKinds) != "" {
				name = yaml.Name(kv)
				break
			}
		}
		l.misshapen(m.Node, "command: %q is no command; want one of %s", name, suggest.Among(name, commandKinds))
	}
	return ""
}
