// Package examples holds the scenarios and the allocation trace that come with
// Godwit, so that a command that was installed alone can run and write them:
// godwit run --example NAME, godwit examples. The programs beside it, such as
// examples/train, are packages of their own.
package examples

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.yaml *.csv.gz
var files embed.FS

// Scenario and Trace are the kinds of examples.
const (
	Scenario = ".yaml"
	Trace    = ".csv.gz"
)

// Names lists the examples of a kind, sorted.
func Names(kind string) (names []string) {
	all, _ := fs.Glob(files, "*"+kind) // the pattern is sound
	for _, file := range all {
		names = append(names, strings.TrimSuffix(file, kind))
	}
	return names
}

// Read returns an example's file and its name. ok is false where there is no such
// example; name may have its extension.
func Read(name, kind string) (file string, content []byte, ok bool) {
	file = strings.TrimSuffix(name, kind) + kind
	content, err := files.ReadFile(path.Clean(file))
	return file, content, err == nil
}

// Files are the contents of all scenarios and of what they include, by the path that
// they name each other by.
func Files() map[string][]byte {
	out := make(map[string][]byte)
	all, _ := fs.Glob(files, "*"+Scenario) // the pattern is sound
	for _, file := range all {
		out[file], _ = files.ReadFile(file) // it is there
	}
	return out
}
