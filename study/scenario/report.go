package scenario

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/text"

	"godwit/internal/figures"
	"godwit/mem"
	"godwit/migration"
)

// PrintOptions say how a result is shown.
type PrintOptions struct {
	Width int  // columns of the terminal; 0 wraps nothing
	Color bool // use colours
	All   bool // show every round of a repeat, also those like the one before
	// Summary shows totals in place of commands, copies and segments.
	Summary bool
	// NoReason leaves out why the run was not finished, where that is shown
	// beside the report.
	NoReason bool
}

// Print shows a result to people: the commands with the copies that each
// needed and why, where every buffer's bytes are at the end, and what was
// verified.
func (r *Result) Print(w io.Writer, opt PrintOptions) {
	p := &printer{w: w, opt: opt, r: r}
	p.heading()
	switch {
	case len(r.Commands) == 0:
	case opt.Summary:
		p.digest()
		p.graphs()
		p.makespan()
		p.memories()
	case len(r.Journeys) == 0: // else these are what was asked for
		p.commands()
		p.segments()
		p.graphs()
		p.makespan()
		p.paths()
		p.times()
		p.memories()
	}
	p.journeys()
	p.summary()
}

type printer struct {
	w   io.Writer
	opt PrintOptions
	r   *Result
}

// paint colours a text where colours are wanted.
func (p *printer) paint(s string, colors ...text.Color) string {
	if !p.opt.Color || s == "" {
		return s
	}
	return text.Colors(colors).Sprint(s)
}

func (p *printer) heading() {
	fmt.Fprint(p.w, p.paint(p.r.Scenario, text.Bold))
	if p.r.About != "" {
		fmt.Fprintf(p.w, ": %s", strings.TrimSpace(p.r.About))
	}
	fmt.Fprint(p.w, "\n\n")
	var params []string
	for _, v := range p.r.Params {
		params = append(params, v.Name+" = "+v.Value)
	}
	if len(params) > 0 {
		fmt.Fprintf(p.w, "%s\n\n", strings.Join(params, ", "))
	}
	if len(p.r.s.Links) > 0 && p.r.Model == nil {
		fmt.Fprint(p.w, "the scenario's links choose the ways of copies; on this computer they delay nothing (--machine does)\n\n")
	}
	if len(p.r.Devices) > 0 {
		p.devices(p.opt.Summary || len(p.r.Journeys) > 0)
	}
}

// render prints a table, and an empty line.
func (p *printer) render(t *figures.Table) {
	t.Print(p.w, p.opt.Width)
	fmt.Fprintln(p.w)
}

var commandColumns = []any{">#", "queue", "command", "copied first", "way", "why"}

// commands shows the commands, each with its copies. Rounds of a repeat that
// are like the round before them take one line together.
func (p *printer) commands() {
	var rows [][]any
	for i := 0; i < len(p.r.Commands); {
		if n := p.folded(i); n > 0 {
			rows = append(rows, p.foldRow(i, n))
			i += n
			continue
		}
		rows = append(rows, p.commandRows(&p.r.Commands[i])...)
		i++
	}
	t := figures.NewTable(commandColumns...)
	for _, row := range rows {
		t.Row(row...)
	}
	command, why, fits := p.fit(t.Sizes())
	if !fits {
		p.narrowCommands(rows, t.Sizes())
		return
	}
	t.Most = map[int]int{2: command, 5: why}
	p.render(t)
}

// fit returns the widths of the columns that may wrap, the command and the
// reason, so that a row fits the terminal; 0 is as wide as need be. fits is false
// where nothing makes it.
func (p *printer) fit(natural []int) (command, why int, fits bool) {
	if p.opt.Width == 0 {
		return 0, 0, true
	}
	const least = 20
	room := p.opt.Width - natural[0] - natural[1] - natural[3] - natural[4] - 6*figures.Gap
	command = min(natural[2], max(least, room*2/5))
	why = min(max(natural[5], 1), max(least, room-command))
	return command, why, command+why <= room
}

// narrowCommands shows each copy in lines of its own below its command.
func (p *printer) narrowCommands(rows [][]any, natural []int) {
	room := max(p.opt.Width-natural[0]-natural[1]-3*figures.Gap, 4*figures.LeastColumn)
	t := figures.NewTable(commandColumns[:3]...)
	for _, row := range rows {
		if row[2] != "" {
			t.Row(row[0], row[1], text.WrapSoft(fmt.Sprint(row[2]), room))
		}
		if row[3] == "" {
			continue
		}
		line := fmt.Sprint(row[3])
		if row[4] != "" {
			line = fmt.Sprintf("%v, %v: %v", row[3], row[4], row[5])
		}
		t.Row("", "", "  "+strings.ReplaceAll(text.WrapSoft(line, room-2), "\n", "\n  "))
	}
	t.Print(p.w, 0)
	fmt.Fprintln(p.w)
}

