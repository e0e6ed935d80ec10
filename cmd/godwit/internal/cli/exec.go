package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"godwit/internal/icd/devicefile"
	"godwit/internal/icd/tracelog"
	"godwit/internal/input"
	"godwit/internal/process"
)

// execFlags are the flags of godwit exec.
type execFlags struct {
	devices, backend, trace, record, html, timeline, lib string
	json                                                 bool
}

// Exit codes of godwit exec besides the program's own, as of env and shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

func newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [--devices N|FILE] [--backend LIB] [--trace[=FILE]] -- PROGRAM ARGS…",
		Short: "Run any OpenCL program on Godwit's platform, show what was moved",
		Long: `Run any OpenCL program on Godwit's platform, show what was moved.

The program sees one platform, called Godwit, whose devices have memories of
their own; its buffers move between them by Godwit's planner, and another OpenCL
library compiles and runs its kernels. The program need not know: everything is
said by environment variables, which exec sets for it (docs/icd.md).

After the program has ended the bytes moved are shown on standard error. With
--json they are one object on standard output, and the program's own output goes
to standard error.

Exit code: the program's own; 128 and the signal's number where a signal ended
it; 127 where there is no such program, 126 where it cannot be run; 2 bad usage,
or libgodwit.so is missing.`,
		Example: `  godwit exec -- clinfo
  godwit exec --devices 4 -- ./program
  godwit exec --devices 4 --trace=program.trace -- python3 program.py
  godwit exec --record=program.commands -- ./program      # then: godwit replay program.commands --memory 50%,70%,90%
  godwit exec --backend nvidia --devices 2 -- ./program`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("exec: which program? want godwit exec [flags] -- PROGRAM ARGS…; see godwit exec --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return execProgram(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, f)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the program's name is the program's
	flags.StringVar(&f.devices, "devices", "", "how many devices, which of them in which order (0,2 or gpu1,gpu0), or a YAML file that describes them (`N|LIST|FILE`)")
	flags.StringVar(&f.backend, "backend", "", "the OpenCL `library` that compiles and runs kernels: pocl, nvidia, oclgrind or a path")
	flags.StringVar(&f.trace, "trace", "", "write every command and copy, with its reason, to `FILE` (without one, to standard error)")
	flags.Lookup("trace").NoOptDefVal = "-"
	flags.StringVar(&f.record, "record", "", "write what each command accesses to `FILE`, for godwit replay: other policies, other capacities")
	flags.StringVar(&f.html, "html", "", "write what ran as one page for a browser to `FILE`: some 2 KB of memory for each command and copy")
	flags.StringVar(&f.timeline, "timeline", "", "write what ran as Perfetto-readable JSON to `FILE`")
	flags.StringVar(&f.lib, "lib", "", "`path` of libgodwit.so")
	flags.BoolVar(&f.json, "json", false, "print what was moved as one JSON object")
	return cmd
}

// execProgram runs a program under libgodwit.so and shows what was moved.
func execProgram(ctx context.Context, out, errOut io.Writer, args []string, f execFlags) (err error) {
	dir, remove, err := process.TempDir(ctx, "", "godwit-exec")
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // the program's outcome is what counts
	file := filepath.Join(dir, "summary.json")
	env, err := f.environment(ctx, file)
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if f.json {
		cmd.Stdout = os.Stderr
	}
	end, err := runPassingSignals(ctx, cmd)
	if err != nil {
		return ended{end.code, err}
	}
	if err := f.showMoved(out, errOut, file, args[0], end); err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	if end.code != 0 {
		return ended{code: end.code}
	}
	return nil
}

// environment is what tells libgodwit.so all that the flags say.
func (f *execFlags) environment(ctx context.Context, summary string) (env []string, err error) {
	writes := []given{{"--trace", f.trace}, {"--record", f.record}, {"--html", f.html}, {"--timeline", f.timeline}}
	if err := apart(writes, given{"--devices", f.devices}); err != nil {
		return nil, err
	}
	lib, err := findLibrary(f.lib)
	if err != nil {
		return nil, err
	}
	// ocl-icd takes a library's path in the first, Khronos's loader in the second.
	env = []string{"OCL_ICD_VENDORS=" + lib, "OCL_ICD_FILENAMES=" + lib, "GODWIT_SUMMARY=" + summary}
	for _, x := range []struct {
		flag, value, variable string
		check                 func(context.Context, string) (string, error)
	}{
		{"--devices", f.devices, "GODWIT_DEVICES", describedDevices},
		{"--backend", f.backend, "GODWIT_BACKEND", backendPath},
		{"--trace", f.trace, "GODWIT_TRACE", emptiedOrError},
		{"--record", f.record, "GODWIT_RECORD", emptied},
		{"--html", f.html, "GODWIT_HTML", emptied},
		{"--timeline", f.timeline, "GODWIT_TIMELINE", emptied},
	} {
		if x.value == "" {
			continue
		}
		value, err := x.check(ctx, x.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.flag, err)
		}
		env = append(env, x.variable+"="+value)
	}
	return env, nil
}

