package scenario

import (
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
)

// shownTotals is how many rows a table of totals has, at most.
const shownTotals = 12

// digest shows a run in totals: a screen or two, however many devices and commands there
// are.
func (p *printer) digest() {
	d := p.r.Digest()
	totals(p, d.Kinds, func(k kindTotal) table.Row {
		return table.Row{k.Kind, humanize.Comma(int64(k.Commands)), copiesText(k.Copies), movedCell(k.copyTotal)}
	}, "command", ">number", ">copies", ">bytes moved")
	if len(d.Links) == 0 {
		return
	}
	totals(p, d.Links, func(l LinkTotal) table.Row {
		return table.Row{l.From, l.To, wayText(&copyResult{Way: l.Way}), copiesText(l.Copies), movedCell(l.copyTotal), share(l.Bytes, d.BytesMoved)}
	}, "from", "to", "way", ">copies", ">bytes moved", ">share")
	totals(p, d.Buffers, func(b bufferTotal) table.Row {
		return table.Row{b.Buffer, copiesText(b.Copies), movedCell(b.copyTotal), share(b.Bytes, d.BytesMoved)}
	}, "buffer", ">copies", ">bytes moved", ">share")
	if d.Evictions > 0 {
		fmt.Fprintf(p.w, "%s made room; %s were written back\n\n", count(d.Evictions, "eviction", "evictions"), roughText(d.BytesWrittenBack))
	}
}

// totals shows the first of all as rows.
func totals[T any](p *printer, all []T, row func(T) table.Row, header ...any) {
	t := p.table(header...)
	for _, x := range all[:min(shownTotals, len(all))] {
		t.AppendRow(row(x))
	}
	if n := len(all) - shownTotals; n > 0 {
		more := slices.Repeat(table.Row{""}, len(header))
		more[0] = fmt.Sprintf("and %s more", humanize.Comma(int64(n)))
		t.AppendRow(more)
	}
	p.render(t)
}

func copiesText(n int) string {
	if n == 0 {
		return ""
	}
	return humanize.Comma(int64(n))
}

func movedCell(t copyTotal) string {
	if t.Copies == 0 {
		return ""
	}
	return roughText(t.Bytes)
}

func share(part, of uint64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(of))
}

// devices shows the devices; together those that are of one kind, and were declared beside each
// other, in a row together. What whole storage would have needed is shown where that is more.
func (p *printer) devices(together bool) {
	header := []any{"device", "driver", "type", "memory", "peak use"}
	if together {
		header[0] = "devices"
	}
	parts := slices.ContainsFunc(p.r.Devices, func(d deviceResult) bool { return d.PeakWhole > d.PeakUse })
	if parts {
		header = append(header, "stored whole")
	}
	t := p.table(header...)
	for i := 0; i < len(p.r.Devices); {
		first := &p.r.Devices[i]
		use, whole, n := span{first.PeakUse, first.PeakUse}, span{first.PeakWhole, first.PeakWhole}, 1
		for ; together && i+n < len(p.r.Devices); n++ {
			d := &p.r.Devices[i+n]
			if d.Driver != first.Driver || d.Type != first.Type || d.Bytes != first.Bytes {
				break
			}
			use, whole = use.with(d.PeakUse), whole.with(d.PeakWhole)
		}
		name := first.Name
		if n > 1 {
			name = fmt.Sprintf("%s to %s (%s)", first.Name, p.r.Devices[i+n-1].Name, humanize.Comma(int64(n)))
		}
		row := table.Row{name, first.Driver, first.Type, memoryText(first.Bytes), use}
		if parts {
			row = append(row, whole)
		}
		t.AppendRow(row)
		i += n
	}
	p.render(t)
}

// span is from the least to the most of some numbers of bytes.
type span struct{ least, most uint64 }

func (s span) with(n uint64) span { return span{min(s.least, n), max(s.most, n)} }

func (s span) String() string {
	if s.least < s.most {
		return roughText(s.least) + " to " + roughText(s.most)
	}
	return roughText(s.most)
}

func memoryText(bytes uint64) string {
	if bytes == 0 {
		return "unlimited"
	}
	return roughText(bytes)
}
