//go:build linux

package extern

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child process with what it wrote to its standard error. Commands
// go one way and replies the other, one at a time.
type process struct {
	cmd      *exec.Cmd
	to       *os.File // commands
	from     *os.File // replies
	said     *os.File // its standard error, a file in memory
	dead     bool
	patience time.Duration
}

// start runs cmd. attach is given the child's ends of the pipes.
func start(cmd *exec.Cmd, patience time.Duration, attach func(in, out *os.File)) (p *process, err error) {
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
	said, err := memoryFile("stderr")
	if err != nil {
		return nil, err
	}
	ours = append(ours, said)
	cmd.Stderr = said
	attach(in, out)
	// A group of its own, to be killed whole. Pdeathsig would be right for it,
	// but goes by the thread that started it; the host asks for it by itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, to: to, from: from, said: said, patience: patience}, nil
}

func memoryFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("godwit-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for another process: %w", err)
	}
	return os.NewFile(uintptr(fd), "godwit-"+name), nil
}

// kill ends the process and everything it started, and says how it ended.
func (p *process) kill() string {
	if p.dead {
		return ""
	}
	p.dead = true
	// A process that ends by itself has its state before its pipes close: this
	// signal does not change it.
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Wait() // its state is read below
	how := p.cmd.ProcessState.String()
	if text := p.tail(); text != "" {
		how += ": " + text
	}
	for _, f := range []*os.File{p.to, p.from, p.said} {
		_ = f.Close() // nothing more to be said through it
	}
	return how
}

// tail is the end of what the process wrote to its standard error.
func (p *process) tail() string {
	const most = 300
	end, err := p.said.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text := make([]byte, min(end, most))
	n, _ := p.said.ReadAt(text, end-int64(len(text))) // what could be read
	return strings.TrimSpace(string(bytes.ToValidUTF8(text[:n], nil)))
}

var errHang = errors.New("no progress")

// read reads a reply. progress tells how far the process got; where it stands
// still for the time of patience, errHang is returned.
func (p *process) read(b []byte, progress func() uint64) (int, error) {
	last := progress()
	for {
		if err := p.from.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
			return 0, err
		}
		n, err := p.from.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
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
func (p *process) writeDeadline() error { return p.to.SetWriteDeadline(time.Now().Add(p.patience)) }
