//go:build !linux

package replay

import "time"

var epoch = time.Now()

// threadTime is the time on the clock, in ns, where a thread's own has no call that
// golang.org/x/sys knows.
func threadTime() int64 { return int64(time.Since(epoch)) }
