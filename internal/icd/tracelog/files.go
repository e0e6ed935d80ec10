package tracelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"godwit/internal/outfile"
	"godwit/mem/trace"
	"godwit/study/page"
)

// Files is a log with the files that it goes to.
type Files struct {
	Log      *Log
	lines    io.Writer // nil where none are wanted
	close    func() error
	summary  string               // path, "" where none is wanted
	record   *trace.CommandWriter // nil where none is wanted
	html     string               // path, "" where none is wanted; so timeline
	timeline string
}

// Open starts a log whose lines are appended to the file lines, which a program's child
// processes may share, and whose summary goes, as
// JSON, to the file summary when Finish is called; "" is none, "-" or "stderr"
// is standard error, and %p in a name is the process's number. The command trace
// (trace.CommandTrace) is appended to the file record. html and timeline are
// files of pictures, which Finish writes. All empty is no
// log: the Files is nil, which Finish takes.
func Open(lines, summary, record, html, timeline string) (*Files, error) {
	if lines == "" && summary == "" && record == "" && html == "" && timeline == "" {
		return nil, nil
	}
	f := &Files{summary: withPID(summary), html: withPID(html), timeline: withPID(timeline), close: func() error { return nil }}
	if err := f.checkSummary(); err != nil {
		return nil, fmt.Errorf("GODWIT_SUMMARY: %w", err)
	}
	switch lines {
	case "":
	case "-", "stderr":
		f.lines = os.Stderr
	default:
		file, err := appendTo(lines)
		if err != nil {
			return nil, fmt.Errorf("GODWIT_TRACE: %w", err)
		}
		f.lines, f.close = file, file.Close
	}
	if record != "" {
		file, err := appendTo(record)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("GODWIT_RECORD: %w", err), f.close())
		}
		f.record, f.close = trace.NewCommandWriter(file, strconv.Itoa(os.Getpid())+"."), both(f.close, file.Close)
	}
	f.Log = New(f.lines)
	if f.html != "" || f.timeline != "" {
		f.Log.Draw("this computer", false)
	}
	return f, nil
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(withPID(path), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
}

func both(a, b func() error) func() error { return func() error { return errors.Join(a(), b()) } }

// Context returns a sink for a new runtime context; see Log.Context.
func (f *Files) Context(memories []string, capacity []uint64) trace.CommandSink {
	sink := f.Log.Context(memories, capacity)
	if f.record == nil {
		return sink
	}
	var all []trace.CommandMemory
	for m, name := range memories {
		all = append(all, trace.CommandMemory{Name: name, Capacity: capacity[m]})
	}
	return trace.Tee(sink, f.record.Context(all, 0))
}

// draw writes the pictures that are wanted; a timeline is of the first context.
func (f *Files) draw() (err error) {
	runs := f.Log.Pictures()
	if len(runs) == 0 {
		return nil
	}
	ctx := context.Background()
	if f.html != "" {
		if werr := outfile.Fill(ctx, f.html, func(w io.Writer) error { return page.Write(w, filepath.Base(os.Args[0]), runs...) }); werr != nil {
			err = fmt.Errorf("GODWIT_HTML: %w", werr)
		}
	}
	if f.timeline != "" {
		if werr := outfile.Fill(ctx, f.timeline, func(w io.Writer) error { return page.WriteTimeline(w, runs[0]) }); werr != nil {
			err = errors.Join(err, fmt.Errorf("GODWIT_TIMELINE: %w", werr))
		}
	}
	return err
}

// checkSummary makes sure that the summary can be written when all is over, and
// leaves what is there.
func (f *Files) checkSummary() error {
	if f.summary == "" || f.summary == "-" || f.summary == "stderr" {
		return nil
	}
	out, err := outfile.Create(context.Background(), f.summary)
	if err != nil {
		return err
	}
	return out.Abort()
}

func withPID(path string) string {
	return strings.ReplaceAll(path, "%p", strconv.Itoa(os.Getpid()))
}

// Finish writes the summary, at the end of the lines and to its own file, and
// closes both. It is called once; a nil Files has nothing to finish.
func (f *Files) Finish() error {
	if f == nil {
		return nil
	}
	err := f.Log.Err()
	if err != nil {
		err = fmt.Errorf("GODWIT_TRACE: %w", err)
	}
	if f.record != nil && f.record.Err() != nil {
		err = errors.Join(err, fmt.Errorf("GODWIT_RECORD: %w", f.record.Err()))
	}
	err = errors.Join(err, f.draw())
	s := f.Log.Summary()
	s.Complete = true
	if f.lines != nil {
		_, werr := fmt.Fprintln(f.lines)
		err = errors.Join(err, werr, s.Print(f.lines))
	}
	err = errors.Join(err, f.close())
	if f.summary == "" {
		return err
	}
	out, jerr := json.MarshalIndent(&s, "", "  ")
	if jerr != nil {
		return errors.Join(err, jerr)
	}
	out = append(out, '\n')
	if f.summary == "-" || f.summary == "stderr" {
		_, werr := os.Stderr.Write(out)
		return errors.Join(err, werr)
	}
	if werr := outfile.Write(context.Background(), f.summary, out); werr != nil {
		err = errors.Join(err, fmt.Errorf("GODWIT_SUMMARY: %w", werr))
	}
	return err
}
