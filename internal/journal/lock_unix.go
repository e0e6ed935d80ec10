//go:build linux || darwin || freebsd || netbsd || openbsd

package journal

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lock takes f until it is closed, however this process ends. Where another has it, it
// returns false, and that one's process: 0 where it is not known. flock keeps out everybody,
// fcntl's lock says who; it is refused where flock is made of such a lock, as on NFS.
func lock(f *os.File) (ok bool, owner int, err error) {
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
		if syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l) == nil && l.Type != syscall.F_UNLCK {
			owner = max(0, int(l.Pid)) // below 0 it is no process here
		}
		return false, owner, nil
	}
	if err != nil {
		return false, 0, err
	}
	_ = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
	return true, 0, nil
}
