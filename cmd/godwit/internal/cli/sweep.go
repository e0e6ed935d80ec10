package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"godwit/internal/figures"
	"godwit/internal/journal"
	"godwit/internal/outfile"
	"godwit/internal/suggest"
	"godwit/study/live"
	"godwit/study/plot"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// sweepFlags are the flags of godwit sweep.
type sweepFlags struct {
	scenarioFlags    // --policy and --driver may be several, with commas between
	out              []string
	resume           bool
	from             []string // other journals and results to resume from
	shard            shard
	fast, wide, json bool
	jobs             int // 0: as many as there are cores
	serve            serveFlag
	x, facet         string
	plots            []string
	y, by, columns   []string
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep SCENARIO | --example NAME [--resume ROWS…]",
		Short: "Run a scenario with many values of its parameters, and plot what came of it",
		Long: `Run a scenario with many values of its parameters, and plot what came of it.

The points are the product of the values of each --set, --machine, --policy, --driver and --graph, of which the last
changes first. Values are given with commas between, or as ranges: 2..64*2 is 2, 4, 8, 16, 32, 64;
1..9+2 is 1, 3, 5, 7, 9; 1..4 is 1, 2, 3, 4; 64KiB..1MiB*4 and 1us..1ms*10 are in bytes and
nanoseconds. At most 10,000,000 points; above 10,000 they want --out.

With --machine all points are in virtual time, and run on all cores. Otherwise they run one at a
time, since the times of each are measured; with --fast they run on all cores (--jobs) and no times are kept.

--out FILE.csv and --out FILE.jsonl write the results when all points are done, in their order.
Until then FILE.rows has what is done. A sweep that was interrupted or killed goes on with
--resume: a point is known by a hash of its expanded scenario, machine, inputs and program, so what
has changed is done again. A results file of JSON lines is taken from, too, so that a sweep can be
made larger, and so are other journals and results that are named behind the scenario.

--shard K/N makes every N-th point, from the K-th on, and leaves FILE.K-of-N.rows: N processes, on as
many machines, make all of them, and godwit sweep merge makes the results (docs/scale.md).

Exit code: 0 all points as expected, 1 some were not or could not be finished (the results are
written all the same), 2 bad usage or a scenario that is at fault at some point, 128 and the
signal's number where it was interrupted.`,
		Example: `  godwit sweep --example matmul --set n=2..64*2 --set schedule=rows,grid,turned --fast
  godwit sweep study.yaml --set n=2..64*2 --set size=64KiB,1MiB --out study.csv --resume
  godwit sweep study.yaml --set n=1..100000 --out study.csv --fast --shard 3/64 --resume
  godwit sweep merge --out study.csv study.*-of-64.rows
  godwit sweep study.yaml --set n=2..64*2 --plot study.html --y bytes_moved,bytes_lower_bound`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.resume && len(args) > 0 { // the others are journals
				if f.example != "" {
					return nil
				}
				args = args[:1]
			}
			return f.oneScenario(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 && f.example == "" {
				file, args = args[0], args[1:]
			}
			f.from = args
			if cmd.Flags().Changed("jobs") && f.jobs < 1 {
				return fmt.Errorf("--jobs %d: want at least 1", f.jobs)
			}
			return runSweep(cmd.Context(), cmd.OutOrStdout(), file, &f)
		},
	}
	f.register(cmd)
	f.registerStamps(cmd)
	flags := cmd.Flags()
	describeAxes(cmd)
	f.registerResults(cmd)
	flags.BoolVar(&f.resume, "resume", false, "take what an interrupted sweep with the same --out has done, and journals and results that are named")
	f.serve.register(flags)
	flags.Var(&f.shard, "shard", "only every N-th point, from the K-th on (`K/N`)")
	flags.BoolVar(&f.fast, "fast", false, "keep no times, and run points on all cores")
	flags.IntVar(&f.jobs, "jobs", 0, "`N` points at once, with --fast or --machine (default: as many as there are cores)")
	cmd.AddCommand(newSweepMerge())
	return cmd
}

