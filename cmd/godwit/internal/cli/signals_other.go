//go:build !unix

package cli

import "syscall"

// passedOn are the signals that are a program's while it runs.
var passedOn = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}

// crashes are the signals at which Go prints all goroutines and exits: none here.
var crashes []syscall.Signal

func crash(syscall.Signal) {}
