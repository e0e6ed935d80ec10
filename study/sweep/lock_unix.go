//go:build linux || darwin || freebsd || netbsd || openbsd

package sweep

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lock takes f until it is closed, however this process ends. Where another has it, it
// returns false, and that one's process: 0 where it is not known. flock keeps out everybody,
// fcntl's lock says who.
func lock(f *os.File) (ok bool, owner int, err error) {
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
		if syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l) == nil && l.Type != syscall.F_UNLCK {
			owner = int(l.Pid)
		}
		return false, owner, nil
	}
	if err != nil {
		return false, 0, err
	}
	return true, 0, syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
}
