package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"godwit/internal/outfile"
	"godwit/study/alloc/replay"
	"godwit/study/report"
)

// addOffline packs every trace with all lifetimes known, on all cores, and adds
// the result and the picture to its view.
func addOffline(ctx context.Context, views []report.View, f replayFlags) error {
	bar := newProgress(len(views), "packing offline")
	defer bar.finish()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range views {
		v := &views[i]
		g.Go(func() error {
			res, rec, err := replay.Offline(ctx, v.Trace, v.Stream, f.offline)
			if err != nil {
				return err
			}
			v.Results, v.Recordings = append(v.Results, res), append(v.Recordings, rec)
			bar.add(1)
			return nil
		})
	}
	return g.Wait()
}

// addRecorded adds to every view what the recorded program's own allocator held.
func addRecorded(ctx context.Context, views []report.View) error {
	for i := range views {
		v := &views[i]
		res, rec, ok, err := replay.Recorded(ctx, v.Trace, v.Stream)
		if err != nil {
			return err
		}
		if ok {
			v.Results = append(v.Results, res)
		}
		if rec != nil {
			v.Recordings = append(v.Recordings, rec)
		}
	}
	return nil
}

// addReserved adds to every view what the models of caching allocators reserve.
func addReserved(ctx context.Context, views []report.View, strategies []replay.Subject) error {
	for i := range views {
		v := &views[i]
		for _, s := range strategies {
			if !replay.Placeless(s) {
				continue
			}
			res, err := replay.Reserved(ctx, v.Stream, s)
			if err != nil {
				return err
			}
			v.Results = append(v.Results, res)
		}
	}
	return nil
}

// writeReport records a picture of every strategy that works and writes the
// page to file.
func writeReport(ctx context.Context, file string, views []report.View, strategies []replay.Subject) error {
	var names []string
	var all []replay.Result
	for i := range views {
		v := &views[i]
		names, all = append(names, v.Stream.Name), append(all, v.Results...)
		offline := v.Recordings
		v.Recordings = nil
		for k, s := range strategies {
			if v.Results[k].Region == 0 || replay.Placeless(s) {
				continue
			}
			rec, err := replay.Record(ctx, v.Stream, s, v.Results[k].Region)
			if err != nil {
				return err
			}
			v.Recordings = append(v.Recordings, rec)
		}
		v.Recordings = append(v.Recordings, offline...)
	}
	page := report.Page{Title: "Allocation traces: " + strings.Join(names, ", "), Views: views}
	if len(views) > 1 {
		page.Means = replay.Means(all)
	}
	if err := outfile.Fill(ctx, file, func(w io.Writer) error { return report.Write(w, page) }); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
