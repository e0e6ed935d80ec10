// Package cli is the command godwit for programs that add to it: a driver or a
// placement of their own, which registers itself where it is imported.
package cli

import "godwit/cmd/godwit/internal/cli"

// Main runs the command with the arguments of the process and returns its exit code.
func Main() int { return cli.Main() }