// describedDevices checks what --devices says: the program would see no platform.
func describedDevices(ctx context.Context, text string) (string, error) {
	w, err := devicefile.ParseWish(text)
	if err != nil || w.File == "" {
		return text, err
	}
	path, err := existing(w.File)
	if err != nil {
		return "", fmt.Errorf("%s is a number, a list of devices or a file: %w", text, err)
	}
	_, err = devicefile.Read(ctx, path)
	return path, err
}

// backendPath is a library's absolute path, or its name.
func backendPath(_ context.Context, name string) (string, error) {
	if !strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	return existing(name)
}

// emptied makes a file, so that one that cannot be is bad usage, and gives its absolute path.
func emptied(_ context.Context, path string) (string, error) {
	w, err := os.Create(path)
	if err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// emptiedOrError is emptied, but for standard error.
func emptiedOrError(ctx context.Context, path string) (string, error) {
	if path == "-" {
		return path, nil
	}
	return emptied(ctx, path)
}

// existing is a file's absolute path.
func existing(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// outcome is how a program ended.
type outcome struct {
	code   int            // to pass on
	signal syscall.Signal // that ended it; 0 is none
}

// runPassingSignals runs a program to its end. Signals sent to this process
// meanwhile are the program's, but for those that were ignored from the start: the
// program ignores them too. It is killed where this process ends first.
func runPassingSignals(ctx context.Context, cmd *exec.Cmd) (outcome, error) {
	signals := make(chan os.Signal, 8)
	in := interruptsOf(ctx)
	for _, s := range passedOn {
		if !in.ignoredAtStart(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	in.standDown()
	defer in.resume()
	if err := ctx.Err(); err != nil {
		return outcome{}, err // was interrupted before
	}
	process.DieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return outcome{code: exitNotFound}, fmt.Errorf("exec: %w", err)
		}
		return outcome{code: exitCannotRun}, fmt.Errorf("exec: %w", err)
	}
	// A terminal sends these to the program itself.
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if !terminal || (s != syscall.SIGINT && s != syscall.SIGQUIT) {
				_ = cmd.Process.Signal(s) // it may have ended meanwhile
			}
		case err := <-ended:
			return outcomeOf(err)
		}
	}
}

// outcomeOf reads what Wait says of a program's end.
func outcomeOf(err error) (outcome, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return outcome{}, nil
	case !errors.As(err, &exit):
		return outcome{code: exitCannotRun}, fmt.Errorf("exec: %w", err)
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return outcome{exitSignal + int(ws.Signal()), ws.Signal()}, nil
	}
	return outcome{code: exit.ExitCode()}, nil
}

// maxSummary bounds a summary, in bytes.
const maxSummary = 64 << 20

// showMoved prints the summary that the library left. A trace on standard error ends
// with it already.
func (f *execFlags) showMoved(out, errOut io.Writer, file, program string, end outcome) error {
	text, err := input.ReadFile(context.Background(), file, maxSummary) // the program could have put anything there
	if errors.Is(err, fs.ErrNotExist) {
		if f.json {
			return writeJSON(out, &tracelog.Summary{
				Devices: []tracelog.DeviceUse{}, Links: []tracelog.LinkUse{}, Buffers: []tracelog.BufferUse{}, Ops: map[string]int{},
			})
		}
		if end.signal == 0 {
			_, err = fmt.Fprintf(errOut, "\ngodwit: %s made no OpenCL context, or left without its exit handlers\n", program)
		} else {
			_, err = fmt.Fprintf(errOut, "\ngodwit: %s was ended by signal %d (%v): what it moved is not known\n", program, int(end.signal), end.signal)
		}
		return err
	}
	if err != nil {
		return err
	}
	var s tracelog.Summary
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s left a summary that cannot be read: %w", program, err)
	}
	if f.json {
		return writeJSON(out, &s)
	}
	if f.trace == "-" {
		return nil
	}
	if _, err := fmt.Fprintln(errOut); err != nil {
		return err
	}
	return s.Print(errOut)
}