// registerResults is of what becomes of results.
func (f *sweepFlags) registerResults(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.out, "out", nil, "write the results to `FILE`, which ends in .csv or .jsonl; may be given several times")
	flags.BoolVar(&f.wide, "wide", false, "in CSV, columns for each link and each device too; JSON lines have these always")
	flags.BoolVar(&f.json, "json", false, "print the results as JSON lines")
	flags.StringArrayVar(&f.plots, "plot", nil, "draw the results in `FILE`: .svg or .pdf, or else a page of HTML with any column over any other; - is standard output; may be given several times")
	flags.StringVar(&f.x, "x", "", "draw over this `COLUMN` at first (default: the first parameter with several values)")
	flags.StringSliceVar(&f.y, "y", nil, "draw these `COLUMNS` at first (default: bytes_moved)")
	flags.StringVar(&f.facet, "facet", "", "in .svg and .pdf, a panel for each value of this `COLUMN`")
	flags.StringArrayVar(&f.columns, "column", nil, "`NAME=EXPRESSION` of other columns, to be drawn; first_X is X of the first row that differs in what --x names only")
	flags.StringSliceVar(&f.by, "by", nil, "a line for each value of these `COLUMNS` at first (default: all other parameters)")
}

// describeAxes says in the flags of a scenario that several values may be given.
func describeAxes(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Lookup("set").Usage = "`NAME=VALUES` of a parameter the scenario declares, or of the machine, machine.NAME=VALUES; several make the product"
	for _, name := range []string{"machine", "policy", "driver", "graph"} {
		flags.Lookup(name).Usage += "; several, with commas between, make the product"
	}
}

// config says which scenario is run, and with which values.
func (f *scenarioFlags) config(ctx context.Context, file, example string) (*sweep.Config, error) {
	base := *f
	base.set, base.policy, base.driver, base.graph = nil, "", "", ""
	opt, err := base.options(false)
	if err != nil {
		return nil, err
	}
	if err := f.checkStamps(); err != nil {
		return nil, err
	}
	c := &sweep.Config{Base: opt, Stamps: f.stamps}
	for _, text := range f.set {
		a, err := sweep.ParseAxis(text)
		if err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
		c.Axes = append(c.Axes, a)
	}
	if f.driver != "" && f.machine != "" {
		return nil, fmt.Errorf("--machine %s and --driver %s: a run is on a machine or on a driver's devices", f.machine, f.driver)
	}
	c.Machine = loadMachine
	for _, of := range []struct {
		kind       sweep.Kind
		name, list string
	}{{sweep.Machine, "machine", f.machine}, {sweep.Policy, "policy", f.policy}, {sweep.Driver, "driver", f.driver}, {sweep.Graph, "graph", f.graph}} {
		values := names(of.list)
		if slices.Contains(values, "") {
			return nil, fmt.Errorf("--%s %q: want names with commas between", of.name, of.list)
		}
		if len(values) > 0 {
			c.Axes = append(c.Axes, sweep.Axis{Kind: of.kind, Name: of.name, Values: values})
		}
	}
	t, err := readScenario(ctx, file, example)
	if err != nil {
		return nil, err
	}
	c.File, c.Data, c.Base.Files = t.file, t.data, t.files
	return c, nil
}

