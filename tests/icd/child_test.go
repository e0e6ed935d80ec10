//go:build linux

package icd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/icd/tracelog"
)

// platform is an OpenCL platform that child processes are given, and the only
// one that they see.
type platform struct {
	name string
	part string // of the platform's name, as the programs in testdata take it
	env  []string
}

// on is Godwit with n devices, over PoCL unless env says otherwise.
func on(n int, env ...string) platform {
	return platform{
		name: fmt.Sprintf("godwit with %d devices", n), part: "Godwit",
		env: append([]string{"OCL_ICD_VENDORS=" + library, "GODWIT_DEVICES=" + strconv.Itoa(n), "POCL_DEVICES=pthread"}, env...),
	}
}

// plain is PoCL itself with n devices.
func plain(t testing.TB, n int) platform {
	t.Helper()
	const file = "/etc/OpenCL/vendors/pocl.icd"
	if _, err := os.Stat(file); err != nil {
		t.Skipf("plain PoCL: %v", err)
	}
	return platform{
		name: fmt.Sprintf("plain PoCL with %d devices", n), part: "Portable",
		env: []string{"OCL_ICD_VENDORS=" + file, "POCL_DEVICES=" + strings.TrimSpace(strings.Repeat("pthread ", n))},
	}
}

// with is the platform with more in its environment.
func (p platform) with(env ...string) platform {
	p.env = append(append([]string{}, p.env...), env...)
	return p
}

// hangs is how the reason of a process begins that did not end.
const hangs = "it hangs"

// result is how a child process ended.
type result struct {
	out  string // both outputs together
	code int    // exit code; -1 where a signal ended it
	why  string // the signal, or that it hung and what it was doing
}

func (r result) String() string { return fmt.Sprintf("exit code %d %s\n%s", r.code, r.why, r.out) }

// ok is whether it ended by itself with exit code 0.
func (r result) ok() bool { return r.code == 0 && r.why == "" }

// run runs a program in dir ("" is a new one's) for at most limit.
func (p platform) run(t testing.TB, limit time.Duration, dir, program string, args ...string) result {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOTRACEBACK=all", "GODWIT_TRACE=", "GODWIT_SUMMARY="), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 2 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	var r result
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		r.code, r.why = ending(err)
	case <-timer.C:
		r.why = fmt.Sprintf(hangs+": not done after %v\n%s", limit, threads(cmd.Process.Pid))
		// The Go runtime in it prints its goroutines when it is sent a fault.
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGSEGV)
		select {
		case <-ended:
		case <-time.After(3 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
		r.code = -1
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	r.out = out.String()
	return r
}

// ending reads what Wait returned.
func ending(err error) (code int, why string) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return -1, "ended by " + ws.Signal().String()
		}
		return exit.ExitCode(), ""
	}
	return -1, err.Error()
}

// threads says where the threads of a process are.
func threads(pid int) string {
	var b strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, t := range tasks {
		fmt.Fprintf(&b, "thread %s:", filepath.Base(t))
		for _, f := range []string{"comm", "wchan", "syscall"} {
			text, _ := os.ReadFile(filepath.Join(t, f))
			fmt.Fprintf(&b, " %s", strings.TrimSpace(string(text)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// summed runs a program that must succeed, and returns what it printed and what
// was moved for it.
func (p platform) summed(t testing.TB, limit time.Duration, program string, args ...string) (string, tracelog.Summary) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "summary.json")
	r := p.with("GODWIT_SUMMARY="+file).run(t, limit, dir, program, args...)
	require.True(t, r.ok(), "%s on %s: %v", filepath.Base(program), p.name, r)
	text, err := os.ReadFile(file)
	require.NoError(t, err, "%v", r)
	var s tracelog.Summary
	require.NoError(t, json.Unmarshal(text, &s))
	return r.out, s
}

// available is whether a program runs and ends well, outside of any platform.
func available(program string, args ...string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, program, args...).Run() == nil
}
