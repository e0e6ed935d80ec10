package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"godwit/devices"
	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/mem"
	"godwit/runtime"
)

// readLet computes named values, each of which may use those before it.
func (l *loader) readLet(m *mapping) {
	n := m.get("let")
	if n == nil {
		return
	}
	let := l.mapping(n, "let", "let")
	for _, kv := range let.Keys {
		name := yaml.Name(kv)
		before := l.faults
		l.declareValue(kv, "let")
		l.scope.Let("") // what was computed before is another's
		v := l.value(let.get(name), "let "+name)
		l.scope.Let(name)
		l.scope.Vars[name], l.scope.Bad[name] = v, l.faults > before
	}
}

// readSVM reads the blocks of shared virtual memory.
func (l *loader) readSVM(m *mapping) {
	for _, n := range l.list(m.get("svm")) {
		s := l.mapping(n, "svm", "svm")
		b := bufferDecl{Name: l.declare(s, "buffer"), Line: n.GetToken().Position.Line}
		before := l.faults
		b.Size = l.natural(s, "size", 1, 0)
		if b.Size == 0 && l.faults == before {
			l.errorf(s.Node, "%s: size is missing", s.What)
		}
		b.SVM = &svmDecl{Align: l.natural(s, "align", 1, 0), Born: -1, Freed: -1}
		if !mem.IsPow2(max(b.SVM.Align, 1)) {
			l.errorf(s.get("align"), "%s: align is %d: want a power of two", s.What, b.SVM.Align)
		}
		flags := l.flags(s, svmFlags)
		b.SVM.Flags = runtime.SVMFlags(flags)
		if b.SVM.Flags&runtime.SVMAtomics != 0 && b.SVM.Flags&runtime.SVMFineGrain == 0 {
			l.errorf(s.get("flags"), "%s: flags: atomics without fine-grain: only fine-grained memory has them", s.What)
		}
		l.counted(s, "buffer", b.Name, func(name string) {
			one, svm := b, *b.SVM // each has its own life
			one.Name, one.SVM = name, &svm
			l.addBuffer(n, one)
		})
	}
}

// addBuffer adds a root.
func (l *loader) addBuffer(n ast.Node, b bufferDecl) {
	l.take("buffer", b.Name, n)
	l.addRoot(n, b)
}

// addRoot adds a root that has no name of its own yet, or again.
func (l *loader) addRoot(n ast.Node, b bufferDecl) {
	l.limited(n, "buffers", len(l.out.Buffers)+1, "objects")
	l.hold(n, fmt.Sprintf("buffer %q", b.Name), b.Size)
	l.out.Buffers = append(l.out.Buffers, b)
}

func (l *loader) readBuffers(m *mapping) {
	n := m.get("buffers")
	if n == nil && len(l.out.Buffers) == 0 && m.get("svm") == nil {
		l.errorf(m.Node, "scenario: buffers are missing")
		return
	}
	for _, n := range l.list(n) {
		s := l.mapping(n, "buffer", "buffer")
		b := bufferDecl{Name: l.declare(s, "buffer"), Line: n.GetToken().Position.Line}
		if s.Has("over") {
			l.readOver(s, b, n)
			continue
		}
		before := l.faults
		b.Data = l.data(s)
		var def uint64
		if b.Data != nil {
			def = b.Data.size
		}
		b.Size = l.natural(s, "size", 1, def)
		b.Flags = runtime.Flags(l.flags(s, bufferFlags))
		b.Whole = l.flag(s, "whole")
		l.readContentSize(s)
		switch ptr := b.Flags & (runtime.UseHostPtr | runtime.CopyHostPtr); {
		case l.faults > before:
		case b.Size == 0:
			l.errorf(s.Node, "%s: size is missing", s.What)
		case b.Data != nil && b.Data.size > b.Size:
			l.errorf(s.Node, "%s: the content, %s, has %d bytes, the buffer only %d", s.What, b.Data, b.Data.size, b.Size)
		case ptr != 0 && b.Data == nil:
			l.errorf(s.get("flags"), "%s: flags: %s without content: want one of %s, which is what the host's memory holds", s.What, flagText(uint64(ptr), bufferFlags), strings.Join(dataKeys, ", "))
		}
		l.addBuffers(s, n, b)
	}
	l.nameSizeBuffers()
}

// addBuffers adds a buffer, or where there is a count as many, named Name0, Name1, ...;
// and where there are parts, the sub-buffers into which it is cut: Name0, Name1, ...,
// or with a count Name0_0, Name0_1, ...
func (l *loader) addBuffers(s *mapping, n ast.Node, b bufferDecl) {
	parts, align := l.partsOf(s)
	if s.Has("content_size") && s.Has("count") {
		l.errorf(s.Node, "%s: content_size beside count: want one buffer for each count", s.What)
	}
	between := ""
	if s.Has("count") {
		between = "_"
	}
	l.counted(s, "buffer", b.Name, func(name string) {
		b.Name = name
		l.addBuffer(n, b)
		of := place{Buffer: len(l.out.Buffers) - 1, View: -1, Range: mem.Range{End: b.Size}, Name: b.Name}
		for i := range parts {
			name := b.Name + between + strconv.FormatUint(i, 10)
			l.addPart(s, viewDecl{Name: name, Buffer: of.Buffer, Parent: -1, Line: b.Line}, i, parts, of, align)
		}
	})
}

