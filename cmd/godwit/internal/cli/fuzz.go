package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"godwit/internal/figures"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
	"godwit/study/live"
)

// fuzzFlags are the flags of godwit fuzz.
type fuzzFlags struct {
	strategies []string
	against    []string
	objective  string
	seed       uint64
	seeds      int
	ops, evals int
	limit      time.Duration
	patience   time.Duration
	out        string
	resume     bool
	from       []string // other directories to resume from
	shard      shard
	blind      bool
	leaks      bool
	alone      bool
	json       bool
	rounds     int
	serve      serveFlag
	begins     []string // directories whose corpora rounds begin with
}

func newFuzz() *cobra.Command {
	var f fuzzFlags
	cmd := &cobra.Command{
		Use:   "fuzz [--resume DIR…]",
		Short: "Search for sequences that hurt a placement strategy",
		Long: `Search for sequences of allocations and frees that hurt a placement strategy.

A guided search keeps the worst sequences, mutates and crosses them, and starts
afresh when nothing more comes of it. Adversaries play first, and again and again:
they look at the addresses they are given before they decide what comes next
(Robson's program, and one for what takes the smallest hole). The worst is shrunk
and saved in --out: a trace for godwit replay, and under corpus/ an entry for the
fuzz target FuzzStrategies of study/alloc/fuzz. The objectives are counted, not
timed, so that the same --seed finds the same on every machine, unless --for or
Ctrl-C ends the search first; then it keeps what it found (after Ctrl-C as it is,
neither shrunk nor measured).

--seeds N makes N searches for each strategy, which take turns on all cores; --for
is divided among them so that all have the same. What each has found is saved after
its turn of 2 s, so that a kill loses no more. --resume begins with what is in --out's
corpus, and in those of other directories, and removes from --out what is of no more
use. --shard K/N makes every N-th of the searches, from the K-th on: N processes, on
as many machines, make all of them (docs/scale.md). --against A,B searches for what
hurts A and not B: the score is the ratio of theirs.

--rounds N makes N rounds of --seeds searches by --evals sequences each. After a round the corpus of a strategy is
the few sequences that together reach all states that any has reached (holes, free and largest hole in eighths,
searches, refusals), the worst among them; the next round begins with it. What is worse than all before is made
smaller beside it. All is counted: the same flags give the same files, also from godwit campaign fuzz, where other
processes and hosts make the units. --out/rounds.rows has what is done until then: the same command goes on.

` + outside + `

  overhead       smallest region / what an offline packing of the sequence needs
  fragmentation  1 - largest hole / free, in a region of twice the peak
  failure        free / request when one fails, in a region of 5/4 of the peak
  slow-op        holes and chunks that one operation looks at, in a region of 5/4`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !f.resume {
				return fmt.Errorf("fuzz: %q: directories to begin with are for --resume", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.from = args
			return runFuzz(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	fl := cmd.Flags()
	f.registerSearch(fl)
	f.registerRounds(fl, 0)
	patienceFlag(fl, &f.patience)
	fl.BoolVar(&f.resume, "resume", false, "begin with the corpus in --out and those in other directories, and minimise --out's at the end")
	f.serve.register(fl)
	fl.Var(&f.shard, "shard", "only every N-th search, from the K-th on (`K/N`)")
	fl.BoolVar(&f.blind, "blind", false, "no guidance: what a guided search is compared with")
	fl.DurationVar(&f.limit, "for", 0, "search, make smaller and measure for this time in all (30s, 5m)")
	cmd.MarkFlagsMutuallyExclusive("rounds", "for")
	cmd.MarkFlagsMutuallyExclusive("rounds", "resume")
	cmd.MarkFlagsMutuallyExclusive("rounds", "shard")
	cmd.MarkFlagsMutuallyExclusive("rounds", "blind")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Flags().Changed("for") && !cmd.Flags().Changed("evals") {
			f.evals = 1 << 40
		}
	}
	return cmd
}

// registerSearch is of what is searched, and where what is found goes.
func (f *fuzzFlags) registerSearch(fl *pflag.FlagSet) {
	fl.StringSliceVarP(&f.strategies, "strategy", "s", []string{"fit"}, "strategies, or all")
	fl.StringVar(&f.objective, "objective", string(fuzz.Overhead), "overhead, fragmentation, failure or slow-op")
	fl.StringSliceVar(&f.against, "against", nil, "two strategies `A,B`: what hurts A and not B, in place of --strategy")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the random numbers")
	fl.IntVar(&f.seeds, "seeds", 1, "searches for each strategy, from --seed on; with --rounds, in each round")
	fl.BoolVar(&f.leaks, "leaks", true, "after each sequence free all, and ask an allocator outside for the whole region again")
	fl.BoolVar(&f.alone, "no-adversaries", false, "leave out the adversaries that look at addresses")
	fl.IntVar(&f.ops, "ops", 400, "operations of a sequence, at most")
	fl.IntVar(&f.evals, "evals", 4000, "sequences to try in each search; with --for, as many as there is time for unless given")
	fl.StringVar(&f.out, "out", "godwit-fuzz", "directory for what is found")
	fl.BoolVar(&f.json, "json", false, "print JSON")
}

// registerRounds is of searches in rounds.
func (f *fuzzFlags) registerRounds(fl *pflag.FlagSet, rounds int) {
	fl.IntVar(&f.rounds, "rounds", rounds, "so many rounds of searches, each of which begins with the corpus that the one before has left")
	fl.StringSliceVar(&f.begins, "begin", nil, "rounds begin with the corpora in these `DIRS`")
}

// fuzzTask is one search: its options, what became of it, and the time it has. It belongs to one
// goroutine at a time.
type fuzzTask struct {
	o       fuzz.Options
	share   time.Duration // 0: as long as it takes
	search  searching     // nil before its first turn
	used    time.Duration // of share
	saved   float64       // the score of what was saved last
	finding *fuzz.Finding // nil before its end
}

// searching is a search that was begun (fuzz.Begin).
type searching interface {
	Advance(ctx context.Context) (ended bool, err error)
	Best() (*fuzz.Finding, error)
	Finish(ctx context.Context) (*fuzz.Finding, error)
}

// advance takes a turn, and saves what is worse than before; at the end it saves the finding.
func (t *fuzzTask) advance(ctx context.Context, dir string) (ended bool, err error) {
	if t.search == nil {
		if t.search, err = fuzz.Begin(t.o); err != nil {
			return false, err
		}
	}
	length, began := turn, time.Now()
	if t.share > 0 {
		length = min(turn, t.share-t.used)
	}
	now, cancel := context.WithTimeout(ctx, length)
	ended, err = t.search.Advance(now)
	cancel()
	t.used += time.Since(began)
	if err != nil {
		return false, err
	}
	if ended || ctx.Err() != nil || t.share > 0 && t.used >= t.share {
		if t.finding, err = t.search.Finish(ctx); err != nil {
			return false, err
		}
		return true, t.finding.Save(ctx, dir)
	}
	best, err := t.search.Best()
	if err != nil || best == nil || best.Score <= t.saved {
		return false, err
	}
	t.saved = best.Score
	return false, best.Save(ctx, dir)
}

// fuzzTasks are the searches that the flags ask for, by strategy and seed.
func fuzzTasks(f fuzzFlags, list []replay.Subject, hasty map[string]replay.Subject, objective fuzz.Objective) []*fuzzTask {
	var against replay.Subject
	if len(f.against) == 2 {
		list, against = list[:1], list[1]
	}
	var tasks []*fuzzTask
	for i, s := range list {
		for k := range f.seeds {
			if !f.shard.has(i*f.seeds + k) {
				continue
			}
			tasks = append(tasks, &fuzzTask{o: fuzz.Options{Subject: s, Against: against, Objective: objective,
				Seed: f.seed + uint64(k), Ops: f.ops, Evals: f.evals, Blind: f.blind, Alone: f.alone, NoLeaks: !f.leaks, Hasty: hasty[s.Name()]}})
		}
	}
	if len(tasks) == 0 {
		return nil // more shards than searches
	}
	// As many run at a time as there are cores: each gets its part of all cores'
	// time, so that the last has as much as the first.
	share := f.limit * time.Duration(min(runtime.GOMAXPROCS(0), len(tasks))) / time.Duration(len(tasks))
	// What is found is then made smaller and measured: that has a part of the time too.
	after := min(share/6, 3*time.Second)
	for _, t := range tasks {
		t.share, t.o.Shrinking = share-after, after
	}
	return tasks
}

func runFuzz(ctx context.Context, out, errOut io.Writer, f fuzzFlags) (err error) {
	if f.rounds > 0 {
		return runRounds(ctx, out, errOut, &f)
	}
	if f.begins != nil {
		return errors.New("--begin is for --rounds; --resume takes directories, too")
	}
	names := f.strategies
	if f.against != nil {
		if len(f.against) != 2 || f.against[0] == f.against[1] {
			return fmt.Errorf("--against %q: want two strategies", strings.Join(f.against, ","))
		}
		names = f.against
	}
	named, err := onlineOnly(ctx, names, f.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, named.close()) }()
	objective, err := fuzz.ParseObjective(f.objective)
	if err != nil {
		return err
	}
	if f.ops < 1 || f.evals < 1 || f.seeds < 1 || f.limit < 0 {
		return errors.New("--ops, --evals and --seeds must be at least 1, --for positive")
	}
	hasty, err := named.hasty(ctx, f.patience)
	if err != nil {
		return err
	}
	tasks := fuzzTasks(f, named.list, hasty, objective)
	if f.resume {
		if err := beginWith(ctx, tasks, append([]string{f.out}, f.from...)); err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
	}
	if err := searchAll(ctx, f, tasks); err != nil {
		return err
	}
	findings := make([]*fuzz.Finding, len(tasks))
	for i, t := range tasks {
		findings[i] = t.finding
	}
	if ctx.Err() != nil { // and not out of the time that --for gave
		_, _ = fmt.Fprintln(errOut, "godwit: stopped early; what was found is kept") // stderr: nothing to do about an error
	}
	if f.resume {
		if err := minimise(ctx, errOut, f.out, tasks); err != nil {
			return err
		}
	}
	return tellFindings(out, errOut, findings, f.json)
}

// tellFindings shows what was found; it fails where an allocator broke its contract.
func tellFindings(out, errOut io.Writer, findings []*fuzz.Finding, asJSON bool) (err error) {
	if asJSON {
		err = writeJSON(out, findings)
	} else {
		printFindings(out, findings)
	}
	n := 0
	for _, x := range findings {
		if x.Fault != nil {
			n++
			_, _ = fmt.Fprintln(errOut, "godwit:", x.Fault) // as above
		}
	}
	if err == nil && n > 0 {
		err = failed{fmt.Errorf("%d searches ended with an allocator that broke its contract", n)}
	}
	return err
}

// beginWith gives the tasks the corpora of directories.
func beginWith(ctx context.Context, tasks []*fuzzTask, dirs []string) error {
	corpus, err := readCorpora(ctx, dirs)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		t.o.Corpus = corpus
	}
	return nil
}

// readCorpora reads the genomes of several corpora.
func readCorpora(ctx context.Context, dirs []string) (corpus [][]byte, err error) {
	for _, dir := range dirs {
		entries, err := fuzz.ReadCorpus(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			corpus = append(corpus, e.Genome)
		}
	}
	return corpus, nil
}

// turn is how long a search goes on before another has its turn, and what it has found is saved.
const turn = 2 * time.Second

// searchAll has the tasks take turns on all cores, and saves what they find: of one that is killed
// all but its last turn.
func searchAll(ctx context.Context, f fuzzFlags, tasks []*fuzzTask) (err error) {
	total := f.evals * len(tasks)
	if f.limit > 0 && f.evals == 1<<40 {
		total = -1 // a spinner: nobody knows how many
	}
	b := newBoard(tasks)
	bar := newProgressOf(total, "searching", b.more)
	defer bar.finish()
	page, err := f.serve.serve(ctx, live.Options{Title: "A search for what hurts a strategy", State: bar.state})
	if err != nil {
		return err
	}
	defer func() {
		page.end(err)
		page.close()
	}()
	g, ctx := errgroup.WithContext(ctx)
	waiting := make(chan *fuzzTask, len(tasks))
	for _, t := range tasks {
		t.o.Progress = func(best float64) {
			b.tried(t, best)
			bar.add(1)
		}
		waiting <- t
	}
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		g.Go(func() error {
			for {
				select {
				case t := <-waiting:
					if ended, err := t.advance(ctx, f.out); err != nil {
						return fmt.Errorf("%s: %w", t.o.Subject.Name(), err)
					} else if !ended {
						waiting <- t
					}
				default: // what is left has somebody at it
					return nil
				}
			}
		})
	}
	return g.Wait()
}

