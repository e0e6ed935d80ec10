package scenario

import (
	"fmt"
	"strings"
)

// Error is one broken rule of the scenario language.
type Error struct {
	File string
	Line int // from 1; 0 where it is the whole file
	Rule string
}

// Error is "file:line: rule".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Rule
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Rule)
}

// Errors are all broken rules that were found, in the order of the file.
type Errors []*Error

// Error lists the errors, one a line.
func (es Errors) Error() string {
	const shown = 20
	var lines []string
	for _, e := range es[:min(len(es), shown)] {
		lines = append(lines, e.Error())
	}
	if len(es) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(es)-shown))
	}
	return strings.Join(lines, "\n")
}
