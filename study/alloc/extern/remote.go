//go:build linux

package extern

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"godwit/internal/process"
)

// remote is a child process with the end of what it wrote to its standard error.
// Commands go one way and replies the other, one at a time.
type remote struct {
	cmd      *exec.Cmd
	child    *process.Child
	to       *os.File // commands
	from     *os.File // replies
	said     *tail    // its standard error
	dead     bool
	begun    bool // it has replied
	patience time.Duration
}

// waits is how long it may show no progress. Until its first reply it starts, which is not
// the allocator's time: that is given what is usual, where it is more.
func (p *remote) waits() time.Duration {
	if p.begun {
		return p.patience
	}
	return max(p.patience, defaultPatience)
}

// start runs cmd, until it is killed or ctx ends. attach is given the child's ends of
// the pipes.
func start(ctx context.Context, cmd *exec.Cmd, patience time.Duration, attach func(in, out *os.File)) (p *remote, err error) {
	var ours []*os.File
	defer func() {
		if err != nil {
			for _, f := range ours {
				err = errors.Join(err, f.Close())
			}
		}
	}()
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // the child's end
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	defer out.Close() //nolint:errcheck // the child's end
	ours = append(ours, to, from)
	said := &tail{}
	cmd.Stderr = said
	attach(in, out)
	c, err := process.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &remote{cmd: cmd, child: c, to: to, from: from, said: said, patience: patience}, nil
}

func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("godwit-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for another process: %w", err)
	}
	return os.NewFile(uintptr(fd), "godwit-"+name), nil
}

// kill ends the process and everything it started, and says how it ended.
func (p *remote) kill() string {
	if p.dead {
		return ""
	}
	p.dead = true
	// A process that ends by itself has its state before its pipes close: this
	// signal does not change it.
	_ = p.child.Kill()
	_ = p.child.Wait() // its state is read below
	how := p.cmd.ProcessState.String()
	if text := p.said.text(); text != "" {
		how += ": " + text
	}
	for _, f := range []*os.File{p.to, p.from} {
		_ = f.Close() // nothing more to be said through it
	}
	return how
}

// tail keeps the end of what is written to it. What it holds may be read once the
// process has been waited for.
type tail struct{ b []byte }

// mostSaid is how many bytes a tail keeps.
const mostSaid = 300

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-mostSaid):]...)
	t.b = append(t.b[:0], t.b[max(0, len(t.b)-mostSaid):]...)
	return len(p), nil
}

func (t *tail) text() string {
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.b, nil)))
}

var errHang = errors.New("no progress")

// read reads a reply. progress tells how far the process got; where it stands
// still for the time of patience, errHang is returned.
func (p *remote) read(b []byte, progress func() uint64) (int, error) {
	last := progress()
	for {
		if err := p.from.SetReadDeadline(time.Now().Add(p.waits())); err != nil {
			return 0, err
		}
		n, err := p.from.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			p.begun = p.begun || n > 0
			return n, err
		}
		now := progress()
		if now == last {
			return 0, errHang
		}
		last = now
	}
}

// writeDeadline bounds the next write.
func (p *remote) writeDeadline() error { return p.to.SetWriteDeadline(time.Now().Add(p.waits())) }
