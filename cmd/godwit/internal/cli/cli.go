// Package cli is the command godwit: its verbs, one file each, as something to
// import. A program that imports drivers (devices.Register) or placements
// (bufalloc.Register) of its own and calls Main is a godwit that knows them by
// name. The logic lives in the packages below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"godwit/internal/suggest"
	"godwit/mem"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes, for scripts: 0 success, 1 it was tried, and what it shows is not what
// was expected, or the machine failed it (no such device, no memory, a full disk), 2
// bad usage or input, 128 and a signal's number where one ended it (interrupt.go).
const (
	exitFailed = 1
	exitUsage  = 2
)

// failed marks an error as a result that was not what was expected (exit 1), as
// what a machine cannot do is by itself (machineFailed). Every other error is bad
// usage or input (exit 2).
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
		Args:          cobra.ArbitraryArgs,
		RunE:          noSuchVerb,

		PersistentPreRunE: noEmptyFlag,
	}
	root.SetFlagErrorFunc(nearestFlag)
	root.AddCommand(verbs()...)
	helpNamesWhatThereIs(root)
	completeValues(root)
	return root
}

// Command is the command with all its verbs, for those that make documentation of it.
func Command() *cobra.Command { return newRoot() }

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
// program is interrupted (interrupt.go), and returns the exit status. What goes
// wrong is told on standard error. A program calls it once, and exits with what it
// returns: signals stay watched.
func Main() int {
	ctx, in := watchSignals(grace)
	root, out, errOut := newRoot(), newOutput(os.Stdout), newOutput(os.Stderr)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = helpError(root)
	}
	_ = errOut.close() // nobody could be told
	if oerr := out.close(); oerr != nil {
		if errors.Is(err, oerr) {
			err = failed{err}
		} else {
			err = errors.Join(err, failed{fmt.Errorf("standard output: %w", oerr)})
		}
	}
	return exitCode(in, err)
}

// exitCode says what came of a verb, and with which code to exit.
func exitCode(in *interrupts, err error) int {
	var e ended
	if errors.As(err, &e) && e.code != 0 { // a program's, whatever signals it was sent
		if e.err != nil {
			say("%v", err)
		}
		return e.code
	}
	if code := in.code(); code != 0 {
		var by interruption
		told := errors.As(err, &by)
		if told || err != nil && !errors.Is(err, context.Canceled) {
			say("%v", err)
		}
		if !told {
			say("%v", interruption{in.signal()})
		}
		return code
	}
	if err == nil {
		return 0
	}
	say("%v", err)
	var f failed
	if errors.As(err, &f) || machineFailed(err) {
		return exitFailed
	}
	return exitUsage
}

// nearestFlag ends the error about a flag that a verb does not have.
func nearestFlag(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	hint := ""
	if near := suggest.Nearest(missing.GetSpecifiedName(), known); near != "" { // without the dashes, which nobody mistyped
		hint = fmt.Sprintf("; did you mean %q?", "--"+near)
	}
	return fmt.Errorf("%w%s; see %s --help", err, hint, cmd.CommandPath())
}

// noEmptyFlag refuses a flag with an empty word, as a script gives it whose variable is not
// set: it would count as not given.
func noEmptyFlag(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			what, _ := pflag.UnquoteUsage(f)
			err = fmt.Errorf("--%s: want %s, not an empty word", f.Name, what)
		}
	})
	return err
}

// helpNamesWhatThereIs has "godwit help VERB" fail where there is no such verb: the library's
// shows the root's help.
func helpNamesWhatThereIs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error {
		of, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		if len(rest) > 0 && of.HasAvailableSubCommands() {
			return noSuchVerb(of, rest)
		}
		return of.Help()
	}
}

// noSuchVerb is for commands that only have others below them.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	all := strings.Join(known, ", ")
	if len(args) == 0 {
		_ = cmd.Help() // to the terminal; the error says what is wrong
		if !cmd.HasParent() {
			return nil
		}
		return fmt.Errorf("%s: which? %s", cmd.Name(), all)
	}
	err := fmt.Errorf("unknown command %q; there are %s%s", args[0], all, suggest.For(args[0], known))
	if cmd.HasParent() {
		err = fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return err
}

// machineFailed reports whether an error says that this machine could not do what
// was rightly asked: OpenCL's states above CL_INVALID_VALUE, a full disk.
func machineFailed(err error) bool {
	var status interface{ Status() mem.Status }
	return errors.As(err, &status) && status.Status() > mem.InvalidValue || errors.Is(err, syscall.ENOSPC)
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: not %q", cmd.CommandPath(), args[0])
	}
	return nil
}
