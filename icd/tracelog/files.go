package tracelog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Files is a log with the files that it goes to.
type Files struct {
	Log     *Log
	lines   io.Writer // nil where none are wanted
	close   func() error
	summary string // path, "" where none is wanted
}

// Open starts a log whose lines are appended to the file lines, which a program's child
// processes may share, and whose summary goes, as
// JSON, to the file summary when Finish is called; "" is none, "-" or "stderr"
// is standard error, and %p in a name is the process's number. Both empty is no
// log: the Files is nil, which Finish takes.
func Open(lines, summary string) (*Files, error) {
	if lines == "" && summary == "" {
		return nil, nil
	}
	f := &Files{summary: withPID(summary), close: func() error { return nil }}
	switch lines {
	case "":
	case "-", "stderr":
		f.lines = os.Stderr
	default:
		file, err := os.OpenFile(withPID(lines), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		f.lines, f.close = file, file.Close
	}
	f.Log = New(f.lines)
	return f, nil
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
	s := f.Log.Summary()
	s.Complete = true
	if f.lines != nil {
		_, werr := fmt.Fprintln(f.lines)
		err = errors.Join(err, werr, s.Print(f.lines), f.close())
	}
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
	return errors.Join(err, os.WriteFile(f.summary, out, 0o666))
}