// names are those of a list with commas; none of an empty one.
func names(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// journalName is the journal's place beside results; a shard has its own.
func (f *sweepFlags) journalName(out string) string {
	name := strings.TrimSuffix(out, filepath.Ext(out))
	if f.shard.n > 0 {
		name = fmt.Sprintf("%s.%d-of-%d", name, f.shard.k, f.shard.n)
	}
	return name + ".rows"
}

// writes are the files that a sweep makes.
func (f *sweepFlags) writes() []given {
	var out []given
	for _, path := range f.plots {
		out = append(out, given{"--plot", path})
	}
	for i, path := range f.out {
		out = append(out, given{"--out", path})
		if i == 0 {
			out = append(out, given{"the journal", f.journalName(path)})
		}
	}
	return out
}

// check refuses flags that go ill together, before anything is read.
func (f *sweepFlags) check() error {
	for _, path := range f.out {
		if ext := filepath.Ext(path); ext != ".csv" && ext != ".jsonl" {
			return fmt.Errorf("--out %s: want a name that ends in .csv or .jsonl", path)
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // it is written at the end, and is then read, perhaps
			return fmt.Errorf("--out %s: want a regular file, or none yet", path)
		}
	}
	switch {
	case f.resume && len(f.out) == 0:
		return errors.New("--resume: of which sweep? say --out, as it did")
	case f.shard.n > 0 && len(f.out) == 0:
		return errors.New("--shard: where are its rows to be? say --out, as the other shards do")
	case f.shard.n > 0 && (f.plots != nil || f.json):
		return errors.New("--shard: a part has no results: --json and --plot are for sweep merge")
	case f.jobs > 1 && !f.fast && f.machine == "":
		return fmt.Errorf("--jobs %d: points whose times are measured run one at a time: want --fast, which keeps no times, or --machine, whose times are virtual", f.jobs)
	case slices.Contains(f.plots, stdout) && f.json:
		return errors.New("--plot - and --json: both are to be standard output")
	case f.plots == nil && (f.x+f.facet != "" || len(f.y)+len(f.by)+len(f.columns) > 0):
		return errors.New("--x, --y, --by, --facet and --column are for --plot")
	}
	return nil
}

// maxShown is how many points may be in a table, a plot or memory.
const maxShown = 10_000

// checkPoints refuses more points than can be shown where they are to be.
func (f *sweepFlags) checkPoints(n int) error {
	switch {
	case n > maxShown && len(f.out) == 0:
		return fmt.Errorf("%s: more than %s want --out", plural(n, "point"), humanize.Comma(maxShown))
	case n > maxShown && f.plots != nil:
		return fmt.Errorf("--plot: %s: want at most %s", plural(n, "point"), humanize.Comma(maxShown))
	case n > 1_000_000: // what is held of each is never given up, and room for as much again is not needed
		debug.SetGCPercent(20)
	}
	return nil
}

// sweepOf is the sweep that the flags ask for.
func (f *sweepFlags) sweepOf(ctx context.Context, file string) (*sweep.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := apart(f.writes(), f.reads(file)...); err != nil {
		return nil, err
	}
	if err := makeable(ctx, f.writes()...); err != nil {
		return nil, err
	}
	if err := f.checkMachineSet(); err != nil {
		return nil, err
	}
	c, err := f.config(ctx, file, f.example)
	if err != nil {
		return nil, err
	}
	c.Fast = f.fast
	if c.Build, err = sweep.Executable(); err != nil {
		return nil, failed{err}
	}
	return c, f.checkColumns(c)
}

// begin is the sweep that the flags ask for, none of whose points are made.
func (f *sweepFlags) begin(ctx context.Context, file string) (*sweep.Config, *sweep.Rows, error) {
	c, err := f.sweepOf(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	points, err := c.Points()
	if err == nil {
		err = f.checkPoints(points.Len())
	}
	if err != nil {
		return nil, nil, err
	}
	rows, err := c.Rows(ctx)
	if err != nil {
		err = sweepError(ctx, err)
	}
	return c, rows, err
}

func runSweep(ctx context.Context, w io.Writer, file string, f *sweepFlags) (err error) {
	c, rows, err := f.begin(ctx, file)
	if err != nil {
		return err
	}
	opt := sweep.RunOptions{Jobs: cmp.Or(f.jobs, runtime.GOMAXPROCS(0)), Rows: rows, Has: f.shard.has}
	var own *journal.File
	if len(f.out) > 0 {
		var close func() error
		if own, close, err = f.openJournal(rows); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, close()) }()
	}
	bar := newSweepProgress(ctx, c, rows.Points(), f.shard.has)
	opt.Began, opt.Ended = bar.begin, bar.end
	page, err := f.serve.serve(ctx, live.Options{Title: "A sweep of " + filepath.Base(c.File), State: bar.state})
	if err != nil {
		bar.finish()
		return err
	}
	defer page.close()
	res, err := sweep.Run(ctx, c, opt)
	page.end(err)
	bar.finish()
	if err != nil {
		if own != nil && ctx.Err() != nil && !own.Empty() {
			return fmt.Errorf("%w; what is done is in %s: --resume goes on", endOf(ctx, err), f.journalName(f.out[0]))
		}
		return sweepError(ctx, err)
	}
	switch {
	case f.shard.n > 0:
		own.Keep()
		err = own.Sync()
		fmt.Fprintf(w, "%s of %s%s: %s\n", plural(res.Points, "point"), humanize.Comma(int64(rows.Points().Len())), knownBefore(res), f.journalName(f.out[0]))
	case own != nil:
		if err = f.write(ctx, w, c.File, res); err == nil {
			err = own.Remove()
		}
	default:
		err = f.write(ctx, w, c.File, res)
	}
	if err != nil {
		return failed{err}
	}
	return asExpected(c.File, res)
}