func (p *printer) commandRows(c *commandResult) [][]any {
	what := c.Text
	if c.Failed != "" {
		what += " " + p.paint("(failed)", text.FgRed)
	}
	rows := [][]any{{c.Number, c.Queue, what, "", "", ""}}
	add := func(what string, color text.Color, way, why string) {
		if rows[0][3] != "" {
			rows = append(rows, []any{"", "", "", "", "", ""})
		}
		row := rows[len(rows)-1]
		row[3], row[4], row[5] = p.paint(what, color), way, p.paint(why, text.Faint)
	}
	for _, i := range c.Evictions {
		e := &p.r.Evictions[i]
		add(evictionText(e), text.FgMagenta, evictionWay(e), e.Reason)
	}
	for _, i := range c.Copies {
		cp := &p.r.Copies[i]
		add(copyText(cp), text.FgYellow, cp.From+" → "+cp.To+", "+wayText(cp), whyText(cp))
	}
	return rows
}

// copyText names the bytes of a copy.
func copyText(c *copyResult) string {
	return fmt.Sprintf("%s of %s at %s", sizeText(c.Bytes), c.Buffer, humanize.Comma(int64(c.Offset)))
}

// wayText says how a copy got there.
func wayText(c *copyResult) string {
	if c.Way == mem.Ring.String() {
		return mem.Ring.Phrase()
	}
	return c.Way
}

// whyText is the reason for a copy, with that for its source where there was a
// choice.
func whyText(c *copyResult) string {
	if c.Choice == "" || c.Choice == migration.OnlyCopy.String() {
		return c.Reason
	}
	return fmt.Sprintf("%s (%s: %s)", c.Reason, c.From, c.Choice)
}

// round returns the first command and the number of commands of the round of a
// repeat that begins with command i; n is 0 where none begins there.
func (p *printer) round(i int) (n int) {
	loop := p.r.loop(i)
	if loop.Line == 0 || (i > 0 && p.r.loop(i-1) == loop) {
		return 0
	}
	for i+n < len(p.r.Commands) && p.r.loop(i+n) == loop {
		n++
	}
	return n
}

// folded returns the number of commands, from i, of rounds that look like the
// round before, where those are at least two rounds.
func (p *printer) folded(i int) int {
	n := p.round(i)
	if p.opt.All || n == 0 || p.r.loop(i).Round < 1 || i < n || p.r.loop(i-n).Start != p.r.loop(i).Start {
		return 0
	}
	total := 0
	for p.round(i+total) == n && p.r.loop(i+total).Start == p.r.loop(i).Start && p.same(i-n, i+total, n) {
		total += n
	}
	if total < 2*n {
		return 0
	}
	return total
}

// numbers are references to commands, which differ from round to round.
var numbers = regexp.MustCompile(`#\d+`)

// same reports whether n commands from b on look like those from a on, but for
// their numbers.
func (p *printer) same(a, b, n int) bool {
	for k := range n {
		x, y := &p.r.Commands[a+k], &p.r.Commands[b+k]
		if x.Text != y.Text || x.Queue != y.Queue || !slices.Equal(p.r.Effects(a+k), p.r.Effects(b+k)) {
			return false
		}
		for j := range x.Copies {
			if numbers.ReplaceAllString(p.r.Copies[x.Copies[j]].Reason, "") != numbers.ReplaceAllString(p.r.Copies[y.Copies[j]].Reason, "") {
				return false
			}
		}
	}
	return true
}

func (p *printer) foldRow(i, n int) []any {
	first, last := p.r.loop(i), p.r.loop(i+n-1)
	rounds := last.Round - first.Round + 1
	var moved uint64
	copies := 0
	for _, c := range p.r.Commands[i : i+n] {
		moved += c.BytesMoved
		copies += len(c.Copies)
	}
	what := fmt.Sprintf("rounds %d to %d: each like round %d", first.Round+1, last.Round+1, first.Round)
	each := ""
	if copies > 0 {
		each = fmt.Sprintf("%s in %s a round", sizeText(moved/uint64(rounds)), count(copies/rounds, "copy", "copies"))
	}
	return []any{"⋮", "", p.paint(what, text.Italic), p.paint(each, text.FgYellow), "", ""}
}

// loop is the round of a repeat that a command of the run belongs to.
func (r *Result) loop(i int) loop {
	if i >= len(r.Commands) {
		return loop{}
	}
	return r.s.Commands[i].Loop
}

func (p *printer) segments() {
	t := figures.NewTable("buffer", "range", ">bytes", "latest content on", "written by")
	const shown = 40
	for i, s := range p.r.Segments {
		if i == shown && !p.opt.All {
			t.Row(fmt.Sprintf("and %d more", len(p.r.Segments)-shown))
			break
		}
		name := s.Buffer
		if i > 0 && p.r.Segments[i-1].Buffer == name {
			name = ""
		}
		where := strings.Join(s.Memories, ", ")
		if where == "" {
			where = "nowhere"
		}
		t.Row(name, fmt.Sprintf("[%d,%d)", s.Offset, s.Offset+s.Bytes), sizeText(s.Bytes), where, p.writer(s.Writer))
	}
	p.render(t)
}

