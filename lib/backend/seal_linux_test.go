package backend

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestFilesOfDevicesAreSealedAndOthersLeftAlone(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/nvidia0": true, "/dev/nvidiactl": true, "/dev/nvidia-uvm": true, "/dev/dri/renderD128": true, "/dev/kfd": true,
		"/dev/null": false, "/dev/pts/0": false, "/dev/tty": false, "/dev/shm/x": false, "socket:[1]": false, "/home/dev/nvidia": false,
	} {
		require.Equal(t, want, isDevice(path), path)
	}
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	sealDeviceFiles()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.Zero(t, flags&unix.FD_CLOEXEC, "no device's file")
	require.Equal(t, 1, seal(func(path string) bool { return path == os.DevNull && flags == 0 }, fd))
	flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.FD_CLOEXEC)
}
