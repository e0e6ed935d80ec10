package scenario

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"godwit/mem"
)

// sizeText writes a number of bytes for people, exactly.
func sizeText(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n>>u.shift > 0 && n&(1<<u.shift-1) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return humanize.Comma(int64(n)) + " B"
}

// roughText writes a number of bytes for people, rounded where it is long.
func roughText(n uint64) string {
	if exact := sizeText(n); n < 1<<20 || len(exact) < len("1,024 KiB") {
		return exact
	}
	return humanize.IBytes(n)
}

// rangeText writes a half-open range; units where both ends have them.
func rangeText(r mem.Range) string {
	unit := func(n uint64) string {
		if n == 0 {
			return "0"
		}
		return sizeText(n)
	}
	if (r.Start|r.End)&1023 != 0 {
		return r.String()
	}
	return fmt.Sprintf("[%s, %s)", unit(r.Start), unit(r.End))
}

// placeText names a place; with its range where that is not the whole of what
// the name stands for.
func (s *Scenario) placeText(p place, r mem.Range) string {
	whole, name := mem.Range{End: s.Buffers[p.Buffer].Size}, s.Buffers[p.Buffer].Name
	if p.View >= 0 {
		whole, name = s.Views[p.View].Range, s.Views[p.View].Name
	}
	if r == whole {
		return name
	}
	return name + rangeText(mem.Range{Start: r.Start - whole.Start, End: r.End - whole.Start})
}

// verb is a command in a word or two, as used in reasons.
func (c *command) verb() string {
	if c.Kind == opLaunch {
		return c.Kernel
	}
	return string(c.Kind)
}

// text is a command in a line.
func (s *Scenario) text(c *command) string { return c.kind().text(s, c) }

// rowsText says which rows a command is about, followed by a word; nothing where
// it is about none.
func (c *command) rowsText(then string) string {
	if c.Rect == nil {
		return ""
	}
	slices := ""
	if n := c.Rect.Region[2]; n > 1 {
		slices = fmt.Sprintf("%d x ", n)
	}
	return fmt.Sprintf("%s%d rows of %s%s", slices, c.Rect.Region[1], sizeText(c.Rect.Region[0]), map[string]string{" of ": ", ", " to ": " to "}[then])
}

func (c *command) blockingText() string {
	if c.Blocking {
		return ", blocking"
	}
	return ""
}

// names lists places.
func (s *Scenario) names(places []place) string {
	var out []string
	for _, p := range places {
		out = append(out, s.placeText(p, p.Range))
	}
	return strings.Join(out, ", ")
}

func (s *Scenario) argText(a *argument) string {
	switch {
	case a.Buffer && a.At > 0 && !a.Ranged:
		return fmt.Sprintf("%s+%d", a.Place.Name, a.At)
	case a.Buffer:
		return s.placeText(a.Place, a.Used)
	case a.Local > 0:
		return "local " + sizeText(a.Local)
	}
	return a.Text
}

// expectText says what is expected.
func (s *Scenario) expectText(e *expectation) string {
	place := ""
	if e.Place != nil {
		place = s.placeText(*e.Place, e.Place.Range)
	}
	switch {
	case e.Reference:
		return place + " equals the reference run"
	case e.SHA256 != "":
		return fmt.Sprintf("%s has SHA-256 %s…", place, e.SHA256[:12])
	case e.Place != nil:
		return fmt.Sprintf("%s equals %s", place, e.Data)
	case e.Moved != nil:
		return "bytes moved = " + sizeText(*e.Moved)
	case e.Percent != nil:
		return fmt.Sprintf("capacity bytes ≤ %d %% of their bound", *e.Percent)
	case e.Minimal:
		return "bytes moved = lower bound"
	case len(e.Fails) > 0:
		var ids []string
		for _, i := range e.Fails {
			ids = append(ids, s.Commands[i].ID)
		}
		return "failure of " + strings.Join(ids, ", ")
	case e.Copies != nil:
		return fmt.Sprintf("copies = %d", *e.Copies)
	}
	var only []string
	for _, p := range e.Only {
		only = append(only, s.placeText(p, p.Range))
	}
	return "nothing moves but " + strings.Join(only, ", ")
}