// board is how searches go, for who looks. Safe for concurrent use.
type board struct {
	mu    sync.Mutex
	tasks []*fuzzTask           // immutable
	evals map[*fuzzTask]int64   // protected by mu
	best  map[*fuzzTask]float64 // protected by mu
}

func newBoard(tasks []*fuzzTask) *board {
	return &board{tasks: tasks, evals: make(map[*fuzzTask]int64), best: make(map[*fuzzTask]float64)}
}

// tried notes that a search has tried one more, and its best.
func (b *board) tried(t *fuzzTask, best float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evals[t]++
	b.best[t] = best
}

// more adds searches to a state.
func (b *board) more(s *live.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	top := 0.0
	t := live.Table{Title: "searches", Header: []string{"strategy", "seed", "tried", "best"}}
	for _, x := range b.tasks {
		top = max(top, b.best[x])
		t.Rows = append(t.Rows, []string{x.o.Subject.Name(), fmt.Sprint(x.o.Seed), humanize.Comma(b.evals[x]), fmt.Sprintf("%.4f", b.best[x])})
	}
	if top > 0 {
		s.Facts = append(s.Facts, live.Fact{Value: fmt.Sprintf("%.4f", top), Name: "at best"})
	}
	s.Tables = append(s.Tables, t)
}