// times shows when the commands changed state that this was asked of.
func (p *printer) times() {
	t := figures.NewTable(">#", "command", ">queued", ">submitted", ">started", ">ended")
	micro := func(ns uint64) string { return fmt.Sprintf("%.1f us", float64(ns)/1e3) }
	rows, wrong := 0, uint64(0)
	for i := range p.r.Commands {
		if c := &p.r.Commands[i]; c.Times != nil {
			rows++
			wrong = max(wrong, c.Times.Error)
			t.Row(c.Number, c.Text, micro(c.Times.Queued), micro(c.Times.Submitted), micro(c.Times.Started), micro(c.Times.Ended))
		}
	}
	if rows > 0 {
		if fmt.Fprintf(p.w, "times of %s, since the run began", p.r.Clock); wrong > 0 {
			fmt.Fprintf(p.w, ", wrong by at most %s", micro(wrong))
		}
		fmt.Fprintln(p.w, ":")
		p.render(t)
	}
}

func (p *printer) writer(n int) string {
	switch n {
	case 0:
		return "nobody"
	case initial:
		return "initial content"
	}
	return "#" + strconv.Itoa(n) + " " + p.r.s.Commands[n-1].verb()
}

func (p *printer) summary() {
	r := p.r
	good, bad := p.paint("✓", text.FgGreen), p.paint("✗", text.FgRed, text.Bold)
	mark := func(ok bool) string {
		if ok {
			return good
		}
		return bad
	}
	if r.Error == "" {
		sign, what := r.movedText()
		fmt.Fprintf(p.w, "%s moved %s in %s: %s\n", map[int]string{1: good, 0: " ", -1: bad}[sign], sizeText(r.BytesMoved), count(len(r.Copies), "copy", "copies"), what)
		if r.BytesHost > 0 {
			fmt.Fprintf(p.w, "  host's reads and writes: %s (at least %s)\n", sizeText(r.BytesHost), sizeText(r.BytesHostBound))
		}
		if r.BytesRegrown > 0 {
			fmt.Fprintf(p.w, "  copied within devices, into larger blocks: %s\n", sizeText(r.BytesRegrown))
		}
		if r.Verified {
			how := "compared"
			if r.Stamps {
				how = "found by commands, compared by who wrote it"
			}
			fmt.Fprintf(p.w, "%s verified: %s %s, all equal to a run on one flat memory\n", good, sizeText(r.BytesCompared), how)
		}
		if r.NotCompared != "" {
			fmt.Fprintf(p.w, "  content not compared: %s\n", r.NotCompared)
		}
		if r.BytesUndefined > 0 {
			what := "depend on content nobody wrote"
			if r.s.counts() {
				what = "no count includes, or that " + what
			}
			fmt.Fprintf(p.w, "  not compared: %s that %s\n", sizeText(r.BytesUndefined), what)
		}
	}
	const shown = 10
	for _, m := range r.Mismatches[:min(shown, len(r.Mismatches))] {
		fmt.Fprintf(p.w, "%s %s\n", bad, m)
	}
	if n := len(r.Mismatches) - shown; n > 0 {
		fmt.Fprintf(p.w, "%s and %d more\n", bad, n)
	}
	for _, e := range r.Expect {
		fmt.Fprintf(p.w, "%s expected: %s", mark(e.Met), e.Text)
		if !e.Met {
			fmt.Fprintf(p.w, "; got %s (%s:%d)", e.Got, r.File, e.Line)
		}
		fmt.Fprintln(p.w)
	}
	p.missed()
	if r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		if first = ": " + first; p.opt.NoReason {
			first = ""
		}
		if r.Interrupted != nil {
			r.Interrupted.print(p.w, r.BytesMoved)
		}
		fmt.Fprintf(p.w, "%s not finished%s\n", bad, first)
	}
}

// leastPossible is under a rule: commands run in this order, each on its queue's device, to which what it reads is brought.
const leastPossible = "the least possible for these queues"

// movedText sets the bytes moved beside the fewest possible. Its sign is 1 where
// they are those, -1 where more moved for nothing, and 0 where memory was short.
func (r *Result) movedText() (sign int, text string) {
	switch {
	case r.BytesCapacity == 0 && r.BytesMoved == r.BytesLowerBound:
		return 1, leastPossible
	case r.BytesCapacityBound == 0 && len(r.Evictions) > 0:
		return 0, fmt.Sprintf("%s compulsory, %s since memory was short, of which no bound is known", roughText(r.BytesCompulsory), roughText(r.BytesCapacity))
	case r.BytesCapacityBound == 0:
		return -1, "the lower bound is " + sizeText(r.BytesLowerBound)
	}
	text = fmt.Sprintf("%s compulsory, %s since memory was short, ", roughText(r.BytesCompulsory), roughText(r.BytesCapacity))
	if r.BytesMoved == r.BytesLowerBound {
		return 1, text + leastPossible
	}
	return 0, fmt.Sprintf("%sof which at least %s must (%.2f times)", text, roughText(r.BytesCapacityBound), float64(r.BytesCapacity)/float64(r.BytesCapacityBound))
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(int64(n)) + " " + many
}
