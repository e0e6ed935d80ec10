// Command tables measures safe regions on perturbed traces and puts them, as a table,
// between the marks of docs/allocator.md: make allocator.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"godwit/study/alloc/extern"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/replay"
)

const (
	page  = "docs/allocator.md"
	begin = "<!-- safe regions: make allocator -->\n"
	end   = "<!-- end of safe regions -->\n"
)

// sets are the traces, by kind, with their alignment.
var sets = []struct {
	name, files string
	align       uint64
}{
	{"PyTorch", "testdata/traces/*.csv.gz", 256},
	{"MiniMalloc", "testdata/traces/minimalloc/*.csv", 1},
}

func main() {
	seeds := flag.Int("seeds", 10, "streams of each kind for each trace")
	names := flag.String("s", "fit,bestfit,tight,goodfit", "strategies, lib: and exec: among them")
	write := flag.Bool("w", false, "write the table into "+page)
	flag.Parse()
	if err := run(context.Background(), *seeds, strings.Split(*names, ","), *write); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seeds int, names []string, write bool) (err error) {
	var subjects []replay.Subject
	for _, name := range names {
		s, serr := replay.ParseSubject(name)
		if extern.Is(name) {
			var p *extern.Pool
			if p, serr = extern.Open(ctx, name, extern.Options{}); serr == nil {
				defer func() { err = errors.Join(err, p.Close()) }()
				s = replay.OfRemote(p)
			}
		}
		if serr != nil {
			return serr
		}
		subjects = append(subjects, s)
	}
	table, err := tableOf(ctx, seeds, subjects)
	if err != nil || !write {
		fmt.Print(table)
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the marks %q and %q", page, begin, end)
	}
	return os.WriteFile(page, slices.Concat(head, []byte(begin+table+end), tail), 0o600)
}

// tableOf is a row for each kind of perturbation, and one for all of a set.
func tableOf(ctx context.Context, seeds int, subjects []replay.Subject) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Safe region over peak: mean (worst), then the mean of the smallest region that works; %d of each kind for each trace, of the half to report on.\n\n| |", seeds)
	for _, s := range subjects {
		fmt.Fprintf(&b, " %s |", s.Name())
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(subjects)) + "\n")
	for _, set := range sets {
		kinds, err := perturbed(ctx, set.files, set.align, seeds)
		if err != nil {
			return "", err
		}
		var all []replay.Result
		for i, kind := range replay.Perturbations() {
			res, err := replay.Measure(ctx, kinds[i], subjects, replay.Options{Safe: true})
			if err != nil {
				return "", err
			}
			all = append(all, res...)
			row(&b, set.name+", "+string(kind), res, subjects)
		}
		row(&b, "**"+set.name+", all**", all, subjects)
	}
	return b.String(), nil
}

// perturbed is the streams made of the traces, by kind.
func perturbed(ctx context.Context, files string, align uint64, seeds int) ([][]*replay.Stream, error) {
	paths, err := filepath.Glob(files)
	if err != nil {
		return nil, err
	}
	kinds := make([][]*replay.Stream, len(replay.Perturbations()))
	for _, path := range paths {
		traces, err := formats.OpenAllocs(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, t := range traces {
			st, err := replay.FromTrace(t, align)
			if err != nil {
				return nil, err
			}
			list, err := replay.Perturbed(st, "report", seeds)
			if err != nil {
				return nil, err
			}
			for i, x := range list { // in the order of kinds, again and again
				kinds[i%len(kinds)] = append(kinds[i%len(kinds)], x)
			}
		}
	}
	return kinds, nil
}

func row(b *strings.Builder, name string, results []replay.Result, subjects []replay.Subject) {
	begins := b.Len()
	means := make(map[string]replay.Mean)
	for _, m := range replay.Means(results) {
		means[m.Strategy] = m
	}
	fmt.Fprintf(b, "| %s |", name)
	for _, s := range subjects {
		m := means[s.Name()]
		if m.Safe == 0 {
			fmt.Fprintf(b, " beyond the grid, %.4f |", float64(m.Overhead))
			continue
		}
		fmt.Fprintf(b, " %.4f (%.3f), %.4f |", float64(m.Safe), float64(m.SafeMax), float64(m.Overhead))
	}
	b.WriteString("\n")
	fmt.Fprint(os.Stderr, b.String()[begins:]) // the whole takes hours
}