// minimise does so for the corpus of each strategy searched.
func minimise(ctx context.Context, errOut io.Writer, dir string, tasks []*fuzzTask) error {
	done := make(map[string]bool)
	for _, t := range tasks {
		if name := t.o.Subject.Name(); !done[name] && t.finding.Fault == nil {
			done[name] = true
			left, removed, err := fuzz.Minimise(ctx, dir, t.o)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(errOut, "godwit: corpus of %s: %d kept, %d removed\n", name, left, removed) // stderr: nothing to do about an error
		}
	}
	return nil
}

func printFindings(w io.Writer, findings []*fuzz.Finding) {
	rows := make([]fuzz.Finding, len(findings))
	for i, f := range findings {
		rows[i] = *f
	}
	cell := func(header string) special[fuzz.Finding] {
		columns := figures.Of[fuzz.Finding]()
		c := columns[slices.IndexFunc(columns, func(c figures.Column) bool { return c.Header == header })]
		return special[fuzz.Finding]{header, func(f *fuzz.Finding) string {
			switch {
			case f.Fault != nil && header == "score":
				return string(f.Fault.Kind)
			case f.Offline > 0 && f.MinRegion == 0 && header == "region": // else it was interrupted before it was measured
				return "never fits"
			case f.AtMost && f.MinRegion > 0 && header != "score":
				return "≤ " + c.Text(f)
			}
			return c.Text(f)
		}}
	}
	show(w, 2, 0, rows, cell("score"), cell("region"), cell("/ peak"), cell("/ offline"))
	for _, f := range findings {
		for _, file := range []string{f.TraceFile, f.CorpusFile} {
			if file != "" && fileExists(file) { // minimising may have removed it
				_, _ = fmt.Fprintln(w, file) // as the table above
			}
		}
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
