package process

import (
	"context"
	"os/exec"
	"time"
)

// Run is cmd.Run for a child that is to be gone, with all that it has started,
// when this process is or ctx ends. cmd comes from exec.CommandContext with the
// same ctx. The child is in a process group of its own: Ctrl-C at a terminal
// reaches it by way of ctx only, and it cannot read from the terminal.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second // a grandchild may hold its output open
	done, err := Of(ctx).Make(func() (func(), error) {
		err := cmd.Start()
		return func() { _ = killGroup(cmd.Process.Pid) }, err
	})
	if err != nil {
		return err
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		// What the child has left of its own goes too. A moment later it is gone, and
		// holds no file any more.
		for wait := time.Millisecond; wait < 100*time.Millisecond && killGroup(cmd.Process.Pid) == nil; wait *= 2 {
			time.Sleep(wait)
		}
		err = ctx.Err()
	}
	done()
	return err
}
