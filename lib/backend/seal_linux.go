package backend

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sealDeviceFiles marks every open file of a device close-on-exec, so that
// children do not inherit it: vendors' libraries open theirs without that mark,
// and a child that lives on would keep the device's memory. Terminals and the
// like, which programs pass on on purpose, are left alone.
func sealDeviceFiles() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // no /proc: nothing can be done, and nothing was promised there
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			seal(isDevice, fd)
		}
	}
}

// seal marks a descriptor whose file is chosen, and reports how many (0 or 1) it
// had to mark.
func seal(chosen func(path string) bool, fd int) int {
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !chosen(path) {
		return 0
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return 0
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags|unix.FD_CLOEXEC); err != nil {
		return 0
	}
	return 1
}

// isDevice tells the files of GPUs and accelerators from others in /dev.
func isDevice(path string) bool {
	for _, p := range []string{"/dev/nvidia", "/dev/dri/", "/dev/kfd", "/dev/accel", "/dev/mali", "/dev/udmabuf", "/dev/dma_heap/"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}
