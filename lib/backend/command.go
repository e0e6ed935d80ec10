package backend

import (
	"context"
	"os/exec"
)

// Command is exec.CommandContext for programs with open devices: files of devices
// that a vendor's library has opened since are marked first, so that the child
// inherits none. Opening devices marks them too; Command is for libraries that open
// files later, on first use.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	sealDeviceFiles()
	return exec.CommandContext(ctx, name, args...)
}
