package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"godwit/bufalloc/replay"
)

// strategyNames reads the values of --strategy: names, or all. offline is true
// where the packer that knows lifetimes beforehand is among them.
func strategyNames(names []string) (list []replay.Subject, offline bool, err error) {
	for _, name := range names {
		switch strings.ToLower(name) {
		case "all":
			list, offline = append(list, replay.Subjects()...), true
			continue
		case replay.OfflineName:
			offline = true
			continue
		}
		s, err := replay.ParseSubject(name)
		if err != nil {
			return nil, false, err
		}
		list = append(list, s)
	}
	seen := make(map[string]bool)
	list = slices.DeleteFunc(list, func(s replay.Subject) bool {
		again := seen[s.Name()]
		seen[s.Name()] = true
		return again
	})
	return list, offline, nil
}

// parseBytes reads a number of bytes: plain, or with a unit such as KiB, MB, G.
func parseBytes(s string) (uint64, error) {
	if v, err := strconv.ParseUint(s, 10, 64); err == nil {
		return v, nil
	}
	v, err := humanize.ParseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of bytes (64, 16KiB, 2GB)", s)
	}
	return v, nil
}

// writeJSON writes v indented, and a newline.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// newTable makes a table in the house style: light lines, numbers to the right
// from column firstNumber (1-based) on.
func newTable(w io.Writer, firstNumber int, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.Style().Format.Footer = text.FormatDefault
	t.AppendHeader(header)
	var cols []table.ColumnConfig
	for i := firstNumber; i <= len(header); i++ {
		cols = append(cols, table.ColumnConfig{Number: i, Align: text.AlignRight, AlignHeader: text.AlignRight, AlignFooter: text.AlignRight})
	}
	t.SetColumnConfigs(cols)
	return t
}

// newProgress is a bar on the terminal for work that takes over a second; off
// a terminal it shows nothing.
func newProgress(total int, what string) *progressbar.ProgressBar {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return progressbar.NewOptions(total, progressbar.OptionSetWriter(io.Discard))
	}
	started := time.Now()
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(&lateWriter{os.Stderr, started.Add(time.Second)}),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// lateWriter drops what is written before a moment.
type lateWriter struct {
	w    io.Writer
	from time.Time
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if time.Now().Before(l.from) {
		return len(p), nil
	}
	return l.w.Write(p)
}

// sizeOf prints bytes with four digits and a binary unit.
func sizeOf(b uint64) string {
	v, unit := float64(b), 0
	for ; v >= 1024; unit++ {
		v /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", b)
	}
	return fmt.Sprintf("%.*f %ciB", 3-min(len(fmt.Sprintf("%.0f", v)), 3), v, "KMGTPE"[unit-1])
}

// onlineOnly is strategyNames for what cannot use the offline packer, which all
// then leaves out.
func onlineOnly(names []string) ([]replay.Subject, error) {
	list, offline, err := strategyNames(names)
	if err == nil && offline && slices.Contains(names, replay.OfflineName) {
		err = fmt.Errorf("%s knows lifetimes beforehand: it is for godwit replay", replay.OfflineName)
	}
	return list, err
}
