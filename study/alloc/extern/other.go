//go:build !linux

package extern

import (
	"errors"

	"godwit/study/alloc/replay"
)

var errLinux = errors.New("allocators in other processes need Linux: memfd and process groups")

func startHost(*Pool, string, *replay.Stream) (child, error)    { return nil, errLinux }
func startProgram(*Pool, string, *replay.Stream) (child, error) { return nil, errLinux }
