//go:build unix

package cli

import "syscall"

// passedOn are the signals that are a program's while it runs.
var passedOn = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
