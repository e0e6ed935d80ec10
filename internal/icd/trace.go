//go:build cgo

package icd

import (
	"fmt"
	"os"

	"godwit/mem/trace"
)

// sink is where a context tells what it does; nil where nobody wants to know.
func (p *platform) sink(chosen []*device) trace.CommandSink {
	if p.trace == nil {
		return nil
	}
	names, capacity := []string{"host"}, []uint64{0}
	for _, d := range chosen {
		names = append(names, d.name)
		capacity = append(capacity, d.globalMemory())
	}
	return p.trace.Context(names, capacity)
}

var debugging = os.Getenv("GODWIT_DEBUG") != ""

// complain says why a call failed, where somebody wants to know: OpenCL has only
// a number for it.
func complain(err error) {
	if err != nil && debugging {
		fmt.Fprintf(os.Stderr, "godwit: %v\n", err)
	}
}
