package replay

import "golang.org/x/sys/unix"

// threadTime is the processor time of this thread, in ns: what others on the machine
// take is none of it.
func threadTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has it
	return t.Nano()
}
