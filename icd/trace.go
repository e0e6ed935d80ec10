//go:build cgo

package icd

import (
	"fmt"
	"os"

	"godwit/trace"
)

// sink is where contexts tell what they do; nil where nobody wants to know.
func (p *platform) sink() trace.CommandSink { return nil }

var debugging = os.Getenv("GODWIT_DEBUG") != ""

// complain says why a call failed, where somebody wants to know: OpenCL has only
// a number for it.
func complain(err error) {
	if err != nil && debugging {
		fmt.Fprintf(os.Stderr, "godwit: %v\n", err)
	}
}
