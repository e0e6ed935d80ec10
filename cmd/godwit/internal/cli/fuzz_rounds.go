package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"godwit/study/alloc/extern"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
	"godwit/study/live"
	"godwit/study/sweep"
)

// names are the strategies that are searched, none of which is opened: allocators of one's own may be another host's.
func (f *fuzzFlags) names() (out []string, err error) {
	given := f.strategies
	if f.against != nil {
		if len(f.against) != 2 || f.against[0] == f.against[1] {
			return nil, fmt.Errorf("--against %q: want two strategies", strings.Join(f.against, ","))
		}
		given = f.against
	}
	for _, name := range given {
		switch {
		case strings.EqualFold(name, "all"):
			for _, s := range replay.Subjects() {
				out = append(out, s.Name())
			}
		case extern.Is(name):
			out = append(out, name)
		default:
			s, err := replay.ParseSubject(name)
			if err != nil {
				return nil, fmt.Errorf("%w (or all, lib:PATH, exec:COMMAND)", err)
			}
			out = append(out, s.Name())
		}
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(out, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	}), nil
}

// begin is the rounds that the flags ask for, none of whose units are made, and the build that makes them.
func (f *fuzzFlags) begin(ctx context.Context) (rounds *fuzz.Rounds, build string, err error) {
	names, err := f.names()
	if err != nil {
		return nil, "", err
	}
	if build, err = sweep.Executable(); err != nil {
		return nil, "", failed{err}
	}
	objective, err := fuzz.ParseObjective(f.objective)
	if err != nil {
		return nil, "", err
	}
	if f.ops < 1 || f.evals < 1 || f.seeds < 1 || f.rounds < 1 {
		return nil, "", errors.New("--ops, --evals, --seeds and --rounds must be at least 1")
	}
	t := &fuzz.RoundsTask{Strategies: names, Objective: objective, Seed: f.seed, Seeds: f.seeds, Rounds: f.rounds, Evals: f.evals, Ops: f.ops,
		Alone: f.alone, NoLeaks: !f.leaks}
	if f.against != nil {
		t.Strategies, t.Against = names[:1], names[1]
	}
	corpus, err := readCorpora(ctx, f.begins)
	if err != nil {
		return nil, "", fmt.Errorf("--begin: %w", err)
	}
	rounds, err = fuzz.NewRounds(t, build, corpus)
	return rounds, build, err
}

// runRounds makes rounds in this process.
func runRounds(ctx context.Context, out, errOut io.Writer, f *fuzzFlags) (err error) {
	rounds, _, err := f.begin(ctx)
	if err != nil {
		return err
	}
	var here subjects
	defer func() { err = errors.Join(err, here.close()) }()
	runner, err := fuzz.NewRunner(ctx, rounds.Task(), func(ctx context.Context, name string) (subject, hasty replay.Subject, err error) {
		return here.both(ctx, name, f.patience)
	}, func(_ context.Context, hash string) ([]byte, error) { return rounds.Blob(hash), nil })
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(f.out, "rounds.rows")
	j, err := openJournal(path, fuzz.JournalName, takeJournal(rounds.Keep))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	bar := newProgress(rounds.Len(), "searching")
	page, err := f.serve.serve(ctx, live.Options{Title: "Searches in rounds", State: bar.state})
	if err != nil {
		bar.finish()
		return err
	}
	defer page.close()
	err = rounds.Run(ctx, runner, runtime.GOMAXPROCS(0), func() {
		round, all, findings, _ := rounds.Progress()
		bar.describe(fmt.Sprintf("round %d of %d, %s", round, all, plural(findings, "finding")))
		bar.set(int64(rounds.Have()), int64(rounds.Len()))
	})
	page.end(err)
	bar.finish()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; what is done is in %s: the same command goes on", endOf(ctx, err), path)
	}
	if err != nil {
		return failed{err}
	}
	return f.tellRounds(ctx, out, errOut, rounds, j.Remove)
}

// tellRounds saves what was found, calls saved, and shows it.
func (f *fuzzFlags) tellRounds(ctx context.Context, out, errOut io.Writer, rounds *fuzz.Rounds, saved func() error) error {
	n, err := rounds.Save(ctx, f.out)
	if err == nil {
		err = saved()
	}
	if err != nil {
		return failed{err}
	}
	_, _, _, evals := rounds.Progress()
	_, _ = fmt.Fprintf(errOut, "godwit: %d units, %d sequences; corpus: %d kept\n", rounds.Len(), evals, n) // stderr: nothing to do about an error
	return tellFindings(out, errOut, rounds.Findings(), f.json)
}