// counted calls add with the name of a buffer or queue, or where there is a count with name0, name1, ...
func (l *loader) counted(s *mapping, space, name string, add func(name string)) {
	if !s.Has("count") {
		add(name)
		return
	}
	for i := range l.natural(s, "count", 1, 1) {
		if one := name + strconv.FormatUint(i, 10); l.newName(s, space, one) {
			add(one)
		}
	}
}

// newName reports whether a name that a count makes is new, and that it is not where
// that is so.
func (l *loader) newName(s *mapping, space, name string) bool {
	taken, dup := l.named[space+" "+name]
	if dup {
		l.errorf(s.Node, "%s: count: the name %q is taken by the %s", s.What, name, taken)
	}
	return !dup
}

// readOver reads a buffer over shared virtual memory.
func (l *loader) readOver(s *mapping, b bufferDecl, n ast.Node) {
	v := viewDecl{Name: b.Name, Over: true, Parent: -1, Line: b.Line}
	of := s.text("over")
	v.Buffer = l.buffer(of)
	if of != "" && (v.Buffer < 0 || l.out.Buffers[v.Buffer].SVM == nil) {
		l.errorf(s.get("over"), "%s: over %q: no shared virtual memory has this name; there is %s", s.What, of, l.svmNames())
		v.Buffer = -1
	}
	offset, size := l.natural(s, "offset", 0, 0), l.natural(s, "size", 1, 0)
	v.Flags = runtime.Flags(l.flags(s, bufferFlags))
	if bad := v.Flags & (runtime.AllocHostPtr | runtime.CopyHostPtr); bad != 0 {
		l.errorf(s.get("flags"), "%s: flags: %s: a buffer over shared virtual memory has use-host-ptr, and no other host memory", s.What, flagText(uint64(bad), bufferFlags))
	}
	v.Flags |= runtime.UseHostPtr
	if v.Buffer < 0 {
		l.lost[v.Name] = true
		return
	}
	if root := &l.out.Buffers[v.Buffer]; root.Size > 0 {
		v.Range = l.within(s, place{Buffer: v.Buffer, View: -1, Range: mem.Range{End: root.Size}, Name: of}, offset, size)
	}
	l.limited(n, "buffers", len(l.out.Views)+1, "objects")
	l.take("buffer", v.Name, n)
	l.out.Views = append(l.out.Views, v)
}

func (l *loader) svmNames() string {
	var out []string
	for i := range l.out.Buffers {
		if b := &l.out.Buffers[i]; b.SVM != nil && !slices.Contains(out, b.Name) {
			out = append(out, b.Name)
		}
	}
	return suggest.Among("", out)
}

var priorities = map[string]devices.Priority{"low": devices.PriorityLow, "normal": devices.PriorityNormal, "high": devices.PriorityHigh}

func (l *loader) readQueues(m *mapping) {
	for _, n := range l.list(m.get("queues")) {
		s := l.mapping(n, "queue", "queue")
		q := queueDecl{Name: l.declare(s, "queue"), Line: n.GetToken().Position.Line}
		q.Device = l.memoryAt(s, "device")
		q.OutOfOrder, q.Host = s.oneOf("order", "in") == "out", s.text("host")
		q.Priority = priorities[s.oneOf("priority", "normal")]
		l.counted(s, "queue", q.Name, func(name string) {
			one := q
			one.Name = name
			l.limited(n, "queues", len(l.out.Queues)+1, "objects")
			l.take("queue", name, n)
			l.out.Queues = append(l.out.Queues, one)
		})
	}
	own := append([]deviceDecl{}, l.out.Devices...)
	for _, d := range append(own, deviceDecl{Name: "host"}) { // every device has one of its own name
		if _, dup := l.named["queue "+d.Name]; !dup {
			l.named["queue "+d.Name] = "device's own queue"
			l.out.Queues = append(l.out.Queues, queueDecl{Name: d.Name, Device: d.Name, Line: d.Line})
		}
	}
}

// readEvents reads the user events.
func (l *loader) readEvents(m *mapping) {
	for _, n := range l.list(m.get("events")) {
		e := userEvent{Name: l.text(n, "event"), Line: n.GetToken().Position.Line, Set: -1}
		switch before, dup := l.ids[e.Name]; {
		case e.Name == "":
			continue
		case !nameRule.MatchString(e.Name):
			l.errorf(n, "event %q: a name is letters, digits and _, and begins with no digit", e.Name)
		case dup:
			l.errorf(n, "event %q: the name is taken in line %d", e.Name, before.node.GetToken().Position.Line)
		}
		l.limited(n, "events", len(l.out.Events)+1, "objects")
		l.ids[e.Name] = waitable{n, -1, len(l.out.Events)}
		l.out.Events = append(l.out.Events, e)
	}
}
