package scenario

import (
	"fmt"
	"path/filepath"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/input"
	"godwit/internal/yaml"
)

// Includes: files with devices and links, and with the parameters and names that
// these are computed from, so that scenarios share a machine. They go one level
// deep. What an included file declares comes before the scenario's own, and a name
// is declared once in all; but the scenario's own parameters come first of all, so
// that they may say which file is included.

// document is a file of a scenario.
type document struct {
	file    string
	anchors map[string]ast.Node
	top     *mapping
}

// in makes d the file that is read, until the function that it returns is called.
func (l *loader) in(d document) (back func()) {
	file, anchors := l.file, l.anchors
	l.file, l.anchors = d.file, d.anchors
	return func() { l.file, l.anchors = file, anchors }
}

// eachDocument reads a section of all included files, and then of the scenario m.
func (l *loader) eachDocument(m *mapping, read func(*mapping)) {
	for _, d := range l.included {
		back := l.in(d)
		read(d.top)
		back()
	}
	read(m)
}

// readIncludes parses the files that include names.
func (l *loader) readIncludes(m *mapping) {
	for _, n := range l.list(m.get("include")) {
		l.bounded(n, "include: files", len(l.included)+1, maxIncludes)
		if path := l.text(n, "include"); path != "" {
			l.include(n, path)
		}
	}
}

// include parses the file at path, relative to the scenario's.
func (l *loader) include(n ast.Node, path string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(l.file), path)
	}
	if path == filepath.Clean(l.out.File) {
		l.errorf(n, "include: %s: it includes itself", path)
		return
	}
	for _, d := range l.included {
		if d.file == path {
			l.errorf(n, "include: %s is included twice", path)
			return
		}
	}
	text, ok := l.given.Files[filepath.ToSlash(path)]
	if !ok {
		var err error
		if text, err = input.ReadFile(l.work.ctx, path, yaml.MaxBytes); err != nil {
			l.unread(n, "include", err)
			return
		}
	}
	if l.texts += len(text); l.texts > yaml.MaxBytes {
		l.stop(n, "include: %s: with the texts before it that is more than %d bytes", path, yaml.MaxBytes)
	}
	d := document{file: path}
	defer l.in(d)()
	root := l.parse(text, "an included file has devices")
	if root == nil {
		return
	}
	d.anchors = l.anchors
	before := l.faults
	d.top = l.unchecked(root, "include "+path, "included")
	if l.faults > before {
		return
	}
	d.top.text("about")
	if d.top.Has("include") {
		l.errorf(d.top.Node, "include: %s is included itself: includes go one level deep", path)
		return
	}
	l.included = append(l.included, d)
}

// unread reports a file that could not be read, unless the context has ended.
func (l *loader) unread(n ast.Node, what string, err error) {
	if l.end = l.work.ctx.Err(); l.end != nil {
		panic(bailout{})
	}
	l.errorf(n, "%s: %v", what, err)
}

// where names a line of what is read: with its file where that is an included one.
func (l *loader) where(n ast.Node) string {
	line := n.GetToken().Position.Line
	if l.file != l.out.File {
		return fmt.Sprintf("%s:%d", l.file, line)
	}
	return fmt.Sprintf("line %d", line)
}
