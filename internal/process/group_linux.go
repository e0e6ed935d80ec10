package process

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a child into a process group of its own, and has the kernel kill
// it when the thread that starts it ends (startOnOwnThread).
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// DieWithUs has the kernel kill the child when this process ends, however it
// does. The child keeps its terminal.
func DieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