// asExpected fails where points were not.
func asExpected(file string, res *sweep.Results) error {
	if res.Failed == 0 {
		return nil
	}
	why := ""
	if res.Reason != "" {
		why = "; the first: " + res.Reason
	}
	return failed{fmt.Errorf("%s: %s of %s not as expected%s", file, plural(res.Failed, "point"), humanize.Comma(int64(res.Points)), why)}
}

// knownBefore says how many were.
func knownBefore(res *sweep.Results) string {
	if res.Taken == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of them known before", humanize.Comma(int64(res.Taken)))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
}

// sweepError gives an error of a sweep its exit code.
func sweepError(ctx context.Context, err error) error {
	if bad := (scenario.Errors)(nil); errors.As(err, &bad) && ctx.Err() == nil {
		return err
	}
	return failed{err}
}

// openJournal has rows added to the journal of --out, and takes what is known where the sweep is to go on.
func (f *sweepFlags) openJournal(rows *sweep.Rows) (_ *journal.File, close func() error, err error) {
	var files texts
	defer func() {
		if err != nil {
			err = errors.Join(err, files.close())
		}
	}()
	if f.resume {
		for _, from := range f.out {
			if filepath.Ext(from) != ".csv" && fileExists(from) {
				f.from = append(f.from, from)
			}
		}
		for _, from := range f.from {
			t, err := files.open(from)
			if err != nil {
				return nil, nil, err
			}
			dropped, err := rows.Take(from, t.Text, t.Size)
			if err != nil {
				return nil, nil, err
			}
			sayDropped(from, dropped)
		}
	}
	path := f.journalName(f.out[0])
	j, err := openJournal(path, sweep.JournalName, func(j *journal.File) (int, error) {
		if !j.Empty() && !f.resume {
			return 0, fmt.Errorf("%s is of a sweep that did not end: --resume goes on with it; to begin anew, remove it", path)
		}
		return takeJournal(rows.Keep)(j)
	})
	if err != nil {
		return nil, nil, err
	}
	return j, func() error { return errors.Join(j.Close(), files.close()) }, nil
}

// texts are files of rows that are open.
type texts []*os.File

func (t *texts) close() (err error) {
	for _, f := range *t {
		err = errors.Join(err, f.Close())
	}
	return err
}

func (t *texts) open(path string) (out sweep.Text, err error) {
	file, err := os.Open(path)
	if err != nil {
		return out, err
	}
	*t = append(*t, file)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: want a regular file of rows", path)
	}
	if err != nil {
		return out, err
	}
	return sweep.Text{Name: path, Text: file, Size: info.Size()}, nil
}

// sayDropped tells of lines that are not taken.
func sayDropped(path string, n int) {
	if n > 0 {
		say("%s: %s torn or of points that failed, left out: a point without another row is done again", path, plural(n, "row"))
	}
}

// write shows the results, and writes them to the files that were asked for.
func (f *sweepFlags) write(ctx context.Context, w io.Writer, name string, res *sweep.Results) error {
	for _, path := range f.out {
		err := outfile.Fill(ctx, path, func(file io.Writer) error {
			if filepath.Ext(path) == ".csv" {
				return res.WriteCSV(file, f.wide)
			}
			return res.WriteJSONLines(file)
		})
		if err != nil {
			return failed{fmt.Errorf("--out: %w", err)}
		}
	}
	if err := f.draw(ctx, w, name, res); err != nil {
		return err
	}
	switch {
	case slices.Contains(f.plots, stdout):
		return nil
	case f.json:
		return res.WriteJSONLines(w)
	case len(f.out) > 0:
		fmt.Fprintf(w, "%s%s: %s\n", plural(res.Points, "point"), knownBefore(res), strings.Join(f.out, ", "))
		return nil
	}
	return sweepTable(w, res)
}

