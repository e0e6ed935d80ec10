package process

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// Child is a running child, with all that it has started. Kill may be called from
// any goroutine, Wait once.
type Child struct {
	ctx  context.Context //nolint:containedctx // what the child's life is bound to
	cmd  *exec.Cmd
	done func()
}

// Start is cmd.Start for a child that is to be gone, with all that it has started,
// when this process is or ctx ends. cmd comes from exec.CommandContext with the
// same ctx. The child is in a process group of its own: Ctrl-C at a terminal
// reaches it by way of ctx only, and it cannot read from the terminal. Wait must
// follow.
func Start(ctx context.Context, cmd *exec.Cmd) (*Child, error) {
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = time.Second // a grandchild may hold its output open
	var stop func()
	done, err := Of(ctx).Make(func() (func(), error) {
		end, err := startOnOwnThread(cmd)
		stop = end
		return func() { _ = killGroup(cmd.Process.Pid) }, err
	})
	if err != nil {
		return nil, err
	}
	return &Child{ctx, cmd, func() { stop(); done() }}, nil
}

// startOnOwnThread starts cmd on a thread that stays until end is called. The
// kernel kills the child when the thread that started it ends, and not only when
// the process does; threads of Go end where a goroutine locked to one does.
func startOnOwnThread(cmd *exec.Cmd) (end func(), err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			<-ended
		}
	}()
	return func() { close(ended) }, <-started
}

// Kill ends the child and all that it has started. Wait says how it ended: where it
// had ended by itself before, that.
func (c *Child) Kill() error { return killGroup(c.cmd.Process.Pid) }

// Wait is cmd.Wait. Where ctx has ended, its error is returned.
func (c *Child) Wait() error {
	err := c.cmd.Wait()
	if c.ctx.Err() != nil {
		// What the child has left of its own goes too. A moment later it is gone, and
		// holds no file any more.
		for wait := time.Millisecond; wait < 100*time.Millisecond && c.Kill() == nil; wait *= 2 {
			time.Sleep(wait)
		}
		err = c.ctx.Err()
	}
	c.done()
	return err
}

// Run is Start and Wait.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	c, err := Start(ctx, cmd)
	if err != nil {
		return err
	}
	return c.Wait()
}
