//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"godwit/internal/icd/internal/exit"
)

// The end of the process. A program may end while its commands run, its static
// objects' destructors may call OpenCL after that, and it may have forked
// children, which must not touch anything of ours. So
//
//   - every entry looks at gw_ended first, which the handler of exit sets and a
//     fork's child: releases then succeed, everything else fails, at once;
//   - the handler closes the gate to OpenCL and waits for the commands in it, but
//     not for ever: a kernel that never ends must not keep the program from it;
//   - then the trace gets its summary.

// drainFor is how long an exiting process waits for commands that are running.
const drainFor = 5 * time.Second

// guardExit arranges for the end, once.
var guardExit = sync.OnceFunc(func() { exit.Handle(unsafe.Pointer(C.gw_at_exit), start().config.leadExit) })

//export gwOnExit
func gwOnExit() {
	exit.CloseGate(drainFor)
	if p := start(); p != nil {
		if err := p.trace.Finish(); err != nil { // it was asked for: whoever asked is told
			fmt.Fprintf(os.Stderr, "godwit: %v\n", err)
		}
	}
}

// gwOnStarted tells C that the runtime runs.
//
//export gwOnStarted
func gwOnStarted() {}
