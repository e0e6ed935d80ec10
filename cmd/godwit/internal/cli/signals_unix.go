//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// passedOn are the signals that are a program's while it runs.
var passedOn = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// crashes are the signals at which Go prints all goroutines and exits.
var crashes = []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT}

// crash has Go do with a signal what it does where nobody takes it.
func crash(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(syscall.Getpid(), s)
}
