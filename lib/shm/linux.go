//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"godwit/mem"
)

// seals are what keeps a file as large as it is.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

var errNoPeer = fmt.Errorf("shared region: no connection to a peer: %w", mem.ErrInvalidValue)

// Create makes a region of size bytes, zeros, and sends it over conn, which is the region's from then on. This process has the turn.
func Create(conn *net.UnixConn, size uint64) (*Region, error) {
	if conn == nil {
		return nil, errNoPeer
	}
	if size == 0 || size > math.MaxInt64 {
		return nil, fmt.Errorf("shared region of %d bytes: 1 to 2^63-1: %w", size, mem.ErrInvalidSize)
	}
	var system unix.Sysinfo_t
	if err := unix.Sysinfo(&system); err == nil && size/uint64(system.Unit) > uint64(system.Totalram)+uint64(system.Totalswap) {
		return nil, fmt.Errorf("shared region of %d bytes: more than the computer has: %w", size, mem.ErrNoMemory) // to take pages until none are left ends other programs
	}
	fd, err := unix.MemfdCreate("godwit-shm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shared region: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "godwit-shm")
	defer func() { _ = f.Close() }() // the mapping keeps it
	if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil {
		return nil, fmt.Errorf("shared region of %d bytes: %w", size, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("shared region: seals: %w", err)
	}
	r, err := mapped(conn, f, size)
	if err != nil {
		return nil, err
	}
	r.mine = true
	if _, _, err := conn.WriteMsgUnix([]byte{turn}, unix.UnixRights(fd), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("shared region: %w: %w", ErrPeer, err), unmap(r.bytes))
	}
	return r, nil
}

// Open maps a region of at most so many bytes that the other end of conn has created; conn is the region's from then on. It fails with ErrSeals where
// the file could shrink under the mapping.
func Open(conn *net.UnixConn, most uint64) (*Region, error) {
	if conn == nil {
		return nil, errNoPeer
	}
	f, err := receive(conn)
	if err != nil {
		return nil, fmt.Errorf("shared region: %w", err)
	}
	defer func() { _ = f.Close() }() // the mapping keeps it
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return nil, fmt.Errorf("shared region: a file of type %#x: %w", fs.Type, errors.Join(ErrSeals, err))
	}
	if has, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || has&seals != seals {
		return nil, fmt.Errorf("shared region: seals %#x, it must have %#x: %w", has, seals, errors.Join(ErrSeals, err))
	}
	info, err := f.Stat() // it stays as it is
	if err != nil {
		return nil, err
	}
	if n := info.Size(); n <= 0 || uint64(n) > most {
		return nil, fmt.Errorf("shared region of %d bytes: 1 to %d are taken: %w", n, most, mem.ErrInvalidSize)
	}
	return mapped(conn, f, uint64(info.Size()))
}

// receive takes one file from a socket; of several none.
func receive(conn *net.UnixConn) (*os.File, error) {
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4*4))
	n, k, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:k])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // credentials, say
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "shared"))
		}
	}
	if n != 1 || len(files) != 1 {
		for _, f := range files {
			_ = f.Close() // nobody's
		}
		return nil, fmt.Errorf("%d files came with %d bytes, it must be one with one: %w", len(files), n, ErrPeer)
	}
	return files[0], nil
}

func mapped(conn *net.UnixConn, f *os.File, size uint64) (*Region, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared region of %d bytes: %w", size, err)
	}
	return &Region{conn: conn, bytes: b}, nil
}

func unmap(b []byte) error { return unix.Munmap(b) }
