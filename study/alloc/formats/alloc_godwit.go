package formats

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"godwit/internal/input"
	"godwit/internal/outfile"
	"godwit/mem/trace"
)

func readGodwit(l *input.Lines) (*Allocs, error) {
	var b AllocBuilder
	for {
		line, ok := l.Next()
		if !ok {
			return b.Build(l.File, FormatGodwit), l.Err()
		}
		if err := b.godwitLine(line, l.N); err != nil {
			return nil, err
		}
	}
}

func (b *AllocBuilder) godwitLine(line string, n int) error {
	op, rest, ok1 := strings.Cut(line, ",")
	idText, rest, ok2 := strings.Cut(rest, ",")
	sizeText, timeText, ok3 := strings.Cut(rest, ",")
	if !ok1 || !ok2 || !ok3 || strings.Contains(timeText, ",") {
		return fmt.Errorf("%q has not the four fields %s", input.Clip(line), trace.AllocHeader)
	}
	id, err := parseUint(idText, "id")
	if err != nil {
		return err
	}
	at, err := parseInt(timeText, "time_us")
	if err != nil {
		return err
	}
	if op == "f" && sizeText == "" {
		b.free(id, at, n)
		return nil
	}
	size, err := parseUint(sizeText, "bytes")
	if err != nil {
		return err
	}
	switch op {
	case "a":
		return b.alloc(id, size, at, n)
	case "f":
		if old, live := b.live[id]; live && old.size != size {
			return fmt.Errorf("free of id %d with %d bytes, allocated with %d on line %d", id, size, old.size, old.line)
		}
		b.free(id, at, n)
		return nil
	}
	return fmt.Errorf("op %q is neither a (allocate) nor f (free)", input.Clip(op))
}

// WriteGodwit writes t in Godwit's CSV; ids are the chunk numbers.
func (t *Allocs) WriteGodwit(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	_, _ = bw.WriteString(trace.AllocHeader + "\n") // a bufio.Writer keeps its first error for Flush
	var line []byte
	for _, e := range t.Events {
		line = trace.AppendAlloc(line[:0], e.Op, uint64(e.Chunk), e.Size, e.Time)
		_, _ = bw.Write(line)
	}
	return bw.Flush()
}

// SaveAllocs writes t to a new file at path in Godwit's CSV, compressed where
// path ends in .gz. comment lines, if any, come first as # lines. The file is
// complete or not there; see outfile, also for ctx.
func SaveAllocs(ctx context.Context, path string, t *Allocs, comment ...string) error {
	write := func(w io.Writer) error {
		for _, c := range comment {
			if _, err := fmt.Fprintln(w, "#", strings.ReplaceAll(c, "\n", " ")); err != nil {
				return err
			}
		}
		return t.WriteGodwit(w)
	}
	if filepath.Ext(path) != ".gz" {
		return outfile.Fill(ctx, path, write)
	}
	return outfile.Fill(ctx, path, func(w io.Writer) error {
		zw := gzip.NewWriter(w)
		if err := write(zw); err != nil {
			return err
		}
		return zw.Close()
	})
}
