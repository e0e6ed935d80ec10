//go:build !linux

package shm

import (
	"errors"
	"fmt"
	"net"
)

var errSystem = fmt.Errorf("memory shared with another process needs Linux's sealed files of memory: %w", errors.ErrUnsupported)

// Create fails with errors.ErrUnsupported.
func Create(*net.UnixConn, uint64) (*Region, error) { return nil, errSystem }

// Open fails with errors.ErrUnsupported.
func Open(*net.UnixConn, uint64) (*Region, error) { return nil, errSystem }

func unmap([]byte) error { return nil }