// draw writes the plots that were asked for.
func (f *sweepFlags) draw(ctx context.Context, w io.Writer, name string, res *sweep.Results) error {
	if f.plots == nil {
		return nil
	}
	page, err := f.page(name, res)
	if err != nil {
		return err
	}
	for _, path := range f.plots {
		if path == stdout {
			err = plot.Write(w, page)
		} else {
			err = outfile.Fill(ctx, path, func(file io.Writer) error {
				if format := strings.TrimPrefix(filepath.Ext(path), "."); format == "svg" || format == "pdf" {
					return plot.WritePaper(file, page, format)
				}
				return plot.Write(file, page)
			})
		}
		if err != nil {
			return failed{fmt.Errorf("--plot: %w", err)}
		}
	}
	return nil
}

// tableFigures are the columns that a terminal is shown: those that say something.
var tableFigures = []string{"copies", "evictions", "bytes_moved", "bytes_lower_bound", "bytes_peak", "elapsed_ns", "error"}

// sweepTable shows the rows.
func sweepTable(w io.Writer, res *sweep.Results) error {
	rows, err := res.All()
	if err != nil {
		return err
	}
	var header []any
	var columns []sweep.Column
	for _, c := range res.Columns(false) {
		said := slices.ContainsFunc(rows, func(r *sweep.Row) bool { v := fmt.Sprint(c.Value(r)); return v != "" && v != "0" })
		if c.Parameter || slices.Contains(tableFigures, c.Name) && said {
			columns = append(columns, c)
			header = append(header, cmp.Or(c.Header, c.Name))
		}
	}
	t := newTable(len(res.Axes)+1, header...)
	for _, row := range rows {
		var cells []any
		for _, c := range columns {
			first, _, _ := strings.Cut(figures.Text(c.Format, c.Value(row)), "\n")
			cells = append(cells, first)
		}
		t.Row(cells...)
	}
	t.Print(w, screenWidth())
	return nil
}

// checkColumns refuses, before anything runs, to draw columns that there will not be.
func (f *sweepFlags) checkColumns(c *sweep.Config) error {
	if f.plots == nil {
		return nil
	}
	empty := &sweep.Results{Axes: c.Axes}
	var names []string
	for _, col := range empty.Columns(false) {
		names = append(names, col.Name)
	}
	names = append(names, "elapsed_ns", "times", "critical_compute_ns", "critical_copy_ns", "critical_memory_ns", "critical_host_ns")
	for _, c := range f.columns {
		name, text, ok := strings.Cut(c, "=")
		if !ok || name == "" || text == "" || slices.Contains(names, name) {
			return fmt.Errorf("--column %q: want NAME=EXPRESSION, and a name that no column has", c)
		}
		names = append(names, name)
	}
	for flag, given := range map[string][]string{"--x": {f.x}, "--y": f.y, "--by": f.by, "--facet": {f.facet}} {
		for _, name := range given {
			if name != "" && !slices.Contains(names, name) {
				return fmt.Errorf("%s: no column is named %q%s; there are %s", flag, name, suggest.For(name, names), strings.Join(names, ", "))
			}
		}
	}
	return nil
}

// page is the results as a page with a plot.
func (f *sweepFlags) page(name string, res *sweep.Results) (plot.Page, error) {
	rows, err := res.All()
	if err != nil {
		return plot.Page{}, err
	}
	p := plot.Page{Title: "A sweep of " + filepath.Base(name), X: f.x, Y: f.y, By: f.by, Facet: f.facet}
	if len(p.Y) == 0 {
		p.Y = []string{"bytes_moved"}
	}
	for _, col := range res.Columns(false) {
		out := plot.Column{Name: col.Name, Parameter: col.Parameter}
		numbers := true
		for _, row := range rows {
			_, ok := sweep.Number(col.Value(row))
			numbers = numbers && ok
		}
		for _, row := range rows {
			v := col.Value(row)
			if n, ok := sweep.Number(v); ok && numbers {
				v = n
			} else if v != nil {
				v = fmt.Sprint(v)
			}
			out.Values = append(out.Values, v)
		}
		p.Columns = append(p.Columns, out)
	}
	for _, c := range f.columns {
		name, text, _ := strings.Cut(c, "=")
		left, err := p.Derive(name, text)
		if err != nil {
			return p, fmt.Errorf("--column %s: %w", name, err)
		}
		if len(left) > 0 {
			say("--column %s: %s left out, the first: %v", name, plural(len(left), "point"), left[0])
		}
	}
	return p, nil
}
