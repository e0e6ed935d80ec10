// Package figures makes the columns of a table of a struct's fields, so that what people
// are shown, JSON, CSV and what a sweep draws are made of one type:
//
//	Peak uint64 `json:"peak_live" show:"peak live|size|-"`
//
// A column is named by its key in JSON. The tag show has its header for people, the format
// of its values, and what stands for a zero. A field without it is not shown. A struct is
// as many columns as its fields, whose headers begin with its own; a pointer to one may be
// nil, and has no values then.
//
// Formats are: none (as fmt.Sprint has it), a verb of package fmt, and
//
//	bytes   16 MiB             size  15.9 MiB, three digits
//	count   12,345             rate  3.4 GB/s
//	SI      3.4 G              yes   yes or no
//	span    a time of so many nanoseconds, four digits
//
// A [Table] prints rows so that they fit a screen.
package figures

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Column is a field of the rows of a table.
type Column struct {
	Name   string // its key in JSON; "" where it has none
	Header string // for people; "" where it is not shown
	Format string // of its values

	index   []int
	zero    string
	hasZero bool
}

// Of are the columns of rows of type T.
func Of[T any]() []Column { return columns(reflect.TypeFor[T](), nil, "") }

func columns(t reflect.Type, at []int, prefix string) (out []Column) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		tag, shown := f.Tag.Lookup("show")
		index := append(at[:len(at):len(at)], i)
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && (f.Anonymous || shown) {
			out = append(out, columns(of, index, prefix+tag)...)
			continue
		}
		if !f.IsExported() || !shown && name == "" {
			continue
		}
		c := Column{Name: name, index: index}
		if shown {
			header, rest, _ := strings.Cut(tag, "|")
			c.Header = prefix + header
			c.Format, c.zero, c.hasZero = strings.Cut(rest, "|")
		}
		out = append(out, c)
	}
	return out
}

// Value is what a row, a pointer to a struct, has in the column; nil where a pointer on
// the way is.
func (c *Column) Value(row any) any {
	v, err := reflect.ValueOf(row).Elem().FieldByIndexErr(c.index)
	if err != nil || !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// Text is the value for people.
func (c *Column) Text(row any) string {
	v := c.Value(row)
	if c.hasZero && (v == nil || reflect.ValueOf(v).IsZero()) {
		return c.zero
	}
	return Text(c.Format, v)
}

// Text writes a value in a format; nil is nothing.
func Text(format string, v any) string {
	if v == nil {
		return ""
	}
	n := number(v)
	switch format {
	case "":
		return fmt.Sprint(v)
	case "bytes":
		return humanize.IBytes(uint64(n))
	case "size":
		return Size(uint64(n))
	case "count":
		return humanize.Comma(int64(n))
	case "rate":
		return humanize.SIWithDigits(n, 1, "B/s")
	case "SI":
		return humanize.SI(n, "")
	case "span":
		return spanText(time.Duration(n))
	case "yes":
		if v == true {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprintf(format, v)
}

// number is a value of any kind of number.
func number(v any) float64 {
	switch x := reflect.ValueOf(v); {
	case x.CanInt():
		return float64(x.Int())
	case x.CanUint():
		return float64(x.Uint())
	case x.CanFloat():
		return x.Float()
	}
	return 0
}

// Size writes bytes with three digits and a binary unit.
func Size(b uint64) string {
	v, unit := float64(b), 0
	for ; v >= 1024; unit++ {
		v /= 1024
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", b)
	}
	return fmt.Sprintf("%.*f %ciB", 3-min(len(fmt.Sprintf("%.0f", v)), 3), v, "KMGTPE"[unit-1])
}

// spanText writes a time with four digits.
func spanText(d time.Duration) string {
	step := time.Duration(1)
	for d/step >= 10_000 {
		step *= 10
	}
	return d.Round(step).String()
}
