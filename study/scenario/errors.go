package scenario

import (
	"fmt"
	"strings"

	"godwit/internal/yaml"
)

// Errors are all broken rules of the language that were found, in the order of the file.
type Errors []*yaml.Error

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
