// Command soak runs the random suites of the module in turn, with new seeds, until
// they have run for so long in all, or each once, histories until so many commands:
//
//	go run ./tests/internal/soak -for 8h
//	go run ./tests/internal/soak -only /apart -commands 3000000 -seed 7
//
// A suite is a file of tests with a long form (GODWIT_SOAK) or drawn histories
// (rapid), or a fuzz target; they are found in the sources. The suite that has run
// least comes next. After every turn the state is saved, so that a soak that was
// stopped goes on where it was when it is started again; an interrupted turn counts
// as none. A turn that fails is kept in failures/ with all that it printed, its
// seeds, and its shrunk history or input where the suite saves one, and the others
// go on.
//
// Exit code: 0, 1 where a turn has failed, 130 where it was interrupted.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"godwit/internal/outfile"
	"godwit/internal/process"
)

type options struct {
	length   time.Duration
	commands int    // of a suite, which then has one turn; 0 is what it has of itself
	seed     uint64 // of a suite's first history; 0 has it drawn
	dir      string
	only     string
	race     bool
	fuzzTime time.Duration
	checks   int
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", time.Hour, "how long in all")
	flag.IntVar(&o.commands, "commands", 0, "each suite but the fuzz targets once, those of histories until so many commands were accepted, in place of -for")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of the first history, to repeat a turn (0: a new one)")
	flag.StringVar(&o.dir, "dir", "soak", "where the state, the binaries and the failures are")
	flag.StringVar(&o.only, "only", "", "suites whose name holds this")
	flag.BoolVar(&o.race, "race", false, "with the race detector")
	flag.DurationVar(&o.fuzzTime, "fuzztime", time.Minute, "a turn of a fuzz target")
	flag.IntVar(&o.checks, "checks", 2000, "histories that rapid draws in a turn")
	flag.Parse()
	var guard process.Guard
	ctx, stop := signal.NotifyContext(process.With(context.Background(), &guard), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	failed, err := run(ctx, o)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "soak: interrupted; it goes on when it is started again")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

// run takes turns until the time is over, and prints the summary.
func run(ctx context.Context, o options) (failed bool, err error) {
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Join(o.dir, "failures"), 0o777); err != nil {
		return false, err
	}
	file := filepath.Join(o.dir, "state.json")
	s, err := load(file, o.length)
	if err != nil {
		return false, err
	}
	suites, err := findSuites(".")
	if err != nil {
		return false, err
	}
	defer func() { s.print(os.Stdout) }()
	suites = slices.DeleteFunc(suites, func(x suite) bool { return !strings.Contains(x.name, o.only) || o.commands > 0 && x.fuzz != "" })
	if len(suites) == 0 {
		return false, fmt.Errorf("no suite's name holds %q", o.only)
	}
	for len(suites) > 0 && (o.commands > 0 || s.took() < s.For) && ctx.Err() == nil {
		i := least(suites, s)
		next := suites[i]
		if o.commands > 0 {
			suites = slices.Delete(suites, i, i+1)
		}
		if err := turn(ctx, o, s, &next); err != nil {
			return false, err
		}
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return false, err
		}
		if err := outfile.Write(ctx, file, append(text, '\n')); err != nil {
			return false, err
		}
	}
	for _, t := range s.Suites {
		failed = failed || t.Failed > 0
	}
	return failed, nil
}

// least is which suite has run least.
func least(suites []suite, s *state) (next int) {
	var best time.Duration
	for i, x := range suites {
		took := time.Duration(0)
		if t := s.Suites[x.name]; t != nil {
			took = t.Took
		}
		if i == 0 || took < best {
			next, best = i, took
		}
	}
	return next
}

// turn runs a suite once and adds what came of it to the state.
func turn(ctx context.Context, o options, s *state, x *suite) error {
	bin, err := build(ctx, o, x)
	if err != nil || ctx.Err() != nil {
		return err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, bin, x.args(o)...)
	cmd.Dir = x.dir
	cmd.Env = append(os.Environ(), o.env()...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = process.Run(ctx, cmd)
	if ctx.Err() != nil {
		return nil
	}
	t := s.Suites[x.name]
	if t == nil {
		t = &tally{}
		s.Suites[x.name] = t
	}
	t.Turns++
	t.Took += time.Since(began)
	t.add(out.String())
	fmt.Printf("%s %-50s turn %d, %v, %d commands so far\n", time.Now().Format(time.TimeOnly), x.name, t.Turns, time.Since(began).Round(time.Second), t.Commands)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	case x.fuzz != "" && strings.Contains(out.String(), "context deadline exceeded") && !strings.Contains(out.String(), "Failing input written"):
		return nil // the engine was late at its own end: no finding
	}
	t.Failed++
	return keep(ctx, o, x, t, out.Bytes())
}

// env is what tells a turn how long it is.
func (o options) env() []string {
	env := []string{"GODWIT_SOAK=1"}
	if o.commands > 0 {
		env = append(env, fmt.Sprint("GODWIT_SOAK_COMMANDS=", o.commands))
	}
	if o.seed > 0 {
		env = append(env, fmt.Sprint("GODWIT_SEED=", o.seed))
	}
	return env
}

// build builds the test binary of a suite's package; Go's cache makes it quick when
// nothing has changed.
func build(ctx context.Context, o options, x *suite) (string, error) {
	bin := filepath.Join(o.dir, "bin", strings.ReplaceAll(x.dir, "/", "_")+".test")
	args := []string{"test", "-c", "-o", bin}
	if o.race {
		args = append(args, "-race")
	}
	if x.fuzz != "" {
		bin += ".fuzz"
		args[3] = bin
		args = append(args, "-fuzz", "^"+x.fuzz+"$") // instrumented
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+x.dir)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := process.Run(ctx, cmd); err != nil {
		return "", fmt.Errorf("building %s: %w", x.dir, err)
	}
	return bin, nil
}

// keep saves a failed turn.
func keep(ctx context.Context, o options, x *suite, t *tally, output []byte) error {
	name := fmt.Sprintf("%s.%d.log", strings.ReplaceAll(x.name, "/", "_"), t.Turns)
	file := filepath.Join(o.dir, "failures", name)
	fmt.Printf("%s FAILED: %s\n", x.name, file)
	head := fmt.Sprintf("# %s, turn %d: cd %s && %s go test %s\n", x.name, t.Turns, x.dir, strings.Join(o.env(), " "), strings.ReplaceAll(strings.Join(x.args(o), " "), "-test.", "-"))
	return outfile.Write(ctx, file, append([]byte(head), output...))
}
