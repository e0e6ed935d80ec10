// Package cli is the command godwit: its verbs, one file each, as something to
// import. A program that imports drivers, placements (bufalloc.Register) or
// allocators (replay.Register) of its own and calls Main is a godwit that knows
// them by name. The logic lives in the packages below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Exit codes, for scripts: 0 success, 1 the run worked but what it shows is not
// what was expected, 2 bad usage or input.
const (
	exitFailed = 1
	exitUsage  = 2
)

// failed marks an error as a result that was not what was expected (exit 1);
// every other error is bad usage or input (exit 2).
type failed struct{ error }

func (f failed) Unwrap() error { return f.error }

// ended marks an error, or the absence of one, that has an exit code of its own:
// godwit exec passes on a program's.
type ended struct {
	code int
	err  error // nil where there is nothing to say
}

func (e ended) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e ended) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "godwit",
		Version:       version(),
		Short:         "Multi-device memory: run it, replay it, measure it",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(verbs()...)
	return root
}

// version is what the build knows of itself: a module version or a commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// atLeastOne wants one to most arguments, each of which is what.
func atLeastOne(what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s: which? want %s's file; see %s --help", cmd.Name(), what, cmd.CommandPath())
		case len(args) > most:
			return fmt.Errorf("%s: want %s's file and nothing more, not %q", cmd.Name(), what, args[most])
		}
		return nil
	}
}

// Main runs the verb that the program's arguments name until it ends or the
// program is interrupted, and returns the exit status. What goes wrong is told on
// standard error.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var e ended
	if !errors.As(err, &e) || e.err != nil {
		fmt.Fprintln(os.Stderr, "godwit:", err)
	}
	if e.code != 0 {
		return e.code
	}
	var f failed
	if errors.As(err, &f) {
		return exitFailed
	}
	return exitUsage
}
