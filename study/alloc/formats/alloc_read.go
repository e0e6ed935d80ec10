package formats

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"godwit/internal/input"
	"godwit/mem/trace"
)

// MaxBytes is the most that is read of a file.
const MaxBytes = input.MaxTrace

// OpenAllocs reads the traces in the file at path; see ReadAllocs. A Name is
// the file's base name up to the first dot that starts an extension of ours
// (.csv, .json, .log, .txt, .gz, .pickle, .pkl).
func OpenAllocs(ctx context.Context, path string) (traces []*Allocs, err error) {
	f, err := input.Open(ctx, path, input.MaxTrace)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	traces, err = ReadAllocs(ctx, f, path)
	for _, t := range traces {
		t.Name = trimExtensions(filepath.Base(path)) + strings.TrimPrefix(t.Name, path)
	}
	return traces, err
}

func trimExtensions(base string) string {
	for {
		ext := filepath.Ext(base)
		switch ext {
		case ".csv", ".json", ".log", ".txt", ".gz", ".pickle", ".pkl":
			base = strings.TrimSuffix(base, ext)
		default:
			return base
		}
	}
}

// ReadAllocs reads allocation traces in any of the known formats, compressed
// with gzip or not, told apart by content. Most files hold one; a PyTorch
// snapshot holds one for each device that recorded something, named
// file#device. file names the input in errors and becomes the traces' Name.
//
// A line that breaks its format is an error wrapping input.ErrMalformed that starts
// with "file:line:"; so is input of no known format. A free of something that
// is not live is counted in Oddities, since recordings start late. So is a file
// of more than 1 GiB or 16 million events. Where ctx ends, its error is returned.
func ReadAllocs(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	out, err := readAllocs(ctx, r, file)
	if cerr := ctx.Err(); err != nil && cerr != nil {
		return nil, cerr // and not the broken line that it made
	}
	return out, err
}

func readAllocs(ctx context.Context, r io.Reader, file string) ([]*Allocs, error) {
	br, err := input.Plain(ctx, r, file)
	if err != nil {
		return nil, err
	}
	if trace.IsCommands(br) {
		return nil, fmt.Errorf("%s: a command trace, which says what commands access and nothing of chunks: godwit replay takes it, and allocation traces apart from it: %w", file, input.ErrMalformed)
	}
	if isJSON(br) {
		return readJSON(ctx, br, file)
	}
	if isPickle(br) {
		return readPickle(ctx, br, file)
	}
	l := input.NewLines(br, file)
	header, ok := l.Next()
	if !ok {
		return nil, l.Fail(cmp.Or(l.Err(), errors.New("no line: not an allocation trace")))
	}
	t, err := readCSV(l, header)
	if err != nil {
		// A broken stream ends in half a line: its error is the cause.
		return nil, l.Fail(cmp.Or(l.Scanned(), err))
	}
	return []*Allocs{t}, nil
}

// isJSON reports whether the first byte that is not white space opens an
// object.
func isJSON(br *bufio.Reader) bool {
	for n := 1; n <= 4096; n++ {
		b, err := br.Peek(n)
		if err != nil {
			return false
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{':
			return true
		default:
			return false
		}
	}
	return false
}

func readCSV(l *input.Lines, header string) (*Allocs, error) {
	cols := strings.Split(strings.ReplaceAll(header, " ", ""), ",")
	switch {
	case header == trace.AllocHeader:
		return readGodwit(l)
	case header == rmmHeader:
		return readRMM(l)
	case len(cols) >= 4 && index(cols, "id") >= 0 && index(cols, "size") >= 0:
		return readMiniMalloc(l, cols)
	}
	return nil, fmt.Errorf("%q starts no known format (%s; id,lower,upper,size; %s; a JSON object; a pickle)",
		input.Clip(header), trace.AllocHeader, rmmHeader)
}

func index(cols []string, names ...string) int {
	return slices.IndexFunc(cols, func(c string) bool { return slices.Contains(names, c) })
}

func parseUint(field, what string) (uint64, error) {
	v, err := strconv.ParseUint(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not an unsigned number of 64 bits", what, input.Clip(field))
	}
	return v, nil
}

func parseInt(field, what string) (int64, error) {
	v, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a number of 64 bits", what, input.Clip(field))
	}
	return v, nil
}
