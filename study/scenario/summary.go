package scenario

import (
	"fmt"
	"slices"

	"godwit/internal/figures"

	"github.com/dustin/go-humanize"
)

// shownTotals is how many rows a table of totals has, at most.
const shownTotals = 12

// digest shows a run in totals: a screen or two, however many devices and commands there
// are.
func (p *printer) digest() {
	d := p.r.Digest()
	totals(p, d.Kinds, func(k kindTotal) []any {
		return []any{k.Kind, humanize.Comma(int64(k.Commands)), copiesText(k.Copies), movedCell(k.copyTotal)}
	}, "command", ">number", ">copies", ">bytes moved")
	if len(d.Links) == 0 {
		return
	}
	totals(p, d.Links, func(l LinkTotal) []any {
		return []any{l.From, l.To, wayText(&copyResult{Way: l.Way}), copiesText(l.Copies), movedCell(l.copyTotal), share(l.Bytes, d.BytesMoved)}
	}, "from", "to", "way", ">copies", ">bytes moved", ">share")
	totals(p, d.Buffers, func(b bufferTotal) []any {
		return []any{b.Buffer, copiesText(b.Copies), movedCell(b.copyTotal), share(b.Bytes, d.BytesMoved)}
	}, "buffer", ">copies", ">bytes moved", ">share")
	if d.Evictions > 0 {
		fmt.Fprintf(p.w, "%s made room; %s were written back\n\n", count(d.Evictions, "eviction", "evictions"), roughText(d.BytesWrittenBack))
	}
}

// totals shows the first of all as rows.
func totals[T any](p *printer, all []T, row func(T) []any, header ...any) {
	t := figures.NewTable(header...)
	for _, x := range all[:min(shownTotals, len(all))] {
		t.Row(row(x)...)
	}
	if n := len(all) - shownTotals; n > 0 {
		more := slices.Repeat([]any{""}, len(header))
		more[0] = fmt.Sprintf("and %s more", humanize.Comma(int64(n)))
		t.Row(more...)
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
	t := figures.NewTable(header...)
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
		row := []any{name, first.Driver, first.Type, memoryText(first.Bytes), use}
		if parts {
			row = append(row, whole)
		}
		t.Row(row...)
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
